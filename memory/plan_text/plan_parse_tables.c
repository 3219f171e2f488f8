/* What a plan's text has before its rows: the header, tensors, ops. */
#include "memory/plan_text/plan_parse_parts.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "memory/codec.h"

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
        return dti_scan_bad(&x->s, "'%.*s' is not the beginning of a plan: dt-plan 2", DTI_SHOW(w));
    w = dti_scan_word(&x->s);
    const bool old = dti_word_is(w, "1");
    if (!old && !dti_word_is(w, "2"))
        return dti_scan_bad(
            &x->s, "version '%.*s' of the format is not known, only 1 and 2", DTI_SHOW(w));
    for (size_t i = 0; i < (old ? DTI_FIELDS_1 : DTI_FIELDS); i++)
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

/* Undo the escapes of what may have blanks, into the plan's text. */
static dt_status parse_options(dti_parser *x, dti_word w, size_t *at)
{
    dt_plan *p = x->p;
    *at = p->n_text;
    for (size_t i = 0; i <= w.n; i++) {
        char c = i < w.n ? w.p[i] : '\0';
        if (!dt_grow((void **)&p->text, &x->cap_text, p->n_text, 1))
            return dti_scan_no_memory(&x->s);
        if (c == '\\') {
            char one[2];
            const dti_word code = {w.p + i, w.n - i < 4 ? w.n - i : 4};
            DT_CHECK(dti_scan_escaped(&x->s, "options", code, one, sizeof one));
            if (one[0] == '\0')
                return dti_scan_bad(&x->s, "options '%.*s' end in \\", DTI_SHOW(w));
            c = one[0];
            i += 3;
        }
        p->text[p->n_text++] = c;
    }
    return DT_OK;
}

dt_status dti_parse_node(dti_parser *x)
{
    dt_plan *p = x->p;
    dt_plan_node n = {.opts = 0};
    char name[DT_TENSOR_NAME_BYTES];
    if (!dt_grow((void **)&p->node, &x->cap_node, p->n_node, sizeof *p->node))
        return dti_scan_no_memory(&x->s);
    DT_CHECK(dti_dict_declare(&x->nodes, &x->s, dti_scan_word(&x->s), name));
    if (strlen(name) >= sizeof n.name)
        return dti_scan_bad(&x->s, "node '%.60s...' has more than %zu bytes", name, sizeof n.name);
    memcpy(n.name, name, strlen(name) + 1);
    DT_CHECK(parse_options(x, dti_scan_rest(&x->s), &n.opts));
    p->node[p->n_node++] = n;
    return DT_OK;
}

/* PORT= off the front of *w; what names no kernel has none. */
static dt_status parse_port(dti_parser *x, dti_word *w, uint8_t *port)
{
    dti_word before, after;
    char name[DTI_PORT_BYTES];
    *port = DT_PORTS;
    if (!dti_word_cut(*w, '=', &before, &after))
        return DT_OK;
    *w = after;
    for (int i = 0; i < DT_PORTS; i++) {
        dti_port_name(i, name);
        if (dti_word_is(before, name)) {
            *port = (uint8_t)i;
            return DT_OK;
        }
    }
    return dti_scan_bad(&x->s, "port '%.*s' is not known", DTI_SHOW(before));
}

/* [PORT=]NAME or [PORT=]NAME[from,to) */
static dt_status parse_arg(dti_parser *x, dti_word w, int mode)
{
    dt_plan *p = x->p;
    dt_plan_arg a = {.mode = (uint8_t)mode};
    DT_CHECK(parse_port(x, &w, &a.port));
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

/* LAYER/FORM */
static dt_status parse_kernel(dti_parser *x, dti_word w, dt_plan_op *o)
{
    dti_word layer, form;
    if (o->layer[0] != '\0')
        return dti_scan_bad(&x->s, "a second do:%.*s", DTI_SHOW(w));
    if (!dti_word_cut(w, '/', &layer, &form))
        return dti_scan_bad(&x->s, "'%.*s' is not LAYER/FORM", DTI_SHOW(w));
    DT_CHECK(dti_scan_escaped(&x->s, "layer", layer, o->layer, sizeof o->layer));
    if (o->layer[0] == '\0')
        return dti_scan_bad(&x->s, "'%.*s' names no layer", DTI_SHOW(w));
    o->n1 = x->p->batch;
    for (int i = 0; i < DT_FORMS; i++)
        if (dti_word_is(form, dti_form_name(i))) {
            o->form = (uint8_t)i;
            return DT_OK;
        }
    return dti_scan_bad(&x->s, "form '%.*s' is not known", DTI_SHOW(form));
}

static dt_status parse_samples(dti_parser *x, dti_word w, dt_plan_op *o)
{
    dti_word from, to;
    uint64_t n0 = 0, n1 = 0;
    if (!dti_word_cut(w, '/', &from, &to))
        return dti_scan_bad(&x->s, "'%.*s' is not FROM/TO", DTI_SHOW(w));
    DT_CHECK(dti_scan_number(&x->s, "end of the samples", to, INT64_MAX, &n1));
    DT_CHECK(dti_scan_number(&x->s, "start of the samples", from, INT64_MAX, &n0));
    o->n0 = (int64_t)n0;
    o->n1 = (int64_t)n1;
    return DT_OK;
}

/* CODEC/BYTES */
static dt_status parse_packing(dti_parser *x, dti_word w, dt_plan_op *o)
{
    dti_word name, bytes;
    size_t n;
    const dt_codec *const *codec = dt_codec_all(&n);
    if (!dti_word_cut(w, '/', &name, &bytes))
        return dti_scan_bad(&x->s, "'%.*s' is not CODEC/BYTES", DTI_SHOW(w));
    for (size_t i = 0; i < n; i++)
        if (dti_word_is(name, codec[i]->name)) {
            o->codec = (int32_t)i + 1;
            return dti_scan_number(&x->s, "packed bytes", bytes, UINT64_MAX, &o->packed);
        }
    return dti_scan_bad(&x->s, "codec '%.*s' is not known", DTI_SHOW(name));
}

/* What a kernel is told; *known becomes false for other words. */
static dt_status parse_call(dti_parser *x, dti_word w, dt_plan_op *o, bool *known)
{
    uint64_t v = 0;
    *known = true;
    if (dti_word_take(&w, "do:"))
        return parse_kernel(x, w, o);
    if (o->layer[0] != '\0') {
        if (dti_word_take(&w, "of:"))
            return dti_dict_find(&x->nodes, &x->s, w, &o->node);
        if (dti_word_take(&w, "samples:"))
            return parse_samples(x, w, o);
        if (dti_word_take(&w, "codec:"))
            return parse_packing(x, w, o);
        if (dti_word_take(&w, "alt:")) {
            DT_CHECK(dti_scan_number(&x->s, "alternative", w, DT_MAX_ALT - 1, &v));
            o->alt = (uint8_t)v;
            return DT_OK;
        }
        if (dti_word_take(&w, "count:")) {
            DT_CHECK(dti_scan_number(&x->s, "count", w, INT64_MAX, &v));
            o->count = (int64_t)v;
            return DT_OK;
        }
        if (dti_word_take(&w, "limit:"))
            return dti_scan_number(&x->s, "limit", w, SIZE_MAX, &o->limit);
        if (dti_word_take(&w, "type:")) {
            o->dtype = DT_BF16;
            return dti_word_is(w, dt_dtype_name(DT_BF16))
                       ? DT_OK
                       : dti_scan_bad(&x->s, "type '%.*s' is not known", DTI_SHOW(w));
        }
        o->needs_dx = o->needs_dx || dti_word_is(w, "dx");
        o->vector = o->vector || dti_word_is(w, "vector");
    }
    *known = o->layer[0] != '\0' && (dti_word_is(w, "dx") || dti_word_is(w, "vector"));
    return DT_OK;
}

dt_status dti_parse_op(dti_parser *x)
{
    dt_plan *p = x->p;
    dt_plan_op o = {.first = (int32_t)p->n_arg, .node = DT_NONE};
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
        bool known;
        DT_CHECK(parse_call(x, w, &o, &known));
        if (known)
            continue;
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
                &x->s, "'%.*s' does not begin with do:, r:, w:, u:, s: or k:", DTI_SHOW(w));
    }
    o.n = (int32_t)p->n_arg - o.first;
    p->op[p->n_op++] = o;
    return DT_OK;
}
