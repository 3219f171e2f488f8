/* The bad samples of a source: a bit each, and a line on each of the first to be met. */
#include "data/skips.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"

dt_status dti_skips_init(dt_skips *s, int64_t samples, int64_t most, dt_err *err)
{
    *s = (dt_skips){.most = most};
    s->bad = dt_alloc((size_t)(samples / 8 + 1), 1);
    return s->bad != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "no memory to note bad samples of %" PRId64, samples);
}

void dti_skips_free(dt_skips *s)
{
    for (size_t i = 0; i < s->n; i++)
        dt_free(s->texts[i]);
    dt_free(s->texts);
    dt_free(s->bad);
    *s = (dt_skips){0};
}

bool dti_skips_has(const dt_skips *s, int64_t sample)
{
    return s->bad != NULL && (s->bad[sample / 8] >> (sample % 8) & 1) != 0;
}

dt_status dti_skips_allowed(const dt_skips *s, dt_err *err)
{
    if (s->n == 0 || (uint64_t)s->n <= (uint64_t)s->most)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "%zu bad samples, at most %" PRId64 " may be skipped; the last one: %s", s->n, s->most,
        s->texts[s->n - 1]);
}

/* The innermost note says what is wrong and where. */
static char *first_line(const dt_err *why)
{
    char *text = dt_strdup(why->text);
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

dt_status dti_skips_add(dt_skips *s, int64_t sample, const dt_err *why, dt_err *err)
{
    const uint8_t bit = (uint8_t)(1u << (sample % 8));
    if ((s->bad[sample / 8] & bit) != 0)
        return DT_OK;
    void *p = s->texts;
    char *text = first_line(why);
    if (text == NULL || !dt_grow(&p, &s->cap, s->n, sizeof *s->texts)) {
        dt_free(text);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to note a bad sample");
    }
    s->texts = p;
    s->texts[s->n++] = text;
    s->bad[sample / 8] |= bit;
    return dti_skips_allowed(s, err);
}
