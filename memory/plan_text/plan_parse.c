#include "memory/plan_text/plan_text.h"

#include <inttypes.h>

#include "engine/base/alloc.h"
#include "memory/plan_text/plan_parse_parts.h"

/* Go on to a section; those passed over are empty. */
static dt_status enter(dti_parser *x, dti_section to)
{
    if (to < x->section)
        return dti_scan_bad(
            &x->s, "nodes come before tensors, tensors before ops, ops before rows");
    if (x->section < DTI_IN_TENSORS && to >= DTI_IN_TENSORS)
        DT_CHECK(dti_dict_close(&x->nodes, &x->s, (const char *)x->p->node, sizeof *x->p->node));
    if (x->section < DTI_IN_OPS && to >= DTI_IN_OPS)
        DT_CHECK(
            dti_dict_close(&x->tensors, &x->s, (const char *)x->p->tensor, sizeof *x->p->tensor));
    if (x->section < DTI_IN_ROWS && to == DTI_IN_ROWS)
        DT_CHECK(dti_dict_close(&x->ops, &x->s, (const char *)x->p->op, sizeof *x->p->op));
    x->section = to;
    return DT_OK;
}

static dt_status parse_record(dti_parser *x)
{
    if (x->section == DTI_IN_HEADER) {
        DT_CHECK(dti_parse_header(x));
        return enter(x, DTI_IN_NODES);
    }
    const char *start = x->s.at;
    const dti_word w = dti_scan_word(&x->s);
    if (dti_word_is(w, "node")) {
        DT_CHECK(enter(x, DTI_IN_NODES));
        return dti_parse_node(x);
    }
    if (dti_word_is(w, "tensor")) {
        DT_CHECK(enter(x, DTI_IN_TENSORS));
        return dti_parse_tensor(x);
    }
    if (dti_word_is(w, "op")) {
        DT_CHECK(enter(x, DTI_IN_OPS));
        return dti_parse_op(x);
    }
    x->s.at = start;
    DT_CHECK(enter(x, DTI_IN_ROWS));
    return dti_parse_row(x);
}

static dt_status parse_text(dti_parser *x)
{
    bool more;
    for (;;) {
        DT_CHECK(dti_scan_line(&x->s, &more));
        if (!more)
            break;
        DT_CHECK(parse_record(x));
    }
    if (x->section == DTI_IN_HEADER)
        return dti_scan_bad(&x->s, "there is no plan: no line begins with dt-plan");
    DT_CHECK(enter(x, DTI_IN_ROWS));
    if ((size_t)x->p->n_event > x->p->n_row)
        return dti_scan_bad(
            &x->s, "events=%" PRId32 ", but there are only %zu rows", x->p->n_event, x->p->n_row);
    return dti_merge_reasons(x);
}

dt_status dt_plan_parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, dt_err *err)
{
    *out = NULL;
    if (bytes > DT_PLAN_TEXT_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: %zu bytes, at most %d are allowed", name, bytes,
            DT_PLAN_TEXT_BYTES);
    dti_parser x = {.s = {.name = name, .next = text, .stop = text + bytes, .err = err},
        .p = dt_alloc(1, sizeof *x.p),
        .nodes.what = "node",
        .tensors.what = "tensor",
        .ops.what = "op"};
    if (x.p == NULL)
        return dti_scan_no_memory(&x.s);
    const dt_status st = parse_text(&x);
    dti_dict_deinit(&x.nodes);
    dti_dict_deinit(&x.tensors);
    dti_dict_deinit(&x.ops);
    if (st != DT_OK) {
        dt_plan_destroy(x.p);
        return st;
    }
    *out = x.p;
    return DT_OK;
}
