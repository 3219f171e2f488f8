/* What a wrong word may have meant: one of ours that is nearly the same, or what others call it. */
#include "engine/config/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"

enum { WORD_BYTES = 64, PART_LEAST = 3 };

static const struct {
    const char *theirs, *ours;
} foreign[] = {
#define DT_FOREIGN(theirs, ours) {#theirs, #ours},
#include "engine/config/foreign.def"
#undef DT_FOREIGN
};

static const struct {
    const char *words, *instead;
} absent[] = {
#define DT_ABSENT(words, instead) {words, instead},
#include "engine/config/absent.def"
#undef DT_ABSENT
};

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

/* The letters and digits of a word, or of several as one, small; the length, or 0 for what is no
 * word. */
static size_t plain(char to[WORD_BYTES + 1], const char *word)
{
    size_t n = 0;
    if (strlen(word) > WORD_BYTES)
        return 0;
    for (; *word != '\0'; word++)
        if (*word != '_' && *word != '-' && *word != ' ')
            to[n++] = dt_small(*word);
    to[n] = '\0';
    return n;
}

/* A letter in four may be wrong; of shorter words none, but two may have changed places. */
static bool is_near(const char *a, size_t n, const char *b, size_t m, size_t *edits)
{
    const size_t longer = n > m ? n : m;
    *edits = distance(a, n, b, m);
    if (longer == 3 && n == m && *edits == 1) {
        size_t same = 0;
        for (size_t i = 0; i < n; i++)
            same += a[i] == b[i];
        return same == 1;
    }
    return *edits <= longer / 4;
}

/* Of a word of two or three letters, the only one that is an edit away and no longer than three;
 * NULL where there are several. fp4 is no fp8 that was written wrongly, nor r9 an r8. */
static const char *only_short(const char *word, size_t n, const char *const *words)
{
    enum { SHORT_LEAST = 2, SHORT_MOST = 3 };
    char other[WORD_BYTES + 1];
    const char *found = NULL;
    for (; n >= SHORT_LEAST && n <= SHORT_MOST && *words != NULL; words++) {
        const size_t m = plain(other, *words);
        if (m < SHORT_LEAST || m > SHORT_MOST || distance(word, n, other, m) != 1 ||
            dt_alike_but_digits(word, other))
            continue;
        if (found != NULL)
            return NULL;
        found = *words;
    }
    return found;
}

static bool is_there(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

/* Whether one of the parts of @name begins so: behind '_' or '-', or the first digit of some. */
static bool begins_a_part(const char *name, const char *word, size_t n)
{
    char rest[WORD_BYTES + 1];
    for (size_t i = 0; name[i] != '\0'; i++) {
        const char before = i > 0 ? name[i - 1] : '_';
        const bool digit = isdigit((unsigned char)name[i]) && !isdigit((unsigned char)before);
        if ((before == '_' || before == '-' || digit) && plain(rest, name + i) > 0 &&
            strlen(rest) + i > n && strncmp(rest, word, n) == 0)
            return true;
    }
    return false;
}

/* The one of @words that has the word in it; NULL when there is none, or several. */
static const char *only_longer(const char *word, size_t n, const char *const *words)
{
    const char *found = NULL;
    for (; n >= PART_LEAST && *words != NULL; words++)
        if (begins_a_part(*words, word, n)) {
            if (found != NULL)
                return NULL;
            found = *words;
        }
    return found;
}

/* The one of @words that has something behind it in the word: "v100-16" of "v100". */
static const char *with_an_end(const char *word, const char *const *words)
{
    for (; *words != NULL; words++) {
        const size_t n = strlen(*words);
        if (n >= PART_LEAST && strncmp(*words, word, n) == 0 && (word[n] == '-' || word[n] == '_'))
            return *words;
    }
    return NULL;
}

/* What others call so, exactly or nearly. */
static const char *translated(const char *word, size_t n, bool exactly, const char *const *words)
{
    char other[WORD_BYTES + 1];
    for (size_t i = 0; i < DT_COUNT(foreign); i++) {
        size_t edits;
        const size_t m = plain(other, foreign[i].theirs);
        const bool means = exactly ? strcmp(word, other) == 0 : is_near(word, n, other, m, &edits);
        if (means && is_there(foreign[i].ours, words))
            return foreign[i].ours;
    }
    return NULL;
}

const char *dt_nearest(const char *word, const char *const *words)
{
    char given[WORD_BYTES + 1], other[WORD_BYTES + 1];
    const size_t n = plain(given, word);
    if (n == 0)
        return NULL;
    const char *best = translated(given, n, true, words);
    size_t fewest = WORD_BYTES, edits;
    for (size_t i = 0; best == NULL && words[i] != NULL; i++)
        if (strcmp(words[i], word) != 0 && plain(other, words[i]) == n && strcmp(given, other) == 0)
            best = words[i];
    if (best != NULL)
        return best;
    for (size_t i = 0; words[i] != NULL; i++) {
        const size_t m = plain(other, words[i]);
        if (m > 0 && is_near(given, n, other, m, &edits) && edits < fewest) {
            fewest = edits;
            best = words[i];
        }
    }
    if (best == NULL)
        best = only_longer(given, n, words);
    if (best == NULL)
        best = with_an_end(word, words);
    if (best == NULL)
        best = translated(given, n, false, words);
    return best != NULL ? best : only_short(given, n, words);
}

/* Whether @word, which is plain, is one of @words. */
static bool is_among(const char *words, const char *word)
{
    char one[WORD_BYTES + 1], other[WORD_BYTES + 1];
    for (const char *w = words, *end; *w != '\0'; w = end + strspn(end, ", ")) {
        end = w + strcspn(w, ",");
        snprintf(one, sizeof one, "%.*s", (int)(end - w), w);
        if (plain(other, one) > 0 && strcmp(other, word) == 0)
            return true;
    }
    return false;
}

const char *dt_absent(const char *word)
{
    char given[WORD_BYTES + 1];
    if (plain(given, word) == 0)
        return NULL;
    for (size_t i = 0; i < DT_COUNT(absent); i++)
        if (is_among(absent[i].words, given))
            return absent[i].instead;
    return NULL;
}

const char *dt_list_words(char *to, size_t bytes, const char *const *words)
{
    static const size_t rest = sizeof ", and 18446744073709551615 more";
    size_t at = 0, i = 0;
    for (to[0] = '\0'; words[i] != NULL && at + strlen(words[i]) + rest < bytes; i++)
        at += (size_t)snprintf(to + at, bytes - at, "%s%s", i > 0 ? ", " : "", words[i]);
    size_t more = 0;
    while (words[i + more] != NULL)
        more++;
    if (more > 0)
        snprintf(to + at, bytes - at, ", and %zu more", more);
    return to;
}

dt_status dt_unknown(const char *what, const char *word, const char *const *words, dt_err *err)
{
    char all[1792]; /* of a note with 2048 */
    const char *near = dt_nearest(word, words), *instead = dt_absent(word);
    dt_list_words(all, sizeof all, words);
    if (instead != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s: %s; there are: %s", what, instead, all);
    if (near == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s; there are: %s", what, all);
    return DT_FAIL(err, DT_E_CONFIG, "%s; did you mean '%s'? There are: %s", what, near, all);
}
