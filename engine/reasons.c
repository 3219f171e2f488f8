/* A table of short texts. Thousands are added one by one, so they are told apart by their hashes.
 */
#include "engine/reasons.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"

static uint32_t hash_of(const char *text) /* FNV-1a */
{
    uint32_t h = 2166136261u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

dt_status dt_reasons_add(dt_reasons *r, int32_t *number, dt_err *err, const char *format, ...)
{
    char text[DT_REASON_BYTES] = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t n = strlen(text);
    for (size_t bad; (bad = dt_utf8_bad(text, n)) < n;)
        text[bad] = '?';
    const uint32_t hash = hash_of(text);
    for (size_t i = r->n; i-- > 0;) /* mostly one of the last */
        if (r->hash[i] == hash && strcmp(r->text[i], text) == 0) {
            *number = (int32_t)i + 1;
            return DT_OK;
        }
    if (!dt_grow((void **)&r->text, &r->cap_text, r->n, sizeof *r->text) ||
        !dt_grow((void **)&r->hash, &r->cap_hash, r->n, sizeof *r->hash))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for reasons");
    memcpy(r->text[r->n], text, sizeof text);
    r->hash[r->n] = hash;
    *number = (int32_t)++r->n;
    return DT_OK;
}

const char *dt_reason_text(const dt_reasons *r, int32_t number)
{
    return number > 0 && (size_t)number <= r->n ? r->text[number - 1] : "";
}

dt_status dti_reasons_copy(dt_reasons *to, const dt_reasons *from, dt_err *err)
{
    *to = (dt_reasons){.n = from->n, .cap_text = from->n, .cap_hash = from->n};
    to->text = dt_alloc(from->n, sizeof *to->text);
    to->hash = dt_alloc(from->n, sizeof *to->hash);
    if (to->text == NULL || to->hash == NULL) {
        dt_reasons_deinit(to);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for reasons");
    }
    if (from->n > 0) {
        memcpy(to->text, from->text, from->n * sizeof *to->text);
        memcpy(to->hash, from->hash, from->n * sizeof *to->hash);
    }
    return DT_OK;
}

void dt_reasons_deinit(dt_reasons *r)
{
    dt_free(r->text);
    dt_free(r->hash);
    *r = (dt_reasons){0};
}
