#include "memory/plan_text.h"

#include <inttypes.h>
#include <string.h>

#include "engine/alloc.h"
#include "memory/codec.h"
#include "memory/plan_dict.h"
#include "memory/plan_line.h"

typedef enum section { HEADER, TENSORS, OPS, ROWS } section;

typedef struct parser {
    dti_scan s;
    dt_plan *p;
    size_t cap_tensor, cap_op, cap_arg, cap_row, cap_reason;
    section section;
    dti_dict tensors, ops;
} parser;

static dt_status line_end(parser *x)
{
    const dti_word w = dti_scan_rest(&x->s);
    return w.n == 0 ? DT_OK : dti_scan_bad(&x->s, "'%.*s' is one field too many", DTI_SHOW(w));
}

static dt_status parse_field(parser *x, const dti_field *f)
{
    dti_word w = dti_scan_word(&x->s);
    char *to = (char *)x->p + f->at;
    uint64_t v = 0;
    const dti_word whole = w;
    if (!dti_word_take(&w, f->key) || !dti_word_take(&w, "="))
        return dti_scan_bad(&x->s, "'%.*s' stands where %s=... is due", DTI_SHOW(whole), f->key);
    if (f->kind == DTI_TEXT)
        return dti_scan_escaped(&x->s, f->key, w, to, f->bytes);
    const uint64_t most = f->kind == DTI_U64   ? UINT64_MAX
                          : f->kind == DTI_I64 ? INT64_MAX
                                               : INT32_MAX;
    DT_CHECK(dti_scan_number(&x->s, f->key, w, most, &v));
    const int32_t small = (int32_t)(v & INT32_MAX);
    memcpy(to, f->kind == DTI_I32 ? (const void *)&small : (const void *)&v, f->bytes);
    return DT_OK;
}

static dt_status parse_header(parser *x)
{
    dti_word w = dti_scan_word(&x->s);
    if (!dti_word_is(w, "dt-plan"))
        return dti_scan_bad(&x->s, "'%.*s' is not the beginning of a plan: dt-plan 1", DTI_SHOW(w));
    w = dti_scan_word(&x->s);
    if (!dti_word_is(w, "1"))
        return dti_scan_bad(
            &x->s, "version '%.*s' of the format is not known, only 1", DTI_SHOW(w));
    for (size_t i = 0; i < DTI_FIELDS; i++)
        DT_CHECK(parse_field(x, &dti_fields[i]));
    return line_end(x);
}

static dt_status parse_tensor(parser *x)
{
    dt_plan *p = x->p;
    dt_plan_tensor t = {.name = ""};
    char role[32];
    if (!dt_grow((void **)&p->tensor, &x->cap_tensor, p->n_tensor, sizeof *p->tensor))
        return dti_scan_no_memory(&x->s);
    DT_CHECK(dti_dict_declare(&x->tensors, &x->s, dti_scan_word(&x->s), t.name));
    DT_CHECK(dti_scan_escaped(&x->s, "role", dti_scan_word(&x->s), role, sizeof role));
    if (dt_role_find(role) < 0)
        return dti_scan_bad(&x->s, "role '%s' is not known", role);
    t.role = (uint16_t)dt_role_find(role);
    DT_CHECK(dti_scan_number(&x->s, "bytes", dti_scan_word(&x->s), UINT64_MAX, &t.bytes));
    const dti_word home = dti_scan_word(&x->s);
    t.persistent = !dti_word_is(home, "-");
    if (t.persistent)
        DT_CHECK(dti_scan_number(&x->s, "home", home, UINT64_MAX, &t.home));
    p->tensor[p->n_tensor++] = t;
    return line_end(x);
}

/* NAME or NAME[from,to) */
static dt_status parse_arg(parser *x, dti_word w, int mode)
{
    dt_plan *p = x->p;
    dt_plan_arg a = {.mode = (uint8_t)mode};
    dti_word name = w, range, from, to;
    const bool part = dti_word_cut(w, '[', &name, &range);
    DT_CHECK(dti_dict_find(&x->tensors, &x->s, name, &a.tensor));
    const uint64_t bytes = p->tensor[a.tensor].bytes;
    a.to = bytes;
    if (part) {
        if (range.n == 0 || range.p[range.n - 1] != ')' || !dti_word_cut(range, ',', &from, &to))
            return dti_scan_bad(&x->s, "'%.*s' does not end in [from,to)", DTI_SHOW(w));
        to.n--;
        DT_CHECK(dti_scan_number(&x->s, "end of the range", to, bytes, &a.to));
        DT_CHECK(dti_scan_number(&x->s, "start of the range", from, a.to, &a.from));
    }
    if (!dt_grow((void **)&p->arg, &x->cap_arg, p->n_arg, sizeof *p->arg))
        return dti_scan_no_memory(&x->s);
    p->arg[p->n_arg++] = a;
    return DT_OK;
}

static dt_status parse_safe(parser *x, dti_word w, dt_plan_op *o)
{
    dti_word out, in;
    if (o->n_safe == DT_MAX_OVER)
        return dti_scan_bad(&x->s, "'%.*s': more than %d safe pairs", DTI_SHOW(w), DT_MAX_OVER);
    if (!dti_word_cut(w, '/', &out, &in))
        return dti_scan_bad(&x->s, "'%.*s' is not OUT/IN", DTI_SHOW(w));
    DT_CHECK(dti_dict_find(&x->tensors, &x->s, out, &o->safe[o->n_safe].out));
    DT_CHECK(dti_dict_find(&x->tensors, &x->s, in, &o->safe[o->n_safe].in));
    o->n_safe++;
    return DT_OK;
}

static dt_status parse_way(parser *x, dti_word w, dt_plan_op *o)
{
    dti_word way, work;
    if (o->way[0] != '\0')
        return dti_scan_bad(&x->s, "a second k:%.*s", DTI_SHOW(w));
    if (!dti_word_cut(w, '/', &way, &work))
        return dti_scan_bad(&x->s, "'%.*s' is not WAY/WORK", DTI_SHOW(w));
    DT_CHECK(dti_scan_escaped(&x->s, "way", way, o->way, sizeof o->way));
    if (o->way[0] == '\0')
        return dti_scan_bad(&x->s, "'%.*s' names no way", DTI_SHOW(w));
    return dti_scan_number(&x->s, "scratch of the way", work, UINT64_MAX, &o->work);
}

static dt_status parse_op(parser *x)
{
    dt_plan *p = x->p;
    dt_plan_op o = {.first = (int32_t)p->n_arg};
    char kind[32];
    if (!dt_grow((void **)&p->op, &x->cap_op, p->n_op, sizeof *p->op))
        return dti_scan_no_memory(&x->s);
    DT_CHECK(dti_dict_declare(&x->ops, &x->s, dti_scan_word(&x->s), o.name));
    DT_CHECK(dti_scan_escaped(&x->s, "kind of op", dti_scan_word(&x->s), kind, sizeof kind));
    if (dt_op_kind_find(kind) < 0)
        return dti_scan_bad(&x->s, "kind of op '%s' is not known", kind);
    o.kind = (uint16_t)dt_op_kind_find(kind);
    DT_CHECK(dti_scan_real(&x->s, "flops", dti_scan_word(&x->s), &o.flops));
    for (dti_word w = dti_scan_word(&x->s); w.n > 0; w = dti_scan_word(&x->s)) {
        dti_word v = w;
        if (dti_word_take(&v, "s:"))
            DT_CHECK(parse_safe(x, v, &o));
        else if (dti_word_take(&v, "r:"))
            DT_CHECK(parse_arg(x, v, DT_READ));
        else if (dti_word_take(&v, "w:"))
            DT_CHECK(parse_arg(x, v, DT_WRITE));
        else if (dti_word_take(&v, "u:"))
            DT_CHECK(parse_arg(x, v, DT_UPDATES));
        else if (dti_word_take(&v, "k:"))
            DT_CHECK(parse_way(x, v, &o));
        else
            return dti_scan_bad(
                &x->s, "'%.*s' does not begin with r:, w:, u:, s: or k:", DTI_SHOW(w));
    }
    o.n = (int32_t)p->n_arg - o.first;
    p->op[p->n_op++] = o;
    return DT_OK;
}

static dt_status parse_kind(const parser *x, const dti_word cell[DTI_COLUMNS], dt_row *r)
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
static dt_status check_columns(const parser *x, const dti_word cell[DTI_COLUMNS], const dt_row *r)
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

static dt_status parse_event(const parser *x, dti_word w, int32_t *event)
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
static dt_status parse_codec(const parser *x, dti_word *w, dt_row *r)
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

static dt_status parse_slot(const parser *x, dti_word w, dt_row *r)
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
static dt_status parse_reason(parser *x, dti_word w, int32_t *reason)
{
    dt_plan *p = x->p;
    char(*to)[DT_NAME_BYTES];
    if (!dt_grow((void **)&p->reason, &x->cap_reason, p->n_reason, sizeof *p->reason))
        return dti_scan_no_memory(&x->s);
    to = &p->reason[p->n_reason];
    DT_CHECK(dti_scan_escaped(&x->s, "reason", w, *to, sizeof *to));
    *reason = (int32_t)p->n_reason++;
    return DT_OK;
}

static dt_status parse_cells(parser *x, const dti_word cell[DTI_COLUMNS], dt_row *r)
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

static dt_status parse_row(parser *x)
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

/* Go on to a section; those passed over are empty. */
static dt_status enter(parser *x, section to)
{
    if (to < x->section)
        return dti_scan_bad(&x->s, "tensors come before ops, ops before rows");
    if (x->section < OPS && to >= OPS)
        DT_CHECK(
            dti_dict_close(&x->tensors, &x->s, (const char *)x->p->tensor, sizeof *x->p->tensor));
    if (x->section < ROWS && to == ROWS)
        DT_CHECK(dti_dict_close(&x->ops, &x->s, (const char *)x->p->op, sizeof *x->p->op));
    x->section = to;
    return DT_OK;
}

static dt_status parse_record(parser *x)
{
    if (x->section == HEADER) {
        DT_CHECK(parse_header(x));
        return enter(x, TENSORS);
    }
    const char *start = x->s.at;
    const dti_word w = dti_scan_word(&x->s);
    if (dti_word_is(w, "tensor")) {
        DT_CHECK(enter(x, TENSORS));
        return parse_tensor(x);
    }
    if (dti_word_is(w, "op")) {
        DT_CHECK(enter(x, OPS));
        return parse_op(x);
    }
    x->s.at = start;
    DT_CHECK(enter(x, ROWS));
    return parse_row(x);
}

/* Make equal reasons one, numbered in the order in which rows first use them. */
static dt_status merge_reasons(parser *x)
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

static dt_status parse_text(parser *x)
{
    bool more;
    for (;;) {
        DT_CHECK(dti_scan_line(&x->s, &more));
        if (!more)
            break;
        DT_CHECK(parse_record(x));
    }
    if (x->section == HEADER)
        return dti_scan_bad(&x->s, "there is no plan: no line begins with dt-plan");
    DT_CHECK(enter(x, ROWS));
    if ((size_t)x->p->n_event > x->p->n_row)
        return dti_scan_bad(
            &x->s, "events=%" PRId32 ", but there are only %zu rows", x->p->n_event, x->p->n_row);
    return merge_reasons(x);
}

dt_status dt_plan_parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, dt_err *err)
{
    *out = NULL;
    if (bytes > DT_PLAN_TEXT_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: %zu bytes, at most %d are allowed", name, bytes,
            DT_PLAN_TEXT_BYTES);
    parser x = {.s = {.name = name, .next = text, .stop = text + bytes, .err = err},
        .p = dt_alloc(1, sizeof *x.p),
        .tensors.what = "tensor",
        .ops.what = "op"};
    if (x.p == NULL)
        return dti_scan_no_memory(&x.s);
    const dt_status st = parse_text(&x);
    dti_dict_deinit(&x.tensors);
    dti_dict_deinit(&x.ops);
    if (st != DT_OK) {
        dt_plan_destroy(x.p);
        return st;
    }
    *out = x.p;
    return DT_OK;
}
