/* A plan from its text. */
#include "memory/plan_text/plan_text.h"

#include <inttypes.h>
#include <string.h>

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

/* @line: number of the text's first line in its file, less one. */
static dt_status parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, size_t line, dt_err *err)
{
    *out = NULL;
    if (bytes > DT_PLAN_TEXT_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: %zu bytes, at most %d are allowed", name, bytes,
            DT_PLAN_TEXT_BYTES);
    dti_parser x = {
        .s = {.name = name, .line = line, .next = text, .stop = text + bytes, .err = err},
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

dt_status dti_plan_parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, dt_err *err)
{
    return parse(out, name, text, bytes, 0, err);
}

static bool begins_plan(const char *at, const char *end)
{
    static const char start[] = "dt-plan ";
    const size_t n = sizeof start - 1;
    return (size_t)(end - at) >= n && memcmp(at, start, n) == 0;
}

/* Where the plan behind the one at @from begins, and how many lines there are up to there. */
static const char *next_plan(const char *from, const char *end, size_t *lines)
{
    const char *at = from;
    bool within = false;
    *lines = 0;
    while (at < end && !(within && begins_plan(at, end))) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        within = within || begins_plan(at, end);
        at = newline != NULL ? newline + 1 : end;
        ++*lines;
    }
    return at;
}

dt_status dt_plans_parse(
    dt_plans *to, const char *name, const char *text, size_t bytes, dt_err *err)
{
    const char *at = text, *end = text + bytes;
    size_t line = 0, lines;
    *to = (dt_plans){0};
    if (bytes > DT_PLANS_TEXT_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: %zu bytes, at most %d are allowed", name, bytes,
            DT_PLANS_TEXT_BYTES);
    do {
        const char *next = next_plan(at, end, &lines);
        if (!dt_grow((void **)&to->plan, &to->cap, to->n, sizeof(dt_plan *)))
            return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
        DT_CHECK(parse(&to->plan[to->n], name, at, (size_t)(next - at), line, err));
        to->n++;
        line += lines;
        at = next;
    } while (at < end);
    return DT_OK;
}

void dt_plans_deinit(dt_plans *p)
{
    for (size_t i = 0; i < p->n; i++)
        dt_plan_destroy(p->plan[i]);
    dt_free(p->plan);
    *p = (dt_plans){0};
}
