/* The rows of a plan's text, and their reasons. */
#include "memory/plan_text/plan_parse_parts.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/codec.h"

static dt_status parse_kind(const dti_parser *x, const dti_word cell[DTI_COLUMNS], dt_row *r)
{
    const dti_word s = cell[DTI_STREAM], k = cell[DTI_KIND];
    const char *letter = s.n == 1 ? strchr(dti_stream_letters, s.p[0]) : NULL;
    if (letter == NULL)
        return dti_scan_bad(&x->s, "stream '%.*s' is none of c, o, i, w and r", DTI_SHOW(s));
    r->stream = (uint8_t)(letter - dti_stream_letters);
    for (int i = 0; i < DT_ROW_KINDS; i++)
        if (dti_word_is(k, dt_row_name(i))) {
            r->kind = (uint16_t)i;
            return DT_OK;
        }
    return dti_scan_bad(&x->s, "kind of row '%.*s' is not known", DTI_SHOW(k));
}

/* What the kind must have is there, and nothing else. */
static dt_status check_columns(
    const dti_parser *x, const dti_word cell[DTI_COLUMNS], const dt_row *r)
{
    static const char *const names[DTI_COLUMNS] = {"number", "stream", "kind", "op", "tensor",
        "off", "bytes", "event", "over", "slot", "reason"};
    const dti_row_rule rule = dti_row_rules[r->kind];
    for (int i = DTI_OP; i <= DTI_SLOT; i++) {
        const bool given = !dti_word_is(cell[i], "-");
        if (cell[i].n == 0)
            return dti_scan_bad(&x->s, "the row ends before its %s", names[i]);
        if (!given && (rule.needs & DTI_COLUMN_BIT(i)) != 0)
            return dti_scan_bad(&x->s, "%s needs its %s", dt_row_name(r->kind), names[i]);
        if (given && ((rule.needs | rule.may) & DTI_COLUMN_BIT(i)) == 0)
            return dti_scan_bad(&x->s, "%s has no %s, but here stands '%.*s'", dt_row_name(r->kind),
                names[i], DTI_SHOW(cell[i]));
    }
    return DT_OK;
}

static dt_status parse_event(const dti_parser *x, dti_word w, int32_t *event)
{
    uint64_t v = 0;
    if (!dti_word_take(&w, "e"))
        return dti_scan_bad(&x->s, "event '%.*s' does not begin with e", DTI_SHOW(w));
    DT_CHECK(dti_scan_number(&x->s, "event", w, INT32_MAX, &v));
    if (v >= (uint64_t)x->p->n_event)
        return dti_scan_bad(
            &x->s, "event %" PRIu64 ", but the header says events=%" PRId32, v, x->p->n_event);
    *event = (int32_t)v;
    return DT_OK;
}

/* Takes =CODEC off the end of *w. */
static dt_status parse_codec(const dti_parser *x, dti_word *w, dt_row *r)
{
    size_t n;
    dti_word name;
    const dt_codec *const *codec = dt_codec_all(&n);
    if (!dti_word_cut(*w, '=', w, &name))
        return dti_scan_bad(&x->s, "'%.*s' is not TIER:OFFSET=CODEC/BYTES", DTI_SHOW(*w));
    for (size_t i = 0; i < n; i++)
        if (dti_word_is(name, codec[i]->name)) {
            r->codec = (int32_t)i + 1;
            return DT_OK;
        }
    return dti_scan_bad(&x->s, "codec '%.*s' is not known", DTI_SHOW(name));
}

static dt_status parse_slot(const dti_parser *x, dti_word w, dt_row *r)
{
    dti_word tier, at, stored;
    r->stored = r->bytes;
    if (dti_word_cut(w, '/', &w, &stored)) {
        DT_CHECK(parse_codec(x, &w, r));
        DT_CHECK(dti_scan_number(&x->s, "bytes of the slot", stored, UINT64_MAX, &r->stored));
    }
    if (!dti_word_cut(w, ':', &tier, &at))
        return dti_scan_bad(&x->s, "slot '%.*s' is not TIER:OFFSET", DTI_SHOW(w));
    for (int i = 0; i < DT_TIERS; i++)
        if (dti_word_is(tier, dt_tier_name(i))) {
            r->tier = (uint8_t)i;
            r->stored = i == DT_TIER_INPUT ? 0 : r->stored;
            return dti_scan_number(&x->s, "slot", at, UINT64_MAX, &r->slot);
        }
    return dti_scan_bad(&x->s, "tier '%.*s' is not known", DTI_SHOW(tier));
}

/* Every reason is kept as it comes; equal ones become one at the end. */
static dt_status parse_reason(dti_parser *x, dti_word w, int32_t *reason)
{
    dt_plan *p = x->p;
    char(*to)[DT_REASON_BYTES];
    if (!dt_grow((void **)&p->reason, &x->cap_reason, p->n_reason, sizeof *p->reason))
        return dti_scan_no_memory(&x->s);
    to = &p->reason[p->n_reason];
    DT_CHECK(dti_scan_escaped(&x->s, "reason", w, *to, sizeof *to));
    *reason = (int32_t)p->n_reason++;
    return DT_OK;
}

static dt_status parse_cells(dti_parser *x, const dti_word cell[DTI_COLUMNS], dt_row *r)
{
    if (!dti_word_is(cell[DTI_OP], "-"))
        DT_CHECK(dti_dict_find(&x->ops, &x->s, cell[DTI_OP], &r->op));
    if (!dti_word_is(cell[DTI_TENSOR], "-"))
        DT_CHECK(dti_dict_find(&x->tensors, &x->s, cell[DTI_TENSOR], &r->tensor));
    if (!dti_word_is(cell[DTI_OFF], "-"))
        DT_CHECK(dti_scan_number(&x->s, "off", cell[DTI_OFF], UINT64_MAX, &r->off));
    if (!dti_word_is(cell[DTI_BYTES], "-"))
        DT_CHECK(dti_scan_number(&x->s, "bytes", cell[DTI_BYTES], UINT64_MAX, &r->bytes));
    if (!dti_word_is(cell[DTI_EVENT], "-"))
        DT_CHECK(parse_event(x, cell[DTI_EVENT], &r->event));
    if (!dti_word_is(cell[DTI_OVER], "-"))
        DT_CHECK(dti_dict_find(&x->tensors, &x->s, cell[DTI_OVER], &r->over));
    if (!dti_word_is(cell[DTI_SLOT], "-"))
        DT_CHECK(parse_slot(x, cell[DTI_SLOT], r));
    if (!dti_word_is(cell[DTI_REASON], "-"))
        DT_CHECK(parse_reason(x, cell[DTI_REASON], &r->reason));
    return DT_OK;
}

dt_status dti_parse_row(dti_parser *x)
{
    dt_plan *p = x->p;
    dti_word cell[DTI_COLUMNS];
    dt_row r = {
        .op = DT_NONE, .tensor = DT_NONE, .over = DT_NONE, .event = DT_NONE, .reason = DT_NONE};
    uint64_t index = 0;
    if (!dt_grow((void **)&p->row, &x->cap_row, p->n_row, sizeof *p->row))
        return dti_scan_no_memory(&x->s);
    for (int i = 0; i < DTI_REASON; i++)
        cell[i] = dti_scan_word(&x->s);
    cell[DTI_REASON] = dti_scan_rest(&x->s);
    DT_CHECK(dti_scan_number(&x->s, "number of the row", cell[DTI_ROW], UINT64_MAX, &index));
    if (index != p->n_row)
        return dti_scan_bad(&x->s, "row %" PRIu64 " stands where row %zu is due", index, p->n_row);
    DT_CHECK(parse_kind(x, cell, &r));
    DT_CHECK(check_columns(x, cell, &r));
    DT_CHECK(parse_cells(x, cell, &r));
    p->row[p->n_row++] = r;
    return DT_OK;
}

dt_status dti_merge_reasons(dti_parser *x)
{
    dt_plan *p = x->p;
    size_t n = 0;
    dti_entry *v = dt_alloc(p->n_reason, sizeof *v);
    int32_t *to = v != NULL ? dt_alloc(p->n_reason, sizeof *to) : NULL;
    if (to == NULL) {
        dt_free(v);
        return dti_scan_no_memory(&x->s);
    }
    for (size_t i = 0; i < p->n_reason; i++)
        v[i] = (dti_entry){p->reason[i], (int32_t)i};
    dti_sort_entries(v, p->n_reason);
    /* The first of equal ones has the lowest number. */
    for (size_t i = 0, first = 0; i < p->n_reason; i++) {
        if (strcmp(v[first].text, v[i].text) != 0)
            first = i;
        to[v[i].id] = v[first].id;
    }
    for (size_t i = 0; i < p->n_reason; i++) {
        if (to[i] == (int32_t)i) {
            memmove(p->reason[n], p->reason[i], sizeof *p->reason);
            to[i] = (int32_t)n++;
        } else {
            to[i] = to[to[i]];
        }
    }
    p->n_reason = n;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].reason != DT_NONE)
            p->row[i].reason = to[p->row[i].reason];
    dt_free(v);
    dt_free(to);
    return DT_OK;
}
