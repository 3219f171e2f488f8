/* Reading a program: gaps, definitions, residency, zeros. */
#include "memory/pass.h"

#include <string.h>

#include "engine/base/alloc.h"

/* Whether this access brings new bytes into being, so that what lay there before is over. */
static bool defines(const dt_program *p, const dt_access *a, bool first)
{
    const dt_op_kind k = p->op[a->op].kind;
    return first ||
           (a->mode == DT_WRITE && (k == DT_OP_FETCH || k == DT_OP_IN || k == DT_OP_DECODE));
}

bool dti_gap_next(const dt_program *p, int32_t tensor, int32_t *i, dti_gap *g)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    const dt_tensor *t = &p->tensor[tensor];
    if (t->home != DT_NONE || t->pin != DT_PIN_NONE || t->group != DT_NONE)
        return false;
    const int32_t loss = p->loss == DT_NONE ? -1 : dt_pos(p, p->loss);
    for (; *i + 1 < n; ++*i) {
        const dt_access *from = &a[*i], *to = &a[*i + 1];
        const int32_t from_pos = dt_pos(p, from->op), to_pos = dt_pos(p, to->op);
        /* Before a write there is nothing to keep: the next definition, or a piece of a split op,
         * before which the tensor is not whole. */
        if (to_pos == from_pos + 1 || to->mode == DT_WRITE)
            continue;
        *g = (dti_gap){
            tensor, from->op, to->op, from_pos, to_pos, from_pos <= loss && to_pos > loss, 0};
        ++*i;
        return true;
    }
    return false;
}

bool dti_may_free(const dt_tensor *t, uint64_t least)
{
    return t->group == DT_NONE && t->bytes > 0 && t->bytes >= least;
}

dti_gap dti_gap_now(const dt_program *p, dti_gap g)
{
    g.from_pos = dt_pos(p, g.from);
    g.to_pos = dt_pos(p, g.to);
    return g;
}

bool dti_gap_crossing(const dt_program *p, int32_t tensor, dti_gap *g)
{
    for (int32_t i = 0; dti_gap_next(p, tensor, &i, g);)
        if (g->crosses_loss)
            return true;
    return false;
}

int32_t dti_definition(const dt_program *p, int32_t tensor, int32_t pos)
{
    int32_t n, def = DT_NONE;
    const dt_access *a = dt_accesses(p, tensor, &n);
    if (p->tensor[tensor].home != DT_NONE)
        return DT_NONE;
    for (int32_t i = 0; i < n && dt_pos(p, a[i].op) <= pos; i++)
        if (defines(p, &a[i], i == 0))
            def = a[i].op;
    return def;
}

int32_t dti_next_access(const dt_program *p, int32_t tensor, int32_t pos)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++)
        if (dt_pos(p, a[i].op) > pos)
            return dt_pos(p, a[i].op);
    return pos;
}

bool dti_resident(const dt_program *p, int32_t tensor, int32_t pos)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    if (p->tensor[tensor].home != DT_NONE)
        return true;
    for (int32_t i = 0; i + 1 < n; i++)
        if (dt_pos(p, a[i].op) < pos && dt_pos(p, a[i + 1].op) >= pos)
            return !defines(p, &a[i + 1], false);
    return false;
}

int32_t dti_root(const dt_program *p, int32_t tensor)
{
    while (p->tensor[tensor].of != DT_NONE)
        tensor = p->tensor[tensor].of;
    return tensor;
}

int32_t dti_producer(const dt_program *p, int32_t tensor)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    return n > 0 && p->tensor[tensor].home == DT_NONE ? a[0].op : DT_NONE;
}

const dt_form *dti_recompute_form(const dt_op *op, dt_form_kind *kind)
{
    *kind = op->form == DT_FORWARD && op->desc->form[DT_RECOMPUTE].suffix != NULL ? DT_RECOMPUTE
                                                                                  : op->form;
    return &op->desc->form[*kind];
}

bool dti_recompute_reads(const dt_operand *a, const dt_form *f)
{
    return a->mode == DT_READ || (f->reads & DT_BIT(a->port)) != 0;
}

bool dti_repeatable(const dt_program *p, int32_t tensor)
{
    tensor = dti_root(p, tensor);
    const int32_t id = dti_producer(p, tensor);
    if (id == DT_NONE)
        return false;
    const dt_op *op = &p->op[id];
    if (op->kind == DT_OP_REORDER)
        return true;
    if (op->kind != DT_OP_FORWARD || !op->desc->repeatable)
        return false;
    dt_form_kind kind;
    const dt_form *f = dti_recompute_form(op, &kind);
    for (int i = 0; i < op->n_arg; i++) {
        const int port = op->arg[i].port;
        /* Forward writes stashes through the chosen alternative; a recompute form lists its own. */
        if (op->arg[i].tensor == tensor && op->arg[i].mode == DT_WRITE)
            return (f->writes & DT_BIT(port)) != 0 || (dti_is_stash(port) && kind == DT_FORWARD);
    }
    return false;
}

dt_status dti_pass_no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for a policy");
}

int32_t *dti_order_copy(const dt_program *p)
{
    int32_t *order = dt_alloc(p->n_order, sizeof *order);
    if (order != NULL)
        memcpy(order, p->order, p->n_order * sizeof *order);
    return order;
}

bool dti_often_zero(const dt_program *p, int32_t node)
{
    for (; node != DT_GRAPH_INPUT; node = p->graph->node[node].in[0]) {
        const dt_node *nd = &p->graph->node[node];
        if (nd->desc->reads_sign || nd->with[0] != '\0') /* fused with the ReLU behind it */
            return true;
        if (!nd->desc->keeps_sign && !nd->desc->identity && dt_value_free(nd->desc) < 0)
            return false;
    }
    return false;
}
