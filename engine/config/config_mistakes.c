/* What is told of a text's mistakes: in the order of its lines, and not too many of them. */
#include "engine/config/config_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

/* A note of the trail, with those before it that it gives a place to. */
typedef struct note {
    const char *text;
    size_t n;
    long line;
} note;

/* The number in "FILE:LINE: ", where FILE may be the end of a long path; 0: of a flag; -1: the note
 * has no place. */
static long line_of(const dt_config *c, const char *text)
{
    const size_t name = strlen(c->file), line_bytes = strcspn(text, "\n");
    if (strncmp(text, DTI_SET, strlen(DTI_SET)) == 0 ||
        strncmp(text, DTI_VARY, strlen(DTI_VARY)) == 0)
        return 0;
    for (size_t n = strcspn(text, ":"); n <= name && n < line_bytes;
         n += 1 + strcspn(text + n + 1, ":")) {
        char *end;
        if (n == 0 || memcmp(text, c->file + name - n, n) != 0)
            continue;
        const long line = strtol(text + n + 1, &end, 10);
        if (line > 0 && *end == ':')
            return line;
    }
    return -1;
}

static int by_line(const void *a, const void *b)
{
    const note *p = a, *q = b;
    const int order = (p->line > q->line) - (p->line < q->line);
    return order != 0 ? order : (p->text > q->text) - (p->text < q->text);
}

/* The notes of @text; what is behind the last place comes last. */
static size_t cut_notes(const dt_config *c, const char *text, note *to)
{
    size_t n = 0;
    bool begun = false;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, "\n") + 1;
        const long line = line_of(c, text);
        if (!begun)
            to[n++] = (note){.text = text, .line = LONG_MAX};
        to[n - 1].n += bytes;
        begun = line < 0;
        if (!begun)
            to[n - 1].line = line;
        text += bytes;
    }
    return n;
}

void dt_config_sort_mistakes(const dt_config *c, size_t before, dt_err *err)
{
    if (dt_err_end(err) <= before)
        return;
    const char *text = err->text + before;
    size_t lines = 0;
    for (const char *s = text; (s = strchr(s, '\n')) != NULL; s++)
        lines++;
    note *notes = lines > 0 ? dt_alloc(lines, sizeof *notes) : NULL;
    char *sorted = notes != NULL ? dt_alloc(strlen(text) + 1, 1) : NULL;
    if (sorted != NULL) { /* without memory for it the order stays */
        const size_t n = cut_notes(c, text, notes);
        char *to = sorted;
        qsort(notes, n, sizeof *notes, by_line);
        for (size_t i = 0; i < n; to += notes[i++].n)
            memcpy(to, notes[i].text, notes[i].n);
        *to = '\0';
        dti_err_reorder(err, before, sorted);
    }
    dt_free(notes);
    dt_free(sorted);
}

/* A configuration with a dozen slips in it wants to know all of them; a text of other kind is known
 * by a few. */
enum { MOST = 12, FEW = 5 };

void dti_config_cut_mistakes(size_t before, size_t mistakes, bool sections, dt_err *err)
{
    if (err == NULL || mistakes <= (sections ? MOST : FEW))
        return;
    const char *end = err->text + before;
    for (int i = 0; i < FEW; i++) {
        end = strchr(end, '\n');
        if (end++ == NULL)
            return; /* a trail with no room for a few is short already */
    }
    dti_err_cut(err, (size_t)(end - err->text));
    (void)DT_FAIL(err, DT_E_CONFIG, "... and %zu more: is this a configuration?", mistakes - FEW);
}
