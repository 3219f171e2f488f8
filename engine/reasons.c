/* A table of short texts. Thousands are added one by one, so they are found by their hashes. */
#include "engine/reasons.h"

#include <stdarg.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "engine/base/text.h"

static dt_named texts_of(const dt_reasons *r)
{
    return (dt_named){r->text, sizeof *r->text, 0, .refers = false};
}

dt_status dt_reasons_add(dt_reasons *r, int32_t *number, dt_err *err, const char *format, ...)
{
    char text[DT_REASON_BYTES] = {0};
    va_list args;
    va_start(args, format);
    dt_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dt_utf8_mend(text);
    *number = (int32_t)dt_names_find(&r->names, texts_of(r), text);
    if (*number != 0)
        return DT_OK;
    if (!dt_names_grow(&r->names, texts_of(r), r->n) ||
        !dt_grow(&r->text, &r->cap, r->n, sizeof *r->text))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for reasons");
    memcpy(r->text[r->n], text, sizeof text);
    dt_names_add(&r->names, texts_of(r), r->n);
    *number = (int32_t)++r->n;
    return DT_OK;
}

const char *dt_reason_text(const dt_reasons *r, int32_t number)
{
    return number > 0 && (size_t)number <= r->n ? r->text[number - 1] : "";
}

dt_status dti_reasons_copy(dt_reasons *to, const dt_reasons *from, dt_err *err)
{
    *to = (dt_reasons){.n = from->n, .cap = from->n};
    to->text = dt_alloc(from->n, sizeof *to->text);
    if (to->text != NULL && from->n > 0)
        memcpy(to->text, from->text, from->n * sizeof *to->text);
    if (to->text != NULL && dt_names_fill(&to->names, texts_of(to), to->n))
        return DT_OK;
    dt_reasons_deinit(to);
    return DT_FAIL(err, DT_E_NOMEM, "no memory for reasons");
}

void dt_reasons_deinit(dt_reasons *r)
{
    dt_free(r->text);
    dt_names_deinit(&r->names);
    *r = (dt_reasons){0};
}
