/* A table of short texts. Thousands are added one by one, so they are told apart by their hashes.
 */
#include "engine/reasons.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "engine/base/text.h"

static uint32_t hash_of(const char *text) /* FNV-1a */
{
    uint32_t h = 2166136261u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

/* The slot of a text: its own, or the one that it is to have. */
static int32_t *slot_of(const dt_reasons *r, const char *text, uint32_t hash)
{
    size_t at = hash & (r->n_slot - 1);
    for (; r->slot[at] != 0; at = (at + 1) & (r->n_slot - 1)) {
        const size_t i = (size_t)r->slot[at] - 1;
        if (r->hash[i] == hash && strcmp(r->text[i], text) == 0)
            break;
    }
    return &r->slot[at];
}

/* Slots are a power of two, and half of them are free. */
static bool make_slots(dt_reasons *r)
{
    size_t n = r->n_slot > 0 ? r->n_slot : 16;
    while (n < 2 * (r->n + 1))
        n *= 2;
    if (n == r->n_slot)
        return true;
    int32_t *slot = dt_alloc(n, sizeof *slot);
    if (slot == NULL)
        return false;
    dt_free(r->slot);
    r->slot = slot;
    r->n_slot = n;
    for (size_t i = 0; i < r->n; i++)
        *slot_of(r, r->text[i], r->hash[i]) = (int32_t)i + 1;
    return true;
}

dt_status dt_reasons_add(dt_reasons *r, int32_t *number, dt_err *err, const char *format, ...)
{
    char text[DT_REASON_BYTES] = {0};
    va_list args;
    va_start(args, format);
    dt_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dt_utf8_mend(text);
    const uint32_t hash = hash_of(text);
    if (!make_slots(r))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for reasons");
    int32_t *slot = slot_of(r, text, hash);
    if (*slot != 0) {
        *number = *slot;
        return DT_OK;
    }
    if (!dt_grow(&r->text, &r->cap_text, r->n, sizeof *r->text) ||
        !dt_grow(&r->hash, &r->cap_hash, r->n, sizeof *r->hash))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for reasons");
    memcpy(r->text[r->n], text, sizeof text);
    r->hash[r->n] = hash;
    *number = *slot = (int32_t)++r->n;
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
    const bool ok = to->text != NULL && to->hash != NULL;
    if (ok && from->n > 0) {
        memcpy(to->text, from->text, from->n * sizeof *to->text);
        memcpy(to->hash, from->hash, from->n * sizeof *to->hash);
    }
    if (ok && make_slots(to))
        return DT_OK;
    dt_reasons_deinit(to);
    return DT_FAIL(err, DT_E_NOMEM, "no memory for reasons");
}

void dt_reasons_deinit(dt_reasons *r)
{
    dt_free(r->text);
    dt_free(r->hash);
    dt_free(r->slot);
    *r = (dt_reasons){0};
}
