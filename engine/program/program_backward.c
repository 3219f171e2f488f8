/* The backward half: layers in reverse. Gradients that meet at a value are summed as soon as the
 * second arrives, so that no more than one waits. */
#include "engine/program/builder.h"

/* A gradient arrives at a value: keep it, or add it to what is there. */
static dt_status arrive(dti_builder *b, int32_t value, int32_t tensor, dt_err *err)
{
    if (b->arrived[value]++ == 0) {
        b->grad[value] = tensor;
        return DT_OK;
    }
    char name[DT_TENSOR_NAME_BYTES];
    const bool last = b->arrived[value] == b->parts[value];
    if (last)
        dti_name(name, "d.%s", b->g->node[value].name);
    else
        dti_name(name, "d.%s+%d", b->g->node[value].name, b->arrived[value]);
    int32_t id;
    DT_CHECK(dti_add_tensor(
        b, name, DT_ROLE_ACTIVATION_GRADIENTS, 0, dti_value_bytes(b, value), value, &id, err));
    dt_op op = dti_start_op(b, DT_OP_BACKWARD, b->o->ops.sum, DT_NONE, DT_FORWARD, "");
    dti_name(op.name, "%s.sum", name + 2); /* without the "d." */
    op.dtype = b->g->dtype;
    op.count = (int64_t)(b->p->tensor[id].bytes / dt_dtype_bytes(op.dtype));
    op.flops = (double)op.count;
    dt_op_bind(&op, b->grad[value], DT_X, DT_READ);
    dt_op_bind(&op, tensor, DT_X + 1, DT_READ);
    dt_op_bind(&op, id, DT_Y, DT_WRITE);
    b->grad[value] = id;
    return dti_append_work(b, &op, err);
}

/* Where a backward op leaves the gradient of its input i: a new tensor, later given to arrive(). */
static dt_status new_gradient(dti_builder *b, int32_t node, int i, int32_t *id, dt_err *err)
{
    const int32_t value = dt_graph_behind(b->g, b->g->node[node].in[i]);
    char name[DT_TENSOR_NAME_BYTES];
    if (b->parts[value] == 1)
        dti_name(name, "d.%s", b->g->node[value].name);
    else
        dti_name(name, "d.%s@%s", b->g->node[value].name, b->g->node[node].name);
    return dti_add_tensor(
        b, name, DT_ROLE_ACTIVATION_GRADIENTS, 0, dti_value_bytes(b, value), value, id, err);
}

/* The same for the one gradient of all inputs. No value's name is empty, so no other is called so.
 */
static dt_status new_shared_gradient(dti_builder *b, int32_t node, int32_t *id, dt_err *err)
{
    char name[DT_TENSOR_NAME_BYTES];
    dti_name(name, "d.@%s", b->g->node[node].name);
    return dti_add_tensor(
        b, name, DT_ROLE_ACTIVATION_GRADIENTS, 0, dti_value_bytes(b, node), node, id, err);
}

/* An op that adds a finished gradient to the one of earlier micro-batches. */
static dt_status accumulate(dti_builder *b, int32_t node, int i, int32_t from, dt_err *err)
{
    const int32_t home = dti_home(b, node, i, DT_DP);
    dt_op op = dti_start_op(b, DT_OP_BACKWARD, b->o->ops.sum, DT_NONE, DT_FORWARD, "");
    dti_name(op.name, "%s.%s.add", b->g->node[node].name, b->g->node[node].info.param[i].name);
    op.count = (int64_t)(b->p->tensor[home].bytes / sizeof(float));
    op.flops = (double)op.count;
    dt_op_bind(&op, home, DT_X, DT_READ);
    dt_op_bind(&op, from, DT_X + 1, DT_READ);
    dt_op_bind(&op, home, DT_Y, DT_WRITE);
    return dti_append_work(b, &op, err);
}

/* Whether the parameter's gradient already holds something: that of earlier micro-batches, or that
 * of a layer further on that shares the parameter. */
static bool adds(const dti_builder *b, int32_t node, int i)
{
    const int32_t shares = b->g->node[node].shares;
    const int32_t owner = shares == DT_SHARES_NONE ? node : shares;
    bool before = b->p->kind == DT_PROGRAM_AGAIN;
    for (size_t k = (size_t)node + 1; k < b->g->n_node && i == 0; k++)
        before = before || b->g->node[k].shares == owner;
    return before;
}

/* A transient that holds a parameter's gradient until it is in place; the name tells the stage. */
static dt_status loose_gradient(
    dti_builder *b, int32_t node, int i, const char *stage, size_t bytes, int32_t *id, dt_err *err)
{
    char name[DT_TENSOR_NAME_BYTES];
    dti_name(name, "%s.%s.%s", stage, b->g->node[node].name, b->g->node[node].info.param[i].name);
    return dti_add_tensor(b, name, DT_ROLE_GRADIENTS, bytes, 0, node, id, err);
}

typedef struct gradient_way {
    int32_t raw[DT_MAX_PARAM];  /* what the backward op writes, or DT_NONE */
    bool restore[DT_MAX_PARAM]; /* in another layout than the parameter's */
} gradient_way;

static dt_status bind_gradients(
    dti_builder *b, dt_op *op, int32_t node, dt_ports writes, gradient_way *w, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    dt_facts f;
    DT_TRY(err, dt_op_facts(b->p, op, &f, err), "%s", op->name);
    for (int i = 0; i < dt_graph_params(nd); i++) {
        w->raw[i] = DT_NONE;
        w->restore[i] = false;
        if (nd->info.param[i].buffer || !(writes & DT_BIT(DT_DP + i)))
            continue;
        const int32_t home = dti_home(b, node, i, DT_DP);
        w->restore[i] = i == 0 && f.gradient_bytes > 0;
        w->raw[i] = home;
        if (w->restore[i])
            DT_CHECK(loose_gradient(b, node, i, "r", f.gradient_bytes, &w->raw[i], err));
        else if (adds(b, node, i))
            DT_CHECK(loose_gradient(b, node, i, "t", b->p->tensor[home].bytes, &w->raw[i], err));
        dt_op_bind(op, w->raw[i], DT_DP + i, DT_WRITE);
    }
    return DT_OK;
}

/* After the backward op: bring gradients into the parameter's layout, and add them. */
static dt_status settle_gradients(dti_builder *b, int32_t node, const gradient_way *w, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    for (int i = 0; i < dt_graph_params(nd); i++) {
        if (w->raw[i] == DT_NONE)
            continue;
        int32_t from = w->raw[i];
        const int32_t home = dti_home(b, node, i, DT_DP);
        if (w->restore[i]) {
            int32_t to = home;
            if (adds(b, node, i))
                DT_CHECK(loose_gradient(b, node, i, "t", b->p->tensor[home].bytes, &to, err));
            dt_op op = dti_start_op(
                b, DT_OP_REORDER, nd->desc, node, DT_RESTORE, nd->desc->form[DT_RESTORE].suffix);
            dt_op_bind(&op, from, DT_S, DT_READ);
            dt_op_bind(&op, to, DT_DP + i, DT_WRITE);
            DT_CHECK(dti_append_work(b, &op, err));
            from = to;
        }
        if (from != home)
            DT_CHECK(accumulate(b, node, i, from, err));
    }
    return DT_OK;
}

/* The output that backward reads: the node's own, or, where only its sign matters, that of the only
 * reader. */
static int32_t sign_of(const dti_builder *b, int32_t node)
{
    int32_t reader = DT_NONE, readers = 0;
    for (size_t i = (size_t)node + 1; i < b->g->n_node && b->g->node[node].desc->reads_sign; i++)
        for (int k = 0; k < b->g->node[i].n_in; k++)
            if (b->g->node[i].in[k] == node) {
                reader = (int32_t)i;
                readers++;
            }
    return b->value[readers == 1 && b->g->node[reader].desc->keeps_sign ? reader : node];
}

static void bind_saved(const dti_builder *b, dt_op *op, int32_t node)
{
    const dt_node *nd = &b->g->node[node];
    if (nd->desc->n_alt == 0)
        return;
    const dt_ports reads = nd->desc->alt[b->p->alt[node]].reads;
    if (reads & DT_BIT(DT_X))
        for (int i = 0; i < nd->n_in; i++)
            dt_op_bind(op, dti_value_tensor(b, nd->in[i]), DT_X + i, DT_READ);
    if (reads & DT_BIT(DT_Y))
        dt_op_bind(op, sign_of(b, node), DT_Y, DT_READ);
    for (int i = 0; i < nd->info.n_stash; i++)
        if (reads & DT_BIT(DT_S + i))
            dt_op_bind(op, b->stash[node][i], DT_S + i, DT_READ);
}

static bool wants_gradient(const dti_builder *b, int32_t value)
{
    value = dt_graph_behind(b->g, value);
    return value != DT_GRAPH_INPUT && b->trained[value];
}

/* What the op writes for each input: a tensor of its own, or one that all share; DT_NONE where no
 * gradient is wanted. */
static dt_status bind_dx(
    dti_builder *b, dt_op *op, int32_t node, bool gives_dx, int32_t dx[DT_MAX_IN], dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    const bool one = nd->desc->shares_dy;
    int32_t shared = DT_NONE;
    for (int i = 0; i < nd->n_in; i++) {
        dx[i] = DT_NONE;
        if (!gives_dx || !wants_gradient(b, nd->in[i]))
            continue;
        if (shared == DT_NONE) {
            DT_CHECK(one ? new_shared_gradient(b, node, &dx[i], err)
                         : new_gradient(b, node, i, &dx[i], err));
            dt_op_bind(op, dx[i], DT_DX + (one ? 0 : i), DT_WRITE);
        } else {
            dx[i] = shared;
        }
        shared = one ? dx[i] : DT_NONE;
    }
    return DT_OK;
}

static dt_status backward_form(dti_builder *b, int32_t node, dt_form_kind kind, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    const dt_form *f = &nd->desc->form[kind];
    const bool gives_dx = (f->writes & DT_BIT(DT_DX)) != 0;
    if (f->suffix == NULL || (gives_dx && !b->p->needs_dx[node] && !(f->writes & ~DT_BIT(DT_DX))))
        return DT_OK;
    dt_op op = dti_start_op(b, DT_OP_BACKWARD, nd->desc, node, kind, f->suffix);
    op.flops = nd->info.backward_flops[kind - DT_BACKWARD] * (double)b->p->n;
    if (f->reads & DT_BIT(DT_D + 1))
        DT_CHECK(dti_bind_derived(b, &op, 1, DT_DERIVE_B, node, err));
    if (f->saved)
        bind_saved(b, &op, node);
    dti_bind_params(b, &op, f->reads, node, DT_P, DT_READ);
    if (f->reads & DT_BIT(DT_LABELS))
        dt_op_bind(&op, b->labels, DT_LABELS, DT_READ);
    if (f->reads & DT_BIT(DT_DY))
        dt_op_bind(&op, b->grad[node], DT_DY, DT_READ);
    gradient_way way;
    DT_CHECK(bind_gradients(b, &op, node, f->writes, &way, err));
    int32_t dx[DT_MAX_IN];
    DT_CHECK(bind_dx(b, &op, node, gives_dx, dx, err));
    DT_CHECK(dti_append_work(b, &op, err));
    DT_CHECK(settle_gradients(b, node, &way, err));
    for (int i = 0; i < nd->n_in; i++)
        if (dx[i] != DT_NONE)
            DT_CHECK(arrive(b, dt_graph_behind(b->g, nd->in[i]), dx[i], err));
    return DT_OK;
}

dt_status dti_backward_node(dti_builder *b, int32_t node, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    if (nd->desc->identity || !b->trained[node])
        return DT_OK;
    if (!nd->desc->loss && b->grad[node] == DT_NONE)
        return DT_FAIL(err, DT_E_INTERNAL, "no gradient arrives at '%s'", nd->name);
    if (nd->desc->shares_dy && !(nd->desc->form[DT_BACKWARD].writes & DT_BIT(DT_DX))) {
        DT_CHECK(backward_form(b, node, DT_BACKWARD, err)); /* of its parameters, if any */
        for (int i = 0; i < nd->n_in; i++)
            if (wants_gradient(b, nd->in[i]))
                DT_CHECK(arrive(b, dt_graph_behind(b->g, nd->in[i]), b->grad[node], err));
        return DT_OK;
    }
    DT_CHECK(backward_form(b, node, DT_BACKWARD, err));
    return backward_form(b, node, DT_BACKWARD2, err);
}
