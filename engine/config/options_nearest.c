#include "engine/config/options.h"

#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance where swapping two neighbours is one edit ("trian"). */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][WORD_BYTES + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    memset(rows, 0, sizeof rows);
    for (size_t j = 0; j <= nb; j++)
        last[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(last[j] + 1, row[j - 1] + 1);
            row[j] = least(row[j], last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[nb];
}

const char *dt_nearest(const char *word, const char *const *words)
{
    const size_t n = strlen(word);
    if (n > WORD_BYTES)
        return NULL;
    const char *best = NULL;
    size_t least_edits = (n + 2) / 3 + 1; /* a third of the word may be wrong */
    for (; *words != NULL; words++) {
        const size_t m = strlen(*words);
        if (m > WORD_BYTES)
            continue;
        const size_t d = distance(word, n, *words, m);
        if (d < least_edits && 2 * d < (n > m ? n : m)) {
            least_edits = d;
            best = *words;
        }
    }
    return best;
}

dt_status dt_unknown(const char *what, const char *word, const char *const *words, dt_err *err)
{
    char all[1024] = "";
    for (size_t i = 0, at = 0; words[i] != NULL && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i > 0 ? ", " : "", words[i]);
    const char *near = dt_nearest(word, words);
    if (near == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s; there are: %s", what, all);
    return DT_FAIL(err, DT_E_CONFIG, "%s; did you mean '%s'? There are: %s", what, near, all);
}
