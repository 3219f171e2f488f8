/* What ops cost at least on this machine, and in which row of the table they count. */
#include "tools/bench_parts.h"

#include <string.h>

#include "engine/base/alloc.h"

static const char *pass_of(dt_op_kind k)
{
    switch (k) {
    case DT_OP_FORWARD:
        return "forward";
    case DT_OP_BACKWARD:
        return "backward";
    case DT_OP_CLONE:
        return "recompute";
    case DT_OP_REORDER:
        return "reorder";
    case DT_OP_UPDATE:
        return "update";
    case DT_OP_ENCODE:
    case DT_OP_DECODE:
        return "codec";
    case DT_OP_FETCH:
    case DT_OP_OUT:
    case DT_OP_IN:
    case DT_OP_KINDS:
        break;
    }
    return "copy";
}

static dt_status find_row(dti_bench *b, const char *kind, const char *pass, int *row, dt_err *err)
{
    for (*row = 0; *row < b->n_row; (*row)++)
        if (strcmp(b->row[*row].kind, kind) == 0 && strcmp(b->row[*row].pass, pass) == 0)
            return DT_OK;
    if (b->n_row == DTI_MOST_ROWS)
        return DT_FAIL(err, DT_E_INTERNAL, "more than %d kinds of ops", DTI_MOST_ROWS);
    b->row[b->n_row++] = (dt_bench_row){.kind = kind, .pass = pass};
    return DT_OK;
}

/* Bytes read and written; scratch stays in the caches, if all is well. */
static double bytes_of(const dt_plan *p, const dt_plan_op *op)
{
    double bytes = 0;
    for (int32_t i = op->first; i < op->first + op->n; i++) {
        const dt_plan_arg *a = &p->arg[i];
        if (p->tensor[a->tensor].role != DT_ROLE_WORKSPACE)
            bytes += (double)(a->to - a->from) * (a->mode == DT_UPDATES ? 2 : 1);
    }
    return bytes;
}

static dt_status cost_of(dti_bench *b, const dt_planned *q, dti_op_cost *to, dt_err *err)
{
    const dt_program *p = q->program;
    size_t at = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc == NULL)
            continue;
        const dt_plan_op *row = &q->plan->op[at];
        const char *kind = op->codec != NULL ? op->codec->name : op->desc->name;
        DT_CHECK(find_row(b, kind, pass_of(op->kind), &to[at].row, err));
        to[at].floor = dt_machine_floor(
            &b->machine, dt_op_call(p, op).dtype, row->flops, bytes_of(q->plan, row));
        at++;
    }
    return DT_OK;
}

dt_status dti_bench_find_costs(dti_bench *b, dt_err *err)
{
    int row;
    DT_CHECK(find_row(b, "batch, host, disk", "copy", &row, err));
    DT_CHECK(find_row(b, "waiting for copies", "copy", &row, err));
    b->cost = dt_alloc(b->s->plans->n, sizeof(dti_op_cost *));
    if (b->cost == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of ops");
    for (size_t i = 0; i < b->s->plans->n; i++) {
        const dt_planned *q = b->s->plans->planned[i];
        b->cost[i] = dt_alloc(q->plan->n_op, sizeof(dti_op_cost));
        if (b->cost[i] == NULL)
            return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of ops");
        DT_CHECK(cost_of(b, q, b->cost[i], err));
    }
    return DT_OK;
}
