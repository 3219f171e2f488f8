/* Whether an op of a plan is one that a program could have: its form, its samples and what else the
 * kernel is told, and at every port a tensor of the right bytes that holds the right value. A plan
 * may come from a file, and kernels trust what they are given: labels and tokens are places in
 * tables, stashes are places in images. So the rows are followed from the batch to the updates, and
 * each tensor is known by the value it holds. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "engine/program/saved.h"
#include "engine/state_codes.h"
#include "engine/runner/bind_values.h"

/* A value: what it is (8 bits), of a codec that packs it (8), node or home (32), which of its
 * (16 bits). Gradients of values are told by the parts they are the sum of. */
typedef enum dti_what {
    NOTHING,
    IMAGE,
    LABELS,
    OUTPUT,  /* of a node */
    STASH,   /* of a node, number i */
    DERIVED, /* weight of a node in the layout for forward (0) or backward (1) */
    RAW,     /* gradient of a node's parameter 0, in the layout that backward gives */
    READY,   /* gradient of a node's parameter number i, to be added to what is there */
    PART     /* where gradients have no homes: sum of i of a home's parameter */
} dti_what;

#define GRADIENT ((uint64_t)1 << 63)

static uint64_t value_of(dti_what what, int64_t of, int i)
{
    return (uint64_t)what << 48 | (uint64_t)(uint32_t)of << 16 | (uint64_t)i;
}

static uint64_t packed_as(uint64_t value, int32_t codec)
{
    return value | (uint64_t)(uint8_t)codec << 56;
}

static dti_what what_is(uint64_t value)
{
    return (value & GRADIENT) != 0 ? NOTHING : (dti_what)(value >> 48 & 0xff);
}

static int32_t of_value(uint64_t value)
{
    return (int32_t)(uint32_t)(value >> 16);
}

/* The gradient that a node gives its input i: a number that no sum of others is likely to be. */
static uint64_t part_of(int64_t node, int i)
{
    return dti_mix(((uint64_t)node * DT_MAX_IN + (uint64_t)i) * DT_MIX_STEP) & ~GRADIENT;
}

int32_t dti_values_maker(const dti_values *v, int32_t tensor)
{
    return of_value(v->holds[tensor]);
}

/* ---- of the graph ---- */

/* What all readers of a value give it. */
static void sum_gradients(dti_values *v)
{
    const dt_graph *g = v->graph;
    for (size_t k = g->n_node; k-- > 0;) {
        const dt_node *nd = &g->node[k];
        const bool passes = (nd->desc->form[DT_BACKWARD].writes & DT_BIT(DT_DX)) == 0;
        for (int i = 0; i < nd->n_in && v->trained[k] && !nd->desc->identity; i++) {
            const int32_t to = dt_graph_behind(g, nd->in[i]);
            const bool one = nd->desc->shares_dy;
            if (to != DT_GRAPH_INPUT)
                v->gradient[to] +=
                    one && passes ? v->gradient[k] : part_of((int64_t)k, one ? 0 : i);
        }
    }
}

static void find_entries(dti_values *v)
{
    for (size_t t = 0; t < v->plan->n_tensor; t++) {
        const dt_plan_tensor *x = &v->plan->tensor[t];
        v->entry[t] = t < v->map->n    ? (int32_t)t
                      : !x->persistent ? DT_NONE
                                       : dti_map_holds(v->map, x->tier, x->home, x->next, x->bytes);
    }
}

dt_status dti_values_init(
    dti_values *v, const dt_graph *g, const dt_map *map, const dt_plan *p, dt_err *err)
{
    *v = (dti_values){.graph = g, .map = map, .plan = p, .program = dt_plan_kind(p)};
    v->needs_dx = dt_alloc(g->n_node, sizeof *v->needs_dx);
    v->trained = dt_alloc(g->n_node, sizeof *v->trained);
    v->gradient = dt_alloc(g->n_node, sizeof *v->gradient);
    v->last_sharing = dt_alloc(g->n_node, sizeof *v->last_sharing);
    v->sharing = dt_alloc(g->n_node, sizeof *v->sharing);
    v->sign = dt_alloc(g->n_node, sizeof *v->sign);
    v->written = dt_alloc(map->n, sizeof *v->written);
    v->owed = dt_alloc(map->n, sizeof *v->owed);
    v->summed = dt_alloc(map->n, sizeof *v->summed);
    v->adder = dt_alloc(map->n, sizeof *v->adder);
    v->ran = dt_alloc(g->n_node, sizeof *v->ran);
    v->holds = dt_alloc(p->n_tensor, sizeof *v->holds);
    v->saved = dt_alloc(p->n_row, sizeof *v->saved);
    v->entry = dt_alloc(p->n_tensor, sizeof *v->entry);
    if (v->entry == NULL || v->needs_dx == NULL || v->trained == NULL || v->gradient == NULL ||
        v->last_sharing == NULL || v->sharing == NULL || v->sign == NULL || v->written == NULL ||
        v->owed == NULL || v->summed == NULL || v->adder == NULL || v->ran == NULL ||
        v->holds == NULL || v->saved == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    for (size_t i = 0; i < map->n; i++)
        v->adder[i] = INT32_MAX;
    find_entries(v);
    dti_graph_trained(g, v->needs_dx, v->trained);
    dti_graph_sharing(g, v->last_sharing, v->sharing);
    dti_find_signs(g, v->sign);
    sum_gradients(v);
    return DT_OK;
}

void dti_values_deinit(dti_values *v)
{
    dt_free(v->needs_dx);
    dt_free(v->trained);
    dt_free(v->gradient);
    dt_free(v->last_sharing);
    dt_free(v->sharing);
    dt_free(v->sign);
    dt_free(v->written);
    dt_free(v->owed);
    dt_free(v->summed);
    dt_free(v->adder);
    dt_free(v->ran);
    dt_free(v->entry);
    dt_free(v->holds);
    dt_free(v->saved);
}

/* ---- what an op is told ---- */

typedef struct op_check {
    dti_values *v;
    const dt_plan_op *op;
    const dt_layer_desc *desc;
    const dt_call *call;
    const dt_facts *facts;
    struct {
        uint64_t bytes, sample; /* of the tensor; of one sample, 0: of no batch */
        uint64_t from, to;      /* the bytes of the tensor that it takes; to 0: all */
        uint64_t value;
        uint64_t other; /* another value that serves as well; 0 */
        int32_t home;   /* entry of the map, or DT_NONE */
        uint8_t mode;   /* 0: the port is not bound */
        bool optional;
    } want[DT_PORTS];
    dt_err *err;
} op_check;

static dt_status wrong(const op_check *k, const char *what, int64_t has, int64_t should)
{
    return DT_FAIL(k->err, DT_E_DATA, "%s: %s is %" PRId64 ", but must be %" PRId64 ": plan again",
        k->op->name, what, has, should);
}

static dt_status wrong_type(const op_check *k, dt_dtype should)
{
    return DT_FAIL(k->err, DT_E_DATA, "%s: its values are in %s, but must be in %s: plan again",
        k->op->name, dt_dtype_name((dt_dtype)k->op->dtype), dt_dtype_name(should));
}

/* Whether the op's layer computes as in an evaluation. */
static bool evaluates(const op_check *k)
{
    return k->v->program == DT_PROGRAM_EVAL || k->call->node->frozen;
}

static dt_form_kind forward_form(const op_check *k)
{
    return dti_forward_form(k->desc, evaluates(k));
}

/* Whether an op of a layer may have this form here. */
static bool may_be(const op_check *k, dt_form_kind form)
{
    const dti_values *v = k->v;
    const dt_form_kind forward = forward_form(k);
    const bool trains = v->program == DT_PROGRAM_FIRST || v->program == DT_PROGRAM_AGAIN;
    const bool trained = v->trained[k->call->node - v->graph->node];
    const bool own_recompute = forward == DT_FORWARD && k->desc->form[DT_RECOMPUTE].suffix != NULL;
    switch (k->op->kind) {
    case DT_OP_FORWARD:
        return form == forward;
    case DT_OP_RECOMPUTE:
        return k->desc->repeatable && form == (own_recompute ? DT_RECOMPUTE : forward);
    case DT_OP_BACKWARD:
        return trains && trained && (form == DT_BACKWARD || form == DT_BACKWARD2);
    case DT_OP_REORDER:
        return form == DT_DERIVE_F ||
               (trains && trained && (form == DT_DERIVE_B || form == DT_RESTORE));
    default:
        return false;
    }
}

static bool may_update(const dti_values *v)
{
    return v->program == DT_PROGRAM_UPDATE || (v->map->early && v->program == DT_PROGRAM_FIRST);
}

/* The same of ops that belong to no layer. */
static bool may_be_plain(const op_check *k, dt_form_kind form)
{
    const dt_form *f = &k->desc->form[form];
    const bool trains = k->v->program == DT_PROGRAM_FIRST || k->v->program == DT_PROGRAM_AGAIN;
    if (k->desc->infer != NULL)
        return false;
    switch (k->op->kind) {
    case DT_OP_BACKWARD:
        return trains && form == DT_FORWARD && k->op->codec == 0 && f->reads == DT_BITS(DT_X, 2) &&
               f->writes == DT_BIT(DT_Y);
    case DT_OP_UPDATE:
        return may_update(k->v) && form == DT_UPDATE;
    case DT_OP_ENCODE:
        return form == DT_FORWARD && k->op->codec > 0;
    case DT_OP_DECODE:
        return form == DT_BACKWARD && k->op->codec > 0;
    default:
        return false;
    }
}

static dt_status check_form(const op_check *k)
{
    const dt_plan_op *op = k->op;
    const dt_node *nd = k->call->node;
    const char *kind = op->kind < DT_OP_KINDS ? dt_op_kind_name((dt_op_kind)op->kind) : "unknown";
    if (op->form >= DT_FORMS || op->kind >= DT_OP_KINDS || k->desc->identity ||
        (op->kind != DT_OP_UPDATE && k->v->program == DT_PROGRAM_UPDATE) ||
        k->desc->form[op->form].suffix == NULL ||
        !(nd != NULL ? may_be(k, (dt_form_kind)op->form) : may_be_plain(k, (dt_form_kind)op->form)))
        return DT_FAIL(k->err, DT_E_DATA, "%s: '%s' has no such %s op in program '%s': plan again",
            op->name, k->desc->name, kind, k->v->plan->program);
    const int alts = nd != NULL && k->desc->n_alt > 0 ? k->desc->n_alt : 1;
    if (op->alt >= alts)
        return wrong(k, "its alternative", op->alt, alts - 1);
    return DT_OK;
}

/* Its samples lie in the batch, and are all of that unless the op may be split. */
static dt_status check_samples(const op_check *k)
{
    const dt_plan_op *op = k->op;
    const int64_t batch = k->v->plan->batch;
    const bool split =
        k->call->node != NULL && op->kind != DT_OP_REORDER && k->desc->form[op->form].split;
    if (op->n0 < 0 || op->n0 >= op->n1 || op->n1 > batch || (!split && op->n1 - op->n0 != batch))
        return DT_FAIL(k->err, DT_E_DATA,
            "%s: samples %" PRId64 " to %" PRId64 " of %" PRId64 "%s: plan again", op->name, op->n0,
            op->n1, batch, split ? "" : ", but it takes all at once");
    return DT_OK;
}

dt_status dti_values_check_call(
    dti_values *v, const dt_plan_op *op, const dt_layer_desc *desc, const dt_call *c, dt_err *err)
{
    const op_check k = {.v = v, .op = op, .desc = desc, .call = c, .err = err};
    const dt_dtype values = v->graph->dtype;
    DT_CHECK(check_form(&k));
    DT_CHECK(check_samples(&k));
    if (c->node != NULL && op->dtype != values)
        return wrong_type(&k, values);
    if (c->node == NULL && op->dtype != DT_F32 && op->dtype != values)
        return wrong_type(&k, DT_F32);
    if (c->node != NULL && (op->count != 0 || op->codec != 0 || op->packed != 0))
        return wrong(&k, "its count of elements", op->count, 0);
    const bool dx =
        c->node != NULL && v->program != DT_PROGRAM_UPDATE && v->needs_dx[c->node - v->graph->node];
    if (op->needs_dx != dx)
        return wrong(&k, "whether a gradient goes on", op->needs_dx, dx);
    if (c->node == NULL && (op->count <= 0 || op->count > INT64_MAX / 8))
        return DT_FAIL(err, DT_E_DATA, "%s: %" PRId64 " elements: plan again", op->name, op->count);
    return DT_OK;
}

/* ---- what it binds ---- */

static void want(op_check *k, int port, int mode, uint64_t value, uint64_t bytes)
{
    k->want[port].mode = (uint8_t)mode;
    k->want[port].value = value;
    k->want[port].bytes = bytes;
    k->want[port].home = DT_NONE;
}

/* A tensor of so many bytes a sample. No size of a graph overflows for its own batch, but a plan
 * may claim any. */
static void want_batch(op_check *k, int port, int mode, uint64_t value, uint64_t sample)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(sample, (uint64_t)k->v->plan->batch, &bytes))
        bytes = UINT64_MAX;
    want(k, port, mode, value, bytes);
    k->want[port].sample = sample;
}

static void want_home(op_check *k, int port, int mode, int32_t home)
{
    want(k, port, mode, 0, home >= 0 ? k->v->map->home[home].bytes : UINT64_MAX);
    k->want[port].home = home >= 0 ? home : INT32_MAX;
}

static uint64_t output_of(const dti_values *v, int32_t value)
{
    value = dt_graph_behind(v->graph, value);
    return value == DT_GRAPH_INPUT ? value_of(IMAGE, 0, 0) : value_of(OUTPUT, value, 0);
}

static int32_t home_of(const op_check *k, int32_t node, int i, int port)
{
    return dti_map_find(k->v->map, dti_graph_owner(k->v->graph, node), i, (dt_port)port);
}

static void want_inputs(op_check *k, const dt_node *nd)
{
    for (int i = 0; i < nd->n_in; i++)
        want_batch(k, DT_X + i, DT_READ, output_of(k->v, nd->in[i]),
            dti_graph_value_bytes(k->v->graph, nd->in[i]));
}

static void want_stash(op_check *k, int32_t node, int i, int mode)
{
    const dt_stash_info *s = &k->call->node->info.stash[i];
    uint64_t bytes;
    if (s->fixed_bytes == 0)
        want_batch(k, DT_S + i, mode, value_of(STASH, node, i), s->sample_bytes);
    else if (__builtin_mul_overflow(s->sample_bytes, (uint64_t)k->v->plan->batch, &bytes) ||
             __builtin_add_overflow(bytes, s->fixed_bytes, &bytes))
        want(k, DT_S + i, mode, value_of(STASH, node, i), UINT64_MAX);
    else
        want(k, DT_S + i, mode, value_of(STASH, node, i), bytes);
}

/* Where backward reads of an output only its sign, that of its one reader which keeps it serves. */
static uint64_t sign_of(const dti_values *v, int32_t node)
{
    return v->sign[node] != node ? value_of(OUTPUT, v->sign[node], 0) : 0;
}

static void want_saved(op_check *k, const dt_node *nd, int32_t node)
{
    const dt_ports reads = nd->desc->n_alt > 0 ? nd->desc->alt[k->op->alt].reads : 0;
    if (reads & DT_BIT(DT_X))
        want_inputs(k, nd);
    if (reads & DT_BIT(DT_Y)) {
        want_batch(
            k, DT_Y, DT_READ, value_of(OUTPUT, node, 0), dti_graph_value_bytes(k->v->graph, node));
        k->want[DT_Y].other = sign_of(k->v, node);
    }
    for (int i = 0; i < nd->info.n_stash; i++)
        if (reads & DT_BIT(DT_S + i))
            want_stash(k, node, i, DT_READ);
}

/* What forward, its recompute and evaluation leave. */
static void want_results(op_check *k, const dt_node *nd, int32_t node, dt_ports writes)
{
    const bool recompute = k->op->kind == DT_OP_RECOMPUTE;
    const int mode = k->v->program == DT_PROGRAM_AGAIN ? DT_UPDATES : DT_WRITE;
    const dt_ports saved = nd->desc->n_alt > 0 ? nd->desc->alt[k->op->alt].reads & writes : 0;
    if (writes & DT_BIT(DT_Y))
        want_batch(
            k, DT_Y, DT_WRITE, value_of(OUTPUT, node, 0), dti_graph_value_bytes(k->v->graph, node));
    for (int i = 0; i < nd->info.n_stash && !evaluates(k); i++)
        if (saved & DT_BIT(DT_S + i)) {
            want_stash(k, node, i, DT_WRITE);
            k->want[DT_S + i].optional = recompute;
        }
    for (int i = 0; i < dti_graph_params(nd) && !recompute && !evaluates(k); i++)
        if (writes & DT_BIT(DT_Q + i))
            want_home(k, DT_Q + i, mode, home_of(k, node, i, DT_Q));
}

/* Whether the parameter's gradient holds something already: of earlier micro-batches, or of a layer
 * further on that shares the parameter. */
static bool adds(const dti_values *v, int32_t node, int i)
{
    const int32_t last = v->last_sharing[dti_graph_owner(v->graph, node)];
    return v->program == DT_PROGRAM_AGAIN || (i == 0 && last > node);
}

/* The tensor at a port; DT_NONE. */
static int32_t bound(const op_check *k, int port)
{
    for (int32_t i = k->op->first; i < k->op->first + k->op->n; i++)
        if (k->v->plan->arg[i].port == port)
            return k->v->plan->arg[i].tensor;
    return DT_NONE;
}

static uint64_t held(const op_check *k, int port)
{
    const int32_t t = bound(k, port);
    return t >= 0 ? k->v->holds[t] : 0;
}

/* A parameter's gradient where that has no home: the first of them makes a transient. */
static void want_loose(op_check *k, int32_t node, int i, bool can)
{
    const int port = DT_DP + i;
    const int32_t home = home_of(k, node, i, DT_P);
    const uint64_t bytes = home >= 0 ? k->v->map->home[home].bytes : UINT64_MAX;
    const uint64_t has = held(k, port), parts = value_of(PART, home, 0);
    if (!adds(k->v, node, i))
        want(k, port, DT_WRITE, parts + 1, bytes);
    else if (can && (has & ~(uint64_t)0xffff) == parts)
        want(k, port, DT_UPDATES, has + 1, bytes);
    else
        want(k, port, DT_WRITE, value_of(READY, node, i), bytes);
}

/* A parameter's gradient in its own layout: in place, added to what is there by an op that @can, or
 * to be added later. */
static void want_gradient(op_check *k, int32_t node, int i, bool can)
{
    const int32_t home = home_of(k, node, i, DT_DP);
    const bool add = home >= 0 && adds(k->v, node, i);
    if (k->v->map->loose) {
        want_loose(k, node, i, can);
        return;
    }
    want_home(k, DT_DP + i, add && can ? DT_UPDATES : DT_WRITE, home);
    if (add && !can) {
        k->want[DT_DP + i].home = DT_NONE;
        k->want[DT_DP + i].value = value_of(READY, node, i);
    }
}

static void want_gradients(op_check *k, const dt_node *nd, int32_t node, dt_ports writes)
{
    for (int i = 0; i < dti_graph_params(nd); i++) {
        if (nd->info.param[i].buffer || !(writes & DT_BIT(DT_DP + i)))
            continue;
        if (i == 0 && k->facts->gradient_bytes > 0)
            want(k, DT_DP, DT_WRITE, value_of(RAW, node, 0), k->facts->gradient_bytes);
        else
            want_gradient(k, node, i, k->facts->adds);
    }
    bool shared = false;
    for (int i = 0; i < nd->n_in && (writes & DT_BIT(DT_DX)) != 0; i++) {
        const int32_t to = dt_graph_behind(k->v->graph, nd->in[i]);
        const bool one = nd->desc->shares_dy;
        if (to == DT_GRAPH_INPUT || !k->v->trained[to] || (one && shared))
            continue;
        want_batch(k, DT_DX + (one ? 0 : i), DT_WRITE, GRADIENT | part_of(node, one ? 0 : i),
            dti_graph_value_bytes(k->v->graph, one ? node : nd->in[i]));
        shared = true;
    }
}

/* The weight in the layout that the op wants. */
static void want_derived(op_check *k, int32_t node, int which)
{
    if (k->facts->derived_bytes > 0)
        want(k, DT_D + which, DT_READ, value_of(DERIVED, node, which), k->facts->derived_bytes);
    else
        want_home(k, DT_D + which, DT_READ, home_of(k, node, 0, DT_P));
}

static void want_params(op_check *k, const dt_node *nd, int32_t node, dt_ports reads)
{
    for (int i = 0; i < dti_graph_params(nd); i++)
        if (reads & DT_BIT(DT_P + i))
            want_home(k, DT_P + i, DT_READ, home_of(k, node, i, DT_P));
}

/* A recompute is given all that forward read, though its own form may not look at it. */
static void want_params_of_first(op_check *k, const dt_node *nd, int32_t node, dt_ports reads)
{
    const dt_ports first = k->desc->form[forward_form(k)].reads & ~reads;
    want_params(k, nd, node, first);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        k->want[DT_P + i].optional = (first & DT_BIT(DT_P + i)) != 0;
}

static void want_layer(op_check *k, const dt_node *nd, int32_t node)
{
    const dt_form *f = &k->desc->form[k->op->form];
    const bool backward = k->op->kind == DT_OP_BACKWARD;
    const uint64_t labels = sizeof(int32_t) * (uint64_t)dt_graph_labels(k->v->graph);
    if (f->reads & DT_BIT(DT_X))
        want_inputs(k, nd);
    want_params(k, nd, node, f->reads);
    if (k->op->kind == DT_OP_RECOMPUTE)
        want_params_of_first(k, nd, node, f->reads);
    for (int which = 0; which < 2; which++)
        if (f->reads & DT_BIT(DT_D + which))
            want_derived(k, node, which);
    for (int i = 0; i < nd->info.n_stash; i++)
        if (f->reads & DT_BIT(DT_S + i))
            want_stash(k, node, i, DT_READ);
    if (f->reads & DT_BIT(DT_LABELS))
        want_batch(k, DT_LABELS, DT_READ, value_of(LABELS, 0, 0), labels);
    if (f->reads & DT_BIT(DT_DY))
        want_batch(k, DT_DY, DT_READ, GRADIENT | k->v->gradient[node],
            dti_graph_value_bytes(k->v->graph, node));
    if (f->saved)
        want_saved(k, nd, node);
    if (f->updates & DT_BIT(DT_METRICS))
        want_home(k, DT_METRICS, k->v->program == DT_PROGRAM_AGAIN ? DT_UPDATES : DT_WRITE,
            k->v->map->metrics);
    if (backward)
        want_gradients(k, nd, node, f->writes);
    else
        want_results(k, nd, node, f->writes);
}

/* ---- ops of layouts, of no layer, and of codecs ---- */

/* Facts of the op that an op of layouts serves. */
static dt_status served(const op_check *k, dt_form_kind form, dt_facts *f)
{
    dt_call c = *k->call;
    c.form = form;
    DT_TRY(k->err, dti_call_facts(&c, k->desc, f, k->err), "%s", k->op->name);
    return DT_OK;
}

static dt_form_kind backward_that(const dt_layer_desc *d, bool reads, int port)
{
    const dt_form *f = &d->form[DT_BACKWARD];
    return ((reads ? f->reads : f->writes) & DT_BIT(port)) != 0 ? DT_BACKWARD : DT_BACKWARD2;
}

static dt_status want_layouts(op_check *k, int32_t node)
{
    dt_facts f;
    if (k->op->form == DT_RESTORE) {
        DT_CHECK(served(k, backward_that(k->desc, false, DT_DP), &f));
        want(k, DT_S, DT_READ, value_of(RAW, node, 0), f.gradient_bytes);
        want_gradient(k, node, 0, false);
        return DT_OK;
    }
    const int which = k->op->form == DT_DERIVE_B;
    const dt_form_kind form = which ? backward_that(k->desc, true, DT_D + 1) : forward_form(k);
    DT_CHECK(served(k, form, &f));
    want_home(k, DT_P, DT_READ, home_of(k, node, 0, DT_P));
    want(k, DT_D + which, DT_WRITE, value_of(DERIVED, node, which), f.derived_bytes);
    return DT_OK;
}

static int32_t home_at(const op_check *k, int port)
{
    const int32_t t = bound(k, port);
    return t >= 0 ? k->v->entry[t] : DT_NONE;
}

/* The parameter, an entry of the map, that a value is a gradient for on its way to the sum of them;
 * DT_NONE. */
static int32_t owed_to(const dti_values *v, uint64_t value)
{
    const int32_t node = of_value(value);
    const int i = what_is(value) == READY ? (int)(value & 0xffff) : 0;
    if (what_is(value) != RAW && what_is(value) != READY)
        return DT_NONE;
    return dti_map_find(v->map, dti_graph_owner(v->graph, node), i, DT_P);
}

/* What a sum adds: the gradient of some node for this parameter. */
static uint64_t ready_for(const op_check *k, int32_t parameter)
{
    const uint64_t has = held(k, DT_X + 1);
    const bool fits = what_is(has) == READY && owed_to(k->v, has) == parameter;
    return fits ? has : value_of(READY, UINT32_MAX, 0);
}

/* Two gradients of a value, or one more of a parameter to what is there. */
static dt_status want_sum(op_check *k)
{
    const dt_dtype type = (dt_dtype)k->op->dtype;
    const uint64_t bytes = (uint64_t)k->op->count * dt_dtype_bytes(type);
    const int32_t home = home_at(k, DT_Y);
    const uint64_t one = held(k, DT_X), other = held(k, DT_X + 1);
    const bool more = home != DT_NONE && k->v->map->home[home].port == DT_DP;
    const dt_dtype should = more || what_is(one) == PART ? DT_F32 : k->v->graph->dtype;
    if (type != should)
        return wrong_type(k, should);
    if (more) {
        const dt_home *h = &k->v->map->home[home];
        const int32_t parameter = dti_map_find(k->v->map, h->node, h->param, DT_P);
        want_home(k, DT_X, DT_READ, home);
        want(k, DT_X + 1, DT_READ, ready_for(k, parameter), bytes);
        want_home(k, DT_Y, DT_WRITE, home);
        k->want[DT_X].bytes = k->want[DT_Y].bytes = bytes;
    } else if (what_is(one) == PART) { /* where it has no home */
        want(k, DT_X, DT_READ, one, bytes);
        want(k, DT_X + 1, DT_READ, ready_for(k, of_value(one)), bytes);
        want(k, DT_Y, DT_WRITE, one + 1, bytes);
    } else {
        want(k, DT_X, DT_READ, GRADIENT | one, bytes);
        want(k, DT_X + 1, DT_READ, GRADIENT | other, bytes);
        want(k, DT_Y, DT_WRITE, GRADIENT | (one + other), bytes);
    }
    return DT_OK;
}

/* The gradients that a parameter's is the sum of: one of each layer that has it. */
static int parts_of(const dti_values *v, const dt_home *h)
{
    return h->param == 0 ? 1 + v->sharing[h->node] : 1;
}

static dt_status want_update(op_check *k)
{
    const dt_map *m = k->v->map;
    const dt_form *f = &k->desc->form[DT_UPDATE];
    const int32_t home = home_at(k, DT_P);
    const dt_home *h = home != DT_NONE && m->home[home].port == DT_P ? &m->home[home] : NULL;
    const bool buffer = h != NULL && h->role == DT_ROLE_BUFFERS;
    const bool commits = (f->reads & DT_BIT(DT_Q)) != 0;
    const bool early = m->early && !buffer;
    const bool here = early == (k->v->program == DT_PROGRAM_FIRST);
    if (h == NULL || buffer != commits || !here || k->v->graph->node[h->node].frozen)
        return DT_FAIL(k->err, DT_E_DATA, "%s: '%s' updates no such tensor: plan again",
            k->op->name, k->desc->name);
    const bool vector = !buffer && k->v->graph->node[h->node].info.param[h->param].rank < 2;
    if (k->op->vector != vector)
        return wrong(k, "whether it is a vector", k->op->vector, vector);
    const uint64_t first = k->v->written[home] < h->bytes ? k->v->written[home] : 0;
    const uint64_t left = (h->bytes - first) / sizeof(float);
    if ((uint64_t)k->op->count > left)
        return wrong(k, "its count of elements", k->op->count, (int64_t)left);
    const int from = buffer ? DT_Q : DT_DP;
    if (early && !m->loose && k->v->summed[home] != parts_of(k->v, h))
        return wrong(
            k, "how many layers its gradient is of", k->v->summed[home], parts_of(k->v, h));
    if (early && m->loose)
        want(k, DT_DP, DT_READ, value_of(PART, home, parts_of(k->v, h)), h->bytes);
    else
        want_home(k, from, DT_READ, dti_map_find(m, h->node, h->param, (dt_port)from));
    want_home(k, DT_P, buffer ? DT_WRITE : DT_UPDATES, home);
    for (int s = 0; s < DT_MAX_STATE && !buffer; s++) {
        const int32_t state = dti_map_find(m, h->node, h->param, (dt_port)(DT_M + s));
        const bool has = state != DT_NONE, takes = (f->updates & DT_BIT(DT_M + s)) != 0;
        if (has != takes && (has || (f->may_lack & DT_BIT(DT_M + s)) == 0))
            return DT_FAIL(k->err, DT_E_DATA, "%s: '%s' is not the optimizer of this run",
                k->op->name, k->desc->name);
        if (has)
            want_home(k, DT_M + s, DT_UPDATES, state);
    }
    const int64_t begin = (int64_t)(first / sizeof(float));
    const bool scales = (f->updates & DT_BIT(DTI_SCALES_OF(DT_M))) != 0;
    if (scales && begin % DT_STATE_BLOCK != 0)
        return wrong(k, "where its elements begin within a block", begin % DT_STATE_BLOCK, 0);
    for (int port = 0; port < DT_PORTS; port++) {
        const int32_t entry = k->want[port].home;
        const bool known = entry >= 0 && (size_t)entry < m->n;
        const dt_store store = known ? m->home[entry].store : DT_STORE_F32;
        k->want[port].from = dt_stored_bytes(store, begin);
        k->want[port].to = dt_stored_bytes(store, begin + k->op->count);
    }
    return DT_OK;
}

static dt_status want_codec(op_check *k)
{
    const bool packs = k->op->kind == DT_OP_ENCODE;
    const uint64_t x = held(k, DT_X), bytes = (uint64_t)k->op->count * sizeof(uint32_t);
    const uint64_t value = packs ? x : x & ~packed_as(0, 0xff);
    const uint64_t packed = packed_as(value, k->op->codec);
    if (what_is(value) != OUTPUT || value >> 56 != 0)
        return DT_FAIL(k->err, DT_E_DATA, "%s: what it reads is no output of a layer: plan again",
            k->op->name);
    if (!k->call->codec->exact && k->v->graph->dtype != DT_F32)
        return DT_FAIL(k->err, DT_E_DATA, "%s: '%s' packs fp32 values only: plan again",
            k->op->name, k->call->codec->name);
    const size_t least = dt_packed_least(k->call->codec, (size_t)k->op->count, k->call->n);
    if (k->op->packed < least)
        return wrong(k, "the size of what is packed", (int64_t)k->op->packed, (int64_t)least);
    want(k, DT_X, DT_READ, packs ? value : packed, packs ? bytes : k->op->packed);
    want(k, DT_Y, DT_WRITE, packs ? packed : value, packs ? k->op->packed : bytes);
    return DT_OK;
}

static dt_status want_plain(op_check *k)
{
    const bool codec = k->op->kind == DT_OP_ENCODE || k->op->kind == DT_OP_DECODE;
    if (!codec && k->op->packed != 0)
        return wrong(k, "the size of what is packed", (int64_t)k->op->packed, 0);
    if (k->op->kind == DT_OP_UPDATE)
        return want_update(k);
    if (k->op->vector)
        return wrong(k, "whether it is a vector", 1, 0);
    if (codec)
        return want_codec(k);
    return want_sum(k);
}

/* ---- what is bound ---- */

static dt_status refuse_port(const op_check *k, const dt_plan_arg *a, const char *why)
{
    return DT_FAIL(k->err, DT_E_DATA, "%s: port %d: '%s' %s: plan again", k->op->name, a->port,
        k->v->plan->tensor[a->tensor].name, why);
}

static dt_status check_range(const op_check *k, const dt_plan_arg *a)
{
    const uint64_t bytes = k->want[a->port].bytes, sample = k->want[a->port].sample;
    const dt_plan_tensor *t = &k->v->plan->tensor[a->tensor];
    const bool part = sample > 0 && k->op->n1 - k->op->n0 != k->v->plan->batch;
    const uint64_t last = k->want[a->port].to > 0 ? k->want[a->port].to : bytes;
    const uint64_t from = part ? (uint64_t)k->op->n0 * sample : k->want[a->port].from;
    const uint64_t to = part ? (uint64_t)k->op->n1 * sample : last;
    const int32_t entry = k->v->entry[a->tensor];
    if ((size_t)a->tensor >= k->v->map->n && entry != DT_NONE) { /* whole, what is itself a part */
        const uint64_t begins = t->home - k->v->map->home[entry].off;
        if (k->want[a->port].to > 0 && begins == from && t->bytes == to - from && a->from == 0 &&
            a->to == t->bytes)
            return DT_OK;
    } else if (t->bytes == bytes && a->from == from && a->to == to) {
        return DT_OK;
    }
    return DT_FAIL(k->err, DT_E_DATA,
        "%s: port %d: bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 " of '%s', but it takes "
        "%" PRIu64 " to %" PRIu64 " of %" PRIu64 ": plan again",
        k->op->name, a->port, a->from, a->to, t->bytes, t->name, from, to, bytes);
}

/* A tensor that is written stands at no other port; but a sum may be where what is added to was. */
static bool stands_alone(const op_check *k, const dt_plan_arg *a)
{
    if (a->mode == DT_READ || k->want[a->port].home != DT_NONE)
        return true;
    for (int32_t i = k->op->first; i < k->op->first + k->op->n; i++) {
        const dt_plan_arg *b = &k->v->plan->arg[i];
        if (b != a && b->tensor == a->tensor)
            return false;
    }
    return true;
}

static dt_status check_arg(const op_check *k, const dt_plan_arg *a)
{
    const uint64_t has = k->v->holds[a->tensor];
    const uint64_t value = k->want[a->port].value, other = k->want[a->port].other;
    const int32_t home = k->want[a->port].home;
    const int32_t entry = k->v->entry[a->tensor];
    const bool persistent = entry != DT_NONE;
    const bool part = a->from != 0 || a->to != k->v->plan->tensor[a->tensor].bytes;
    if (a->mode != k->want[a->port].mode)
        return refuse_port(k, a, "is not read, written or updated as this op does");
    if (home != DT_NONE ? entry != home : persistent)
        return refuse_port(k, a, "is not the persistent tensor that belongs there");
    const bool goes_on = k->want[a->port].to > 0 && k->want[a->port].from > 0;
    if (persistent && k->v->map->home[entry].port == DT_P && k->v->written[entry] > 0 && !goes_on)
        return refuse_port(k, a, "is of the next step already, as its update stands before this");
    DT_CHECK(check_range(k, a));
    if (!stands_alone(k, a))
        return refuse_port(k, a, "is written and stands at another port, too");
    if (!persistent && a->mode == DT_READ && has != value && (other == 0 || has != other))
        return refuse_port(k, a, "does not hold the value that this op reads");
    if (!persistent && part && a->mode != DT_READ && has != 0 && has != value)
        return refuse_port(k, a, "holds another value, of which parts would be left");
    if (!persistent && part && a->mode != DT_READ && has != value && k->op->n0 > 0)
        return refuse_port(k, a, "lacks the samples before those that this op writes");
    return DT_OK;
}

/* What may lie over what, which the proof of a plan takes for granted. */
static dt_status check_safe(const op_check *k)
{
    const dt_form *f = &k->desc->form[k->op->form];
    for (int i = 0; i < k->op->n_safe && i < DT_MAX_OVER; i++) {
        bool known = false;
        for (int j = 0; j < f->n_over; j++)
            known = known || (k->op->safe[i].out == bound(k, f->over[j].out) &&
                                 k->op->safe[i].in == bound(k, f->over[j].in));
        if (!known)
            return DT_FAIL(k->err, DT_E_DATA,
                "%s: this op does not write one of its tensors over that other: plan again",
                k->op->name);
    }
    return DT_OK;
}

static dt_status check_args(const op_check *k)
{
    uint64_t seen = 0;
    for (int32_t i = k->op->first; i < k->op->first + k->op->n; i++) {
        const dt_plan_arg *a = &k->v->plan->arg[i];
        if (a->port >= DT_PORTS || k->want[a->port].mode == 0 || (seen & DT_BIT(a->port)) != 0)
            return refuse_port(k, a, "stands where this op takes none, or another already");
        seen |= DT_BIT(a->port);
        DT_CHECK(check_arg(k, a));
    }
    for (int port = 0; port < DT_PORTS; port++)
        if (k->want[port].mode != 0 && !k->want[port].optional && (seen & DT_BIT(port)) == 0)
            return DT_FAIL(
                k->err, DT_E_DATA, "%s: port %d: nothing is bound: plan again", k->op->name, port);
    return check_safe(k);
}

/* Forward and backward of a layer go through the batch once, in its order: what they add to must
 * not get it twice. */
static dt_status check_turn(const op_check *k, int32_t node)
{
    const bool once = k->op->kind == DT_OP_FORWARD || k->op->kind == DT_OP_BACKWARD;
    int64_t *ran = &k->v->ran[node][k->op->form];
    if (!once)
        return DT_OK;
    if (k->op->n0 != *ran)
        return wrong(k, "its first sample", k->op->n0, *ran);
    *ran = k->op->n1;
    return DT_OK;
}

/* The parameter whose gradient an op writes or adds to at this port, and the node that gives it;
 * DT_NONE: it does neither. */
static int32_t adds_at(const op_check *k, const dt_plan_arg *a, int32_t *node)
{
    const dti_values *v = k->v;
    const uint64_t value = k->want[a->port].value;
    const int32_t home = k->want[a->port].home;
    const dt_home *h = home != DT_NONE ? &v->map->home[home] : NULL;
    if (a->mode == DT_READ || (h != NULL ? h->port != DT_DP : what_is(value) != PART))
        return DT_NONE;
    *node = k->call->node != NULL ? (int32_t)(k->call->node - v->graph->node)
                                  : of_value(held(k, DT_X + 1));
    return h != NULL ? dti_map_find(v->map, h->node, h->param, DT_P) : of_value(value);
}

/* Of layers that share a parameter the last one's gradient is written, those of the others are
 * added to it from the back to the front: else one would be overwritten, and sums differ. */
static dt_status check_sums(const op_check *k)
{
    for (int32_t i = k->op->first; i < k->op->first + k->op->n; i++) {
        const dt_plan_arg *a = &k->v->plan->arg[i];
        int32_t node;
        const int32_t to = adds_at(k, a, &node);
        if (to == DT_NONE)
            continue;
        const int32_t last = k->v->adder[to];
        if (node > last || (node == last && k->op->n0 == 0))
            return refuse_port(k, a,
                "gets this layer's gradient behind that of a layer below it, with which it shares "
                "its weight");
        k->v->adder[to] = node;
        k->v->summed[to] += k->op->n1 == k->v->plan->batch;
    }
    return DT_OK;
}

/* A gradient on its way is read once, by what adds it or brings it into its own layout. */
static void note_reads(const op_check *k)
{
    for (int32_t i = k->op->first; i < k->op->first + k->op->n; i++) {
        const dt_plan_arg *a = &k->v->plan->arg[i];
        const int32_t to = owed_to(k->v, k->v->holds[a->tensor]);
        if (a->mode != DT_READ || to == DT_NONE)
            continue;
        k->v->owed[to]--;
        k->v->holds[a->tensor] = 0;
    }
}

static void note_results(const op_check *k)
{
    note_reads(k);
    for (int32_t i = k->op->first; i < k->op->first + k->op->n; i++) {
        const dt_plan_arg *a = &k->v->plan->arg[i];
        const int32_t entry = k->v->entry[a->tensor];
        if (a->mode == DT_READ)
            continue;
        if (entry != DT_NONE) {
            k->v->written[entry] =
                k->want[a->port].to > 0 ? k->want[a->port].to : k->v->map->home[entry].bytes;
            continue;
        }
        const int32_t to = owed_to(k->v, k->want[a->port].value);
        if (to != DT_NONE)
            k->v->owed[to]++;
        k->v->holds[a->tensor] = k->want[a->port].value;
    }
}

dt_status dti_values_check_op(dti_values *v, const dt_plan_op *op, const dt_layer_desc *desc,
    const dt_call *c, const dt_facts *f, dt_err *err)
{
    op_check k = {.v = v, .op = op, .desc = desc, .call = c, .facts = f, .err = err};
    const int32_t node = c->node != NULL ? (int32_t)(c->node - v->graph->node) : DT_NONE;
    if (node == DT_NONE)
        DT_CHECK(want_plain(&k));
    else if (op->vector)
        return wrong(&k, "whether it is a vector", 1, 0);
    else if (op->kind == DT_OP_REORDER)
        DT_CHECK(want_layouts(&k, node));
    else
        want_layer(&k, c->node, node);
    if (f->work_bytes > 0)
        want(&k, DT_WORK, DT_WRITE, 0, f->work_bytes);
    DT_CHECK(check_args(&k));
    if (node != DT_NONE)
        DT_CHECK(check_turn(&k, node));
    DT_CHECK(check_sums(&k));
    note_results(&k);
    return DT_OK;
}

/* Whether a program must write an entry of the map: gradients, pending statistics and metrics where
 * it trains, what these are for where it updates, metrics where it evaluates. */
static bool must_be_written(const dti_values *v, int32_t home)
{
    const dt_home *h = &v->map->home[home];
    const bool gradient = dti_map_find(v->map, h->node, h->param, DT_DP) != DT_NONE;
    const bool frozen = h->node >= 0 && v->graph->node[h->node].frozen;
    const bool ready =
        (gradient && !v->map->early) || dti_map_find(v->map, h->node, h->param, DT_Q) != DT_NONE;
    switch (v->program) {
    case DT_PROGRAM_FIRST:
    case DT_PROGRAM_AGAIN:
        return h->port == DT_DP || h->port == DT_Q || home == v->map->metrics ||
               (v->map->early && h->port == DT_P && h->role == DT_ROLE_WEIGHTS && !frozen);
    case DT_PROGRAM_UPDATE:
        return h->port == DT_P && ready;
    default:
        return home == v->map->metrics;
    }
}

/* Each layer has given the gradients of its parameters, and each of them came home: of those that
 * share one, all have. */
static dt_status check_gradients(const dti_values *v, dt_err *err)
{
    if (v->program != DT_PROGRAM_FIRST && v->program != DT_PROGRAM_AGAIN)
        return DT_OK;
    for (size_t i = 0; i < v->graph->n_node; i++) {
        const dt_node *nd = &v->graph->node[i];
        const dt_form_kind form = backward_that(nd->desc, false, DT_DP);
        const bool gives = !dti_graph_kept(v->graph, (int32_t)i) && dti_graph_params(nd) > 0 &&
                           v->trained[i] && (nd->desc->form[form].writes & DT_BIT(DT_DP)) != 0;
        if (gives && v->ran[i][form] != v->plan->batch)
            return DT_FAIL(err, DT_E_DATA,
                "no op of program '%s' makes the gradients of '%s': plan again", v->plan->program,
                nd->name);
    }
    for (size_t i = 0; i < v->map->n; i++)
        if (v->owed[i] != 0)
            return DT_FAIL(err, DT_E_DATA,
                "program '%s' makes a gradient of '%s' that no op adds: plan again",
                v->plan->program, v->map->home[i].name);
    return DT_OK;
}

dt_status dti_values_check_end(const dti_values *v, dt_err *err)
{
    DT_CHECK(check_gradients(v, err));
    for (size_t i = 0; i < v->map->n; i++)
        if (must_be_written(v, (int32_t)i) && v->written[i] < v->map->home[i].bytes)
            return DT_FAIL(err, DT_E_DATA, "no op of program '%s' writes %s'%s': plan again",
                v->plan->program, v->written[i] > 0 ? "the end of " : "", v->map->home[i].name);
    return DT_OK;
}

/* ---- rows that are no ops ---- */

dt_status dti_values_fetch(dti_values *v, const dt_row *r, dt_err *err)
{
    const bool labels = r->slot != 0;
    const uint64_t sample = labels ? sizeof(int32_t) * (uint64_t)dt_graph_labels(v->graph)
                                   : dti_graph_value_bytes(v->graph, DT_GRAPH_INPUT);
    uint64_t bytes;
    if (v->program == DT_PROGRAM_UPDATE)
        return DT_FAIL(err, DT_E_DATA,
            "program '%s' has no batch, of which '%s' is fetched: plan again", v->plan->program,
            v->plan->tensor[r->tensor].name);
    if (__builtin_mul_overflow(sample, (uint64_t)v->plan->batch, &bytes) || r->bytes != bytes)
        return DT_FAIL(err, DT_E_DATA,
            "'%s' has %" PRIu64 " bytes, but %s of %" PRId64 " samples have %" PRIu64
            " each: plan again",
            v->plan->tensor[r->tensor].name, r->bytes, labels ? "labels" : "images", v->plan->batch,
            sample);
    v->holds[r->tensor] = value_of(labels ? LABELS : IMAGE, 0, 0);
    return DT_OK;
}

dt_status dti_values_save(
    dti_values *v, const dt_row *r, int32_t step, const dt_codec *codec, dt_err *err)
{
    const uint64_t value = v->holds[r->tensor];
    if (codec != NULL && r->bytes % sizeof(uint32_t) != 0)
        return DT_FAIL(err, DT_E_DATA,
            "copy of %s: %" PRIu64 " bytes are no whole words, which "
            "'%s' packs",
            v->plan->tensor[r->tensor].name, r->bytes, codec->name);
    if (codec != NULL && !codec->exact &&
        (what_is(value) != OUTPUT || value >> 56 != 0 || v->graph->dtype != DT_F32))
        return DT_FAIL(err, DT_E_DATA, "copy of %s: '%s' packs fp32 outputs of layers only",
            v->plan->tensor[r->tensor].name, codec->name);
    if (codec != NULL && codec->drawn.encode != NULL)
        return DT_FAIL(err, DT_E_DATA, "copy of %s: '%s' packs what stays on the device only",
            v->plan->tensor[r->tensor].name, codec->name);
    v->saved[step] = value;
    return DT_OK;
}

void dti_values_restore(dti_values *v, int32_t tensor, int32_t step)
{
    v->holds[tensor] = v->saved[step];
}

void dti_values_place(dti_values *v, int32_t tensor)
{
    v->holds[tensor] = 0;
}
