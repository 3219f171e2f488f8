/* From a graph to a program. A batch is built forward, one op a layer in the order of the graph,
 * then backward, layers in reverse; an update has one optimizer op a parameter, unless that stands
 * in the batch behind the parameter's backward already, and one commit a running statistic. */
#include "engine/program/program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/program/saved.h"

typedef struct builder {
    dt_program *p;
    const dt_program_opts *o;
    const dt_graph *g;
    int32_t image, labels; /* tensors; labels DT_NONE until fetched */
    int32_t *value;        /* by node: tensor of its output */
    int32_t *grad;         /* by node: sum so far of the gradients of its output, or DT_NONE */
    int32_t *parts;        /* by node: how many gradients will arrive */
    int32_t *arrived;
    int32_t (*stash)[DT_MAX_STASH]; /* by node */
    int32_t *sign;                  /* by node, see dti_find_signs */
    bool *trained;                  /* by node: it or something before it has parameters */
    int32_t (*whole)[DT_MAX_PARAM]; /* by node, where they have no homes: gradients so far */
    int32_t *last_sharing;          /* by node: the last that shares its parameter, or DT_NONE */
} builder;

/* ---- what all parts share ---- */

static size_t batch_bytes(const builder *b, size_t fixed, size_t sample)
{
    return fixed + sample * (size_t)b->p->n;
}

/* Names are cut, never overrun; the engine's own names always fit. */
static void DT_PRINTF(2, 3) set_name(char to[DT_TENSOR_NAME_BYTES], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(to, DT_TENSOR_NAME_BYTES, fmt, ap);
    va_end(ap);
}

/* A transient of fixed + n * sample bytes. */
static dt_status add_tensor(builder *b, const char *name, dt_role role, size_t fixed, size_t sample,
    int32_t node, int32_t *id, dt_err *err)
{
    dt_tensor t = dt_transient(role, batch_bytes(b, fixed, sample), node);
    t.sample_bytes = fixed == 0 ? sample : 0;
    set_name(t.name, "%s", name);
    return dt_program_tensor(b->p, &t, id, err);
}

static int32_t value_tensor(const builder *b, int32_t value)
{
    return value == DT_GRAPH_INPUT ? b->image : b->value[value];
}

static dt_op start_op(const builder *b, dt_op_kind kind, const dt_layer_desc *desc, int32_t node,
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
        .recompute_of = DT_NONE};
    set_name(op.name, "%s.%s", node == DT_NONE ? "" : b->g->node[node].name, suffix);
    return op;
}

static dt_status append(builder *b, dt_op *op, dt_err *err)
{
    int32_t id;
    return dt_program_insert(b->p, op, b->p->n_order, &id, err);
}

/* With the scratch that it wants. */
static dt_status append_work(builder *b, dt_op *op, dt_err *err)
{
    dt_facts f;
    DT_TRY(err, dt_op_facts(b->p, op, &f, err), "%s", op->name);
    DT_CHECK(dt_op_bind_work(b->p, op, f.work_bytes, err));
    return append(b, op, err);
}

/* The persistent tensor of a node's parameter, which may be another node's. */
static int32_t home_of(const builder *b, int32_t node, int i, dt_port port)
{
    return dti_map_find(b->p->map, dti_graph_owner(b->g, node), i, port);
}

/* Bind every parameter port the form names and the node has. */
static void bind_params(
    const builder *b, dt_op *op, dt_ports set, int32_t node, dt_port port, int mode)
{
    for (int i = 0; i < dti_graph_params(&b->g->node[node]); i++)
        if (set & DT_BIT((int)port + i))
            dt_op_bind(op, home_of(b, node, i, port), (int)port + i, mode);
}

/* The weight in the layout the op wants: the parameter itself, or a derived tensor made right
 * before. */
static dt_status bind_derived(
    builder *b, dt_op *op, int which, dt_form_kind maker, int32_t node, dt_err *err)
{
    dt_facts f;
    const int32_t home = home_of(b, node, 0, DT_P);
    DT_TRY(err, dt_op_facts(b->p, op, &f, err), "%s", op->name);
    int32_t id = home;
    if (f.derived_bytes > 0) {
        const dt_node *nd = &b->g->node[node];
        dt_op make =
            start_op(b, DT_OP_REORDER, nd->desc, node, maker, nd->desc->form[maker].suffix);
        DT_CHECK(add_tensor(b, make.name, DT_ROLE_DERIVED, f.derived_bytes, 0, node, &id, err));
        dt_op_bind(&make, home, DT_P, DT_READ);
        dt_op_bind(&make, id, DT_D + which, DT_WRITE);
        DT_CHECK(append_work(b, &make, err));
    }
    dt_op_bind(op, id, DT_D + which, DT_READ);
    return DT_OK;
}

/* ---- forward ---- */

static dt_status fetch_input(
    builder *b, const char *name, size_t sample, int port, int32_t *id, dt_err *err)
{
    DT_CHECK(add_tensor(b, name, DT_ROLE_INPUT, 0, sample, DT_NONE, id, err));
    dt_op op = start_op(b, DT_OP_FETCH, NULL, DT_NONE, DT_FORWARD, "");
    set_name(op.name, "fetch.%s", name);
    dt_op_bind(&op, *id, port, DT_WRITE);
    return append(b, &op, err);
}

static dt_status bind_stash(builder *b, dt_op *op, dt_ports set, int32_t node, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    for (int i = 0; i < nd->info.n_stash; i++)
        if (set & DT_BIT(DT_S + i)) {
            const dt_stash_info *s = &nd->info.stash[i];
            char name[DT_TENSOR_NAME_BYTES];
            set_name(name, "%s.%s", nd->name, s->name);
            DT_CHECK(add_tensor(b, name, DT_ROLE_STASH, s->fixed_bytes, s->sample_bytes, node,
                &b->stash[node][i], err));
            dt_op_bind(op, b->stash[node][i], DT_S + i, DT_WRITE);
        }
    return DT_OK;
}

static dt_status forward_node(builder *b, int32_t node, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    const bool eval = b->p->kind == DT_PROGRAM_EVAL || nd->frozen;
    if (nd->desc->identity) {
        b->value[node] = value_tensor(b, nd->in[0]);
        return DT_OK;
    }
    if (b->labels == DT_NONE && (nd->desc->form[DT_FORWARD].reads & DT_BIT(DT_LABELS)) != 0)
        DT_CHECK(fetch_input(b, "labels", sizeof(int32_t) * (size_t)dt_graph_labels(b->g),
            DT_LABELS, &b->labels, err));
    const dt_form_kind kind = dti_forward_form(nd->desc, eval);
    const dt_form *f = &nd->desc->form[kind];
    dt_op op = start_op(b, DT_OP_FORWARD, nd->desc, node, kind, f->suffix);
    op.flops = nd->info.forward_flops * (double)b->p->n;
    if (f->reads & DT_BIT(DT_D))
        DT_CHECK(bind_derived(b, &op, 0, DT_DERIVE_F, node, err));
    if (f->reads & DT_BIT(DT_X))
        for (int i = 0; i < nd->n_in; i++)
            dt_op_bind(&op, value_tensor(b, nd->in[i]), DT_X + i, DT_READ);
    bind_params(b, &op, f->reads, node, DT_P, DT_READ);
    if (f->reads & DT_BIT(DT_LABELS))
        dt_op_bind(&op, b->labels, DT_LABELS, DT_READ);
    if (f->updates & DT_BIT(DT_METRICS))
        dt_op_bind(&op, b->p->map->metrics, DT_METRICS,
            b->p->kind == DT_PROGRAM_AGAIN ? DT_UPDATES : DT_WRITE);
    if (f->writes & DT_BIT(DT_Y)) {
        char name[DT_TENSOR_NAME_BYTES];
        set_name(name, "%s.y", nd->name);
        DT_CHECK(add_tensor(b, name, DT_ROLE_ACTIVATIONS, 0, dti_graph_value_bytes(b->g, node),
            node, &b->value[node], err));
        dt_op_bind(&op, b->value[node], DT_Y, DT_WRITE);
    }
    if (!eval) {
        const dt_ports saved = nd->desc->n_alt > 0 ? nd->desc->alt[b->p->alt[node]].reads : 0;
        if (b->p->alt[node] > 0)
            DT_CHECK(dt_reasons_add(&b->p->reasons, &op.reason, err,
                "masks: backward reads no value, and a concatenation holds this one"));
        DT_CHECK(bind_stash(b, &op, saved, node, err));
        bind_params(
            b, &op, f->writes, node, DT_Q, b->p->kind == DT_PROGRAM_AGAIN ? DT_UPDATES : DT_WRITE);
    }
    DT_CHECK(append_work(b, &op, err));
    if (nd->desc->loss)
        b->p->loss = (int32_t)b->p->n_op - 1;
    return DT_OK;
}

/* ---- backward ---- */

/* Gradients that meet at a value are summed as soon as the second arrives, so that no more than one
 * waits. */

/* A gradient arrives at a value: keep it, or add it to what is there. */
static dt_status arrive(builder *b, int32_t value, int32_t tensor, dt_err *err)
{
    if (b->arrived[value]++ == 0) {
        b->grad[value] = tensor;
        return DT_OK;
    }
    char name[DT_TENSOR_NAME_BYTES];
    const bool last = b->arrived[value] == b->parts[value];
    if (last)
        set_name(name, "d.%s", b->g->node[value].name);
    else
        set_name(name, "d.%s+%d", b->g->node[value].name, b->arrived[value]);
    int32_t id;
    DT_CHECK(add_tensor(b, name, DT_ROLE_ACTIVATION_GRADIENTS, 0,
        dti_graph_value_bytes(b->g, value), value, &id, err));
    dt_op op = start_op(b, DT_OP_BACKWARD, b->o->ops.sum, DT_NONE, DT_FORWARD, "");
    set_name(op.name, "%s.sum", name + 2); /* without the "d." */
    op.dtype = dt_graph_dtype(b->g, value);
    op.count = (int64_t)(b->p->tensor[id].bytes / dt_dtype_bytes(op.dtype));
    op.flops = (double)op.count;
    dt_op_bind(&op, b->grad[value], DT_X, DT_READ);
    dt_op_bind(&op, tensor, DT_X + 1, DT_READ);
    dt_op_bind(&op, id, DT_Y, DT_WRITE);
    b->grad[value] = id;
    return append_work(b, &op, err);
}

/* Where a backward op leaves the gradient of its input i: a new tensor, later given to arrive(). */
static dt_status new_gradient(builder *b, int32_t node, int i, int32_t *id, dt_err *err)
{
    const int32_t value = dt_graph_behind(b->g, b->g->node[node].in[i]);
    char name[DT_TENSOR_NAME_BYTES];
    if (b->parts[value] == 1)
        set_name(name, "d.%s", b->g->node[value].name);
    else
        set_name(name, "d.%s@%s", b->g->node[value].name, b->g->node[node].name);
    return add_tensor(b, name, DT_ROLE_ACTIVATION_GRADIENTS, 0, dti_graph_value_bytes(b->g, value),
        value, id, err);
}

/* The same for the one gradient of all inputs. No value's name is empty, so no other is called so.
 */
static dt_status new_shared_gradient(builder *b, int32_t node, int32_t *id, dt_err *err)
{
    char name[DT_TENSOR_NAME_BYTES];
    set_name(name, "d.@%s", b->g->node[node].name);
    return add_tensor(
        b, name, DT_ROLE_ACTIVATION_GRADIENTS, 0, dti_graph_value_bytes(b->g, node), node, id, err);
}

/* Whether the parameter's gradient already holds something: that of earlier micro-batches, or that
 * of a layer further on that shares the parameter. */
static bool adds(const builder *b, int32_t node, int i)
{
    return b->p->kind == DT_PROGRAM_AGAIN ||
           (i == 0 && b->last_sharing[dti_graph_owner(b->g, node)] > node);
}

/* A transient that holds a parameter's gradient until it is in place; the name tells the stage. */
static dt_status loose_gradient(
    builder *b, int32_t node, int i, const char *stage, size_t bytes, int32_t *id, dt_err *err)
{
    char name[DT_TENSOR_NAME_BYTES];
    set_name(name, "%s.%s.%s", stage, b->g->node[node].name, b->g->node[node].info.param[i].name);
    return add_tensor(b, name, DT_ROLE_GRADIENTS, bytes, 0, node, id, err);
}

/* Where a parameter's gradient is, as far as it has come: at home, or, where it has none, in a
 * transient. */
static int32_t gradient_of(const builder *b, int32_t node, int i)
{
    return b->p->map->loose ? b->whole[dti_graph_owner(b->g, node)][i] : home_of(b, node, i, DT_DP);
}

/* A new place for it, where it has none at home. */
static dt_status place_gradient(builder *b, int32_t node, int i, dt_err *err)
{
    const size_t bytes = b->p->tensor[home_of(b, node, i, DT_P)].bytes;
    return b->p->map->loose ? loose_gradient(b, node, i, "g", bytes,
                                  &b->whole[dti_graph_owner(b->g, node)][i], err)
                            : DT_OK;
}

/* An op that adds a finished gradient to the one of earlier micro-batches, or of layers further on
 * that share the parameter. */
static dt_status accumulate(builder *b, int32_t node, int i, int32_t from, dt_err *err)
{
    const int32_t so_far = gradient_of(b, node, i);
    DT_CHECK(place_gradient(b, node, i, err));
    const int32_t to = gradient_of(b, node, i);
    dt_op op = start_op(b, DT_OP_BACKWARD, b->o->ops.sum, DT_NONE, DT_FORWARD, "");
    set_name(op.name, "%s.%s.add", b->g->node[node].name, b->g->node[node].info.param[i].name);
    op.count = (int64_t)(b->p->tensor[to].bytes / sizeof(float));
    op.flops = (double)op.count;
    dt_op_bind(&op, so_far, DT_X, DT_READ);
    dt_op_bind(&op, from, DT_X + 1, DT_READ);
    dt_op_bind(&op, to, DT_Y, DT_WRITE);
    return append_work(b, &op, err);
}

typedef struct gradient_way {
    int32_t raw[DT_MAX_PARAM];  /* what the backward op writes, or DT_NONE */
    bool restore[DT_MAX_PARAM]; /* in another layout than the parameter's */
} gradient_way;

/* The gradients that the op gives, in place: written, or added to where something is. */
static dt_status bind_in_place(
    builder *b, dt_op *op, int32_t node, dt_ports writes, gradient_way *w, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    for (int i = 0; i < dti_graph_params(nd); i++) {
        w->raw[i] = DT_NONE;
        w->restore[i] = false;
        if (nd->info.param[i].buffer || !(writes & DT_BIT(DT_DP + i)))
            continue;
        if (!adds(b, node, i))
            DT_CHECK(place_gradient(b, node, i, err));
        w->raw[i] = gradient_of(b, node, i);
        dt_op_bind(op, w->raw[i], DT_DP + i, adds(b, node, i) ? DT_UPDATES : DT_WRITE);
    }
    return DT_OK;
}

/* Bound in place where the device can do that, else to a transient from which it gets there. */
static dt_status bind_gradients(
    builder *b, dt_op *op, int32_t node, dt_ports writes, gradient_way *w, dt_err *err)
{
    dt_facts f;
    DT_CHECK(bind_in_place(b, op, node, writes, w, err));
    DT_TRY(err, dt_op_facts(b->p, op, &f, err), "%s", op->name);
    for (int k = 0; k < op->n_arg; k++) {
        dt_operand *a = &op->arg[k];
        const int i = a->port - DT_DP;
        if (i < 0 || i >= DT_MAX_PARAM)
            continue;
        w->restore[i] = i == 0 && f.gradient_bytes > 0;
        if (w->restore[i])
            DT_CHECK(loose_gradient(b, node, i, "r", f.gradient_bytes, &w->raw[i], err));
        else if (a->mode == DT_UPDATES && !f.adds)
            DT_CHECK(
                loose_gradient(b, node, i, "t", b->p->tensor[w->raw[i]].bytes, &w->raw[i], err));
        else
            continue;
        a->tensor = w->raw[i];
        a->mode = DT_WRITE;
    }
    return DT_OK;
}

/* After the backward op: bring gradients into the parameter's layout, and add them. */
static dt_status settle_gradients(builder *b, int32_t node, const gradient_way *w, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    for (int i = 0; i < dti_graph_params(nd); i++) {
        if (w->raw[i] == DT_NONE)
            continue;
        int32_t from = w->raw[i];
        const int32_t home = gradient_of(b, node, i);
        if (w->restore[i]) {
            int32_t to = home;
            if (adds(b, node, i))
                DT_CHECK(loose_gradient(b, node, i, "t", b->p->tensor[home].bytes, &to, err));
            dt_op op = start_op(
                b, DT_OP_REORDER, nd->desc, node, DT_RESTORE, nd->desc->form[DT_RESTORE].suffix);
            dt_op_bind(&op, from, DT_S, DT_READ);
            dt_op_bind(&op, to, DT_DP + i, DT_WRITE);
            DT_CHECK(append_work(b, &op, err));
            from = to;
        }
        if (from != home)
            DT_CHECK(accumulate(b, node, i, from, err));
    }
    return DT_OK;
}

static void bind_saved(const builder *b, dt_op *op, int32_t node)
{
    const dt_node *nd = &b->g->node[node];
    if (nd->desc->n_alt == 0)
        return;
    const dt_ports reads = nd->desc->alt[b->p->alt[node]].reads;
    if (reads & DT_BIT(DT_X))
        for (int i = 0; i < nd->n_in; i++)
            dt_op_bind(op, value_tensor(b, nd->in[i]), DT_X + i, DT_READ);
    if (reads & DT_BIT(DT_Y))
        dt_op_bind(op, b->value[b->sign[node]], DT_Y, DT_READ);
    for (int i = 0; i < nd->info.n_stash; i++)
        if (reads & DT_BIT(DT_S + i))
            dt_op_bind(op, b->stash[node][i], DT_S + i, DT_READ);
}

static bool wants_gradient(const builder *b, int32_t value)
{
    value = dt_graph_behind(b->g, value);
    return value != DT_GRAPH_INPUT && b->trained[value];
}

/* What the op writes for each input: a tensor of its own, or one that all share; DT_NONE where no
 * gradient is wanted. */
static dt_status bind_dx(
    builder *b, dt_op *op, int32_t node, bool gives_dx, int32_t dx[DT_MAX_IN], dt_err *err)
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

static dt_status backward_form(builder *b, int32_t node, dt_form_kind kind, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    const dt_form *f = &nd->desc->form[kind];
    const bool gives_dx = (f->writes & DT_BIT(DT_DX)) != 0;
    const bool others = (f->writes & ~DT_BIT(DT_DX)) != 0;
    if (f->suffix == NULL || (gives_dx && !b->p->needs_dx[node] && !others) ||
        (!gives_dx && dti_graph_kept(b->g, node)))
        return DT_OK;
    dt_op op = start_op(b, DT_OP_BACKWARD, nd->desc, node, kind, f->suffix);
    op.flops = nd->info.backward_flops[kind - DT_BACKWARD] * (double)b->p->n;
    if (f->reads & DT_BIT(DT_D + 1))
        DT_CHECK(bind_derived(b, &op, 1, DT_DERIVE_B, node, err));
    if (f->saved)
        bind_saved(b, &op, node);
    bind_params(b, &op, f->reads, node, DT_P, DT_READ);
    if (f->reads & DT_BIT(DT_LABELS))
        dt_op_bind(&op, b->labels, DT_LABELS, DT_READ);
    if (f->reads & DT_BIT(DT_DY))
        dt_op_bind(&op, b->grad[node], DT_DY, DT_READ);
    gradient_way way;
    DT_CHECK(bind_gradients(b, &op, node, f->writes, &way, err));
    int32_t dx[DT_MAX_IN];
    DT_CHECK(bind_dx(b, &op, node, gives_dx, dx, err));
    DT_CHECK(append_work(b, &op, err));
    DT_CHECK(settle_gradients(b, node, &way, err));
    for (int i = 0; i < nd->n_in; i++)
        if (dx[i] != DT_NONE)
            DT_CHECK(arrive(b, dt_graph_behind(b->g, nd->in[i]), dx[i], err));
    return DT_OK;
}

static bool is_vector(const builder *b, const dt_home *h)
{
    return b->g->node[h->node].info.param[h->param].rank < 2;
}

/* What an update reads or writes: where it lives in a tier and is of more elements than the op is
 * for, that part of it alone; but scales, which are few, whole. */
static dt_status bind_updated(
    builder *b, dt_op *op, int32_t tensor, int port, int mode, dt_err *err)
{
    const dt_tensor *whole = &b->p->tensor[tensor];
    const dt_home *h = whole->home != DT_NONE ? &b->p->map->home[tensor] : NULL;
    const dt_store store = h != NULL ? h->store : DT_STORE_F32;
    const size_t bytes = dt_stored_bytes(store, op->count);
    const bool away = h != NULL && h->tier != DT_AT_DEVICE;
    if (away && store != DT_STORE_SCALES && bytes < whole->bytes) {
        dt_tensor part = *whole;
        part.from = dt_stored_bytes(store, op->first);
        part.bytes = bytes;
        set_name(part.name, "%s.from%zu", whole->name, part.from);
        DT_CHECK(dt_program_tensor(b->p, &part, &tensor, err));
    }
    dt_op_bind(op, tensor, port, mode);
    return DT_OK;
}

/* Whether the moments of a parameter are. */
static bool in_8_bits(const builder *b, const dt_home *h)
{
    const int32_t moment = dti_map_find(b->p->map, h->node, h->param, DT_M);
    return moment != DT_NONE && b->p->map->home[moment].store != DT_STORE_F32;
}

/* Of some elements of a parameter, by its gradient, or of a running statistic, by the pending one:
 * @from. */
static dt_status update_elements(
    builder *b, int32_t home, int32_t from, int64_t first, int64_t count, dt_err *err)
{
    const dt_home *h = &b->p->map->home[home];
    const bool buffer = h->role == DT_ROLE_BUFFERS;
    const dt_layer_desc *desc = buffer            ? b->o->ops.commit
                                : in_8_bits(b, h) ? b->o->ops.packed
                                                  : b->o->ops.optimizer;
    dt_op op = start_op(b, DT_OP_UPDATE, desc, DT_NONE, DT_UPDATE, "");
    set_name(op.name, "%s.%s", h->name, desc->form[DT_UPDATE].suffix);
    if ((size_t)count * sizeof(float) < h->bytes)
        set_name(op.name, "%s.%s.from%" PRId64, h->name, desc->form[DT_UPDATE].suffix, first);
    op.first = first;
    op.count = count;
    op.flops = (double)op.count * (buffer ? 0 : 4);
    op.vector = !buffer && is_vector(b, h);
    DT_CHECK(bind_updated(b, &op, from, buffer ? DT_Q : DT_DP, DT_READ, err));
    if (b->p->map->early) /* whole, as backward has just had it */
        dt_op_bind(&op, home, DT_P, buffer ? DT_WRITE : DT_UPDATES);
    else
        DT_CHECK(bind_updated(b, &op, home, DT_P, buffer ? DT_WRITE : DT_UPDATES, err));
    for (int s = 0; s < DT_MAX_STATE && !buffer; s++) {
        const int32_t state = dti_map_find(b->p->map, h->node, h->param, (dt_port)(DT_M + s));
        if (state != DT_NONE)
            DT_CHECK(bind_updated(b, &op, state, DT_M + s, DT_UPDATES, err));
    }
    return append(b, &op, err);
}

/* Whether a parameter is so large that its update goes through it in slices: one would not save
 * anything where all that it needs lives on the device. What belongs to it stands beside it. */
static bool in_slices(const builder *b, int32_t home)
{
    const dt_map *m = b->p->map;
    const dt_home *h = &m->home[home];
    size_t i = (size_t)home;
    bool away = false;
    while (i > 0 && m->home[i - 1].node == h->node && m->home[i - 1].param == h->param)
        i--;
    for (; i < m->n && m->home[i].node == h->node && m->home[i].param == h->param; i++)
        away = away || m->home[i].tier != DT_AT_DEVICE;
    return away && h->role != DT_ROLE_BUFFERS && m->slice > 0 && h->bytes > m->slice;
}

/* All of it, at once or slice by slice. */
static dt_status append_update(builder *b, int32_t home, int32_t from, dt_err *err)
{
    const dt_home *h = &b->p->map->home[home];
    const int64_t n = (int64_t)(h->bytes / sizeof(float));
    const int64_t slice = (int64_t)(b->p->map->slice / sizeof(float));
    const int64_t unit = in_8_bits(b, h) ? DT_PART_UNIT : 1; /* codes are as many bytes */
    const int64_t each = in_slices(b, home) ? (slice + unit - 1) / unit * unit : n;
    for (int64_t first = 0; first < n; first += each)
        DT_CHECK(update_elements(b, home, from, first, n - first < each ? n - first : each, err));
    return DT_OK;
}

/* All layers that share the node's parameters stand behind it, so that its gradients are whole, and
 * nobody reads the parameters any more. */
static dt_status update_early(builder *b, int32_t node, dt_err *err)
{
    if (!b->p->map->early || dti_graph_owner(b->g, node) != node)
        return DT_OK;
    for (int i = 0; i < b->g->node[node].info.n_param; i++)
        if (gradient_of(b, node, i) != DT_NONE)
            DT_CHECK(append_update(b, home_of(b, node, i, DT_P), gradient_of(b, node, i), err));
    return DT_OK;
}

static dt_status backward_node(builder *b, int32_t node, dt_err *err)
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

/* ---- update ---- */

static dt_status build_update(builder *b, dt_err *err)
{
    const dt_map *m = b->p->map;
    for (size_t i = 0; i < m->n; i++) {
        const dt_home *h = &m->home[i];
        const bool buffer = h->role == DT_ROLE_BUFFERS;
        if (h->port == DT_P && (buffer || !m->early) && !b->g->node[h->node].frozen)
            DT_CHECK(append_update(
                b, (int32_t)i, dti_map_find(m, h->node, h->param, buffer ? DT_Q : DT_DP), err));
    }
    return DT_OK;
}

/* ---- the whole ---- */

/* How many gradients will meet at each value, and at each parameter from where on. */
static void survey(builder *b)
{
    dti_graph_trained(b->g, b->p->needs_dx, b->trained);
    dti_graph_sharing(b->g, b->last_sharing, NULL);
    for (size_t i = 0; i < b->g->n_node; i++) {
        const dt_node *nd = &b->g->node[i];
        for (int k = 0; k < nd->n_in && !nd->desc->identity; k++)
            if (dt_graph_behind(b->g, nd->in[k]) != DT_GRAPH_INPUT)
                b->parts[dt_graph_behind(b->g, nd->in[k])]++;
    }
}

static dt_status build_batch(builder *b, dt_err *err)
{
    survey(b);
    DT_CHECK(
        fetch_input(b, "x", dti_graph_value_bytes(b->g, DT_GRAPH_INPUT), DT_X, &b->image, err));
    for (size_t i = 0; i < b->g->n_node; i++)
        DT_CHECK(forward_node(b, (int32_t)i, err));
    if (b->p->kind == DT_PROGRAM_EVAL) {
        b->p->loss = DT_NONE;
        return DT_OK;
    }
    for (size_t i = b->g->n_node; i-- > 0;) {
        DT_CHECK(backward_node(b, (int32_t)i, err));
        DT_CHECK(update_early(b, (int32_t)i, err));
    }
    return DT_OK;
}

static dt_status add_homes(builder *b, dt_err *err)
{
    for (size_t i = 0; i < b->p->map->n; i++) {
        const dt_home *h = &b->p->map->home[i];
        dt_tensor t = dt_transient(h->role, h->bytes, h->node);
        t.home = (int32_t)i;
        set_name(t.name, "%s", h->name);
        int32_t id;
        DT_CHECK(dt_program_tensor(b->p, &t, &id, err));
    }
    return DT_OK;
}

static bool reserve(builder *b)
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
    b->whole = dt_alloc(n, sizeof *b->whole);
    b->sign = dt_alloc(n, sizeof *b->sign);
    b->last_sharing = dt_alloc(n, sizeof *b->last_sharing);
    if (b->whole == NULL || b->p->alt == NULL || b->p->needs_dx == NULL || b->value == NULL ||
        b->grad == NULL || b->parts == NULL || b->arrived == NULL || b->stash == NULL ||
        b->trained == NULL || b->sign == NULL || b->last_sharing == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        b->grad[i] = DT_NONE;
        for (int k = 0; k < DT_MAX_PARAM; k++)
            b->whole[i][k] = DT_NONE;
    }
    return true;
}

static dt_status build(builder *b, dt_err *err)
{
    if (!reserve(b))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
    if (b->p->map->early && b->p->kind == DT_PROGRAM_AGAIN)
        return DT_FAIL(err, DT_E_CONFIG, "updates are early, so that a step has one micro-batch");
    if (dt_map_delays(b->p->map) && b->p->kind == DT_PROGRAM_AGAIN)
        return DT_FAIL(err, DT_E_CONFIG, "updates are delayed, so that a step has one micro-batch");
    dti_find_signs(b->g, b->sign);
    if (b->o->masks)
        DT_CHECK(dti_choose_masks(b->g, b->sign, b->p->alt, err));
    DT_CHECK(add_homes(b, err));
    DT_CHECK(b->p->kind == DT_PROGRAM_UPDATE ? build_update(b, err) : build_batch(b, err));
    return dt_program_index(b->p, err);
}

dt_status dt_program_create(dt_program **out, const dt_program_opts *o, dt_err *err)
{
    *out = NULL;
    dt_program *p = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
    p->kind = o->kind;
    p->context = o->context;
    p->graph = o->graph;
    p->map = o->map;
    p->n = o->n;
    p->algorithms = o->algorithms;
    p->policy = "none";
    p->loss = DT_NONE;
    p->stale = true;
    builder b = {.p = p, .o = o, .g = o->graph, .labels = DT_NONE};
    const dt_status st = build(&b, err);
    dt_free(b.value);
    dt_free(b.grad);
    dt_free(b.parts);
    dt_free(b.arrived);
    dt_free(b.stash);
    dt_free(b.trained);
    dt_free(b.whole);
    dt_free(b.sign);
    dt_free(b.last_sharing);
    if (st != DT_OK) {
        dt_program_destroy(p);
        return st;
    }
    *out = p;
    return DT_OK;
}
