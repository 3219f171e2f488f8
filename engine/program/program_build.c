/* From a graph to a program: what the halves share, and the order in which they are built. */
#include "engine/program/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"

static size_t batch_bytes(const dti_builder *b, size_t fixed, size_t sample)
{
    return fixed + sample * (size_t)b->p->n;
}

dt_status dti_add_tensor(dti_builder *b, const char *name, dt_role role, size_t fixed,
    size_t sample, int32_t node, int32_t *id, dt_err *err)
{
    dt_tensor t = {.role = role,
        .bytes = batch_bytes(b, fixed, sample),
        .sample_bytes = fixed == 0 ? sample : 0,
        .home = DT_NONE,
        .node = node,
        .of = DT_NONE,
        .slot = DT_NONE};
    dti_name(t.name, "%s", name);
    return dt_program_tensor(b->p, &t, id, err);
}

void dti_name(char to[DT_TENSOR_NAME_BYTES], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(to, DT_TENSOR_NAME_BYTES, fmt, ap);
    va_end(ap);
}

size_t dti_value_bytes(const dti_builder *b, int32_t value)
{
    const dt_shape s = dt_graph_shape(b->g, value);
    const dt_dtype t = value == DT_GRAPH_INPUT ? dt_graph_input_dtype(b->g) : b->g->dtype;
    return (size_t)dt_shape_sample(&s) * dt_dtype_bytes(t);
}

int32_t dti_value_tensor(const dti_builder *b, int32_t value)
{
    return value == DT_GRAPH_INPUT ? b->image : b->value[value];
}

dt_op dti_start_op(const dti_builder *b, dt_op_kind kind, const dt_layer_desc *desc, int32_t node,
    dt_form_kind form, const char *suffix)
{
    dt_op op = {.kind = kind,
        .desc = desc,
        .node = node,
        .form = form,
        .dtype = node == DT_NONE ? DT_F32 : b->g->dtype,
        .n1 = b->p->n,
        .pair = DT_NONE,
        .release_after = DT_NONE,
        .clone_of = DT_NONE};
    dti_name(op.name, "%s.%s", node == DT_NONE ? "" : b->g->node[node].name, suffix);
    return op;
}

dt_status dti_append(dti_builder *b, dt_op *op, dt_err *err)
{
    int32_t id;
    return dt_program_insert(b->p, op, b->p->n_order, &id, err);
}

dt_status dti_append_work(dti_builder *b, dt_op *op, dt_err *err)
{
    dt_facts f;
    DT_TRY(err, dt_op_facts(b->p, op, &f, err), "%s", op->name);
    DT_CHECK(dt_op_bind_work(b->p, op, f.work_bytes, err));
    return dti_append(b, op, err);
}

int32_t dti_home(const dti_builder *b, int32_t node, int i, dt_port port)
{
    const int32_t owner = b->g->node[node].shares;
    return dt_map_find(b->p->map, owner == DT_SHARES_NONE ? node : owner, i, port);
}

/* Bind every parameter port the form names and the node has. */
void dti_bind_params(
    const dti_builder *b, dt_op *op, dt_ports set, int32_t node, dt_port port, int mode)
{
    for (int i = 0; i < dt_graph_params(&b->g->node[node]); i++)
        if (set & DT_BIT((int)port + i))
            dt_op_bind(op, dti_home(b, node, i, port), (int)port + i, mode);
}

/* The weight in the layout the op wants: the parameter itself, or a derived tensor made right
 * before. */
dt_status dti_bind_derived(
    dti_builder *b, dt_op *op, int which, dt_form_kind maker, int32_t node, dt_err *err)
{
    dt_facts f;
    const int32_t home = dti_home(b, node, 0, DT_P);
    DT_TRY(err, dt_op_facts(b->p, op, &f, err), "%s", op->name);
    int32_t id = home;
    if (f.derived_bytes > 0) {
        const dt_node *nd = &b->g->node[node];
        dt_op make =
            dti_start_op(b, DT_OP_REORDER, nd->desc, node, maker, nd->desc->form[maker].suffix);
        DT_CHECK(dti_add_tensor(b, make.name, DT_ROLE_DERIVED, f.derived_bytes, 0, node, &id, err));
        dt_op_bind(&make, home, DT_P, DT_READ);
        dt_op_bind(&make, id, DT_D + which, DT_WRITE);
        DT_CHECK(dti_append_work(b, &make, err));
    }
    dt_op_bind(op, id, DT_D + which, DT_READ);
    return DT_OK;
}

/* How many gradients will meet at each value. */
static void survey(dti_builder *b)
{
    dt_graph_trained(b->g, b->p->needs_dx, b->trained);
    for (size_t i = 0; i < b->g->n_node; i++) {
        const dt_node *nd = &b->g->node[i];
        for (int k = 0; k < nd->n_in && !nd->desc->identity; k++)
            if (dt_graph_behind(b->g, nd->in[k]) != DT_GRAPH_INPUT)
                b->parts[dt_graph_behind(b->g, nd->in[k])]++;
    }
}

static dt_status build_batch(dti_builder *b, dt_err *err)
{
    survey(b);
    DT_CHECK(dti_fetch(b, "x", dti_value_bytes(b, DT_GRAPH_INPUT), DT_X, &b->image, err));
    for (size_t i = 0; i < b->g->n_node; i++)
        DT_CHECK(dti_forward_node(b, (int32_t)i, err));
    if (b->p->kind == DT_PROGRAM_EVAL) {
        b->p->loss = DT_NONE;
        return DT_OK;
    }
    for (size_t i = b->g->n_node; i-- > 0;)
        DT_CHECK(dti_backward_node(b, (int32_t)i, err));
    return DT_OK;
}

static dt_status add_homes(dti_builder *b, dt_err *err)
{
    for (size_t i = 0; i < b->p->map->n; i++) {
        const dt_home *h = &b->p->map->home[i];
        dt_tensor t = {.role = h->role,
            .bytes = h->bytes,
            .home = (int32_t)i,
            .node = h->node,
            .of = DT_NONE,
            .slot = DT_NONE};
        dti_name(t.name, "%s", h->name);
        int32_t id;
        DT_CHECK(dt_program_tensor(b->p, &t, &id, err));
    }
    return DT_OK;
}

static bool reserve(dti_builder *b)
{
    const size_t n = b->g->n_node;
    b->p->alt = dt_alloc(n, sizeof *b->p->alt);
    b->p->needs_dx = dt_alloc(n, sizeof *b->p->needs_dx);
    b->value = dt_alloc(n, sizeof *b->value);
    b->grad = dt_alloc(n, sizeof *b->grad);
    b->parts = dt_alloc(n, sizeof *b->parts);
    b->arrived = dt_alloc(n, sizeof *b->arrived);
    b->stash = dt_alloc(n, sizeof *b->stash);
    b->trained = dt_alloc(n, sizeof *b->trained);
    if (b->p->alt == NULL || b->p->needs_dx == NULL || b->value == NULL || b->grad == NULL ||
        b->parts == NULL || b->arrived == NULL || b->stash == NULL || b->trained == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        b->grad[i] = DT_NONE;
    return true;
}

static dt_status build(dti_builder *b, dt_err *err)
{
    if (!reserve(b))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
    DT_CHECK(add_homes(b, err));
    DT_CHECK(b->p->kind == DT_PROGRAM_UPDATE ? dti_build_update(b, err) : build_batch(b, err));
    return dt_program_index(b->p, err);
}

dt_status dt_program_create(dt_program **out, const dt_program_opts *o, dt_err *err)
{
    *out = NULL;
    dt_program *p = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
    p->kind = o->kind;
    p->device = o->device;
    p->graph = o->graph;
    p->map = o->map;
    p->n = o->n;
    p->home_n = o->home_n;
    p->algorithms = o->algorithms;
    p->loss = DT_NONE;
    p->stale = true;
    dti_builder b = {.p = p, .o = o, .g = o->graph, .labels = DT_NONE};
    const dt_status st = build(&b, err);
    dt_free(b.value);
    dt_free(b.grad);
    dt_free(b.parts);
    dt_free(b.arrived);
    dt_free(b.stash);
    dt_free(b.trained);
    if (st != DT_OK) {
        dt_program_destroy(p);
        return st;
    }
    *out = p;
    return DT_OK;
}
