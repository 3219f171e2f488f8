/* What a plan's text has before its rows: the header, tensors, ops. */
#include "memory/plan_text/plan_parse_parts.h"

#include <string.h>

#include "engine/base/alloc.h"

static dt_status line_end(dti_parser *x)
{
    const dti_word w = dti_scan_rest(&x->s);
    return w.n == 0 ? DT_OK : dti_scan_bad(&x->s, "'%.*s' is one field too many", DTI_SHOW(w));
}

static dt_status parse_field(dti_parser *x, const dti_field *f)
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

dt_status dti_parse_header(dti_parser *x)
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

dt_status dti_parse_tensor(dti_parser *x)
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
static dt_status parse_arg(dti_parser *x, dti_word w, int mode)
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

static dt_status parse_safe(dti_parser *x, dti_word w, dt_plan_op *o)
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

static dt_status parse_way(dti_parser *x, dti_word w, dt_plan_op *o)
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

dt_status dti_parse_op(dti_parser *x)
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
