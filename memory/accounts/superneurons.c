/* SuperNeurons' count: the dependency table of its release, liveness over the 2 N steps of forward
 * and backward, outputs that are away, and segments that are computed again.
 *
 * A value that several layers read goes through a layer that copies it for each of them, as in the
 * release. A segment is computed again for a layer whose backward reads a value of it: a batch norm
 * in front of a sum never is, as neither reads what it made.
 *
 * Two of its rules are kept though they overstate: layers in place leave their output whole, and
 * the largest layer counts the gradient of a response norm twice, by which the second segment of
 * AlexNet falls below it.
 *
 * What bounds a batch the paper does not say. It claims the largest layer for the device; and on
 * the host the release allots a place for each tensor as it makes it, gradients and what no policy
 * would ever move among them (include/tensor.h, the constructor). */
#include "memory/accounts/superneurons.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/accounts/account.h"

typedef enum kind {
    CONV,
    FC,
    POOL,
    NORM,
    ACTIVATION,
    RESPONSE,
    DROPOUT,
    SOFTMAX,
    FORK,
    JOIN,
    CONCAT
} kind;

/* What a step's backward reads and writes, by kind. Who does not own the gradient of its input
 * writes that over the gradient of its output; a join does so for its first input. */
static const struct {
    bool in, out, own, checkpoint, twice;
} facts[] = {[CONV] = {.in = true, .own = true, .checkpoint = true},
    [FC] = {.in = true, .own = true, .checkpoint = true},
    [POOL] = {.in = true, .out = true, .own = true},
    [NORM] = {.in = true, .own = true},
    [ACTIVATION] = {.in = true, .out = true},
    [RESPONSE] = {.in = true, .out = true, .twice = true},
    [DROPOUT] = {.own = true},
    [SOFTMAX] = {.in = true, .out = true, .checkpoint = true},
    [FORK] = {.checkpoint = true},
    [JOIN] = {.own = true, .checkpoint = true},
    [CONCAT] = {.own = true, .checkpoint = true}};

static const struct {
    const char *layer;
    kind kind;
} kinds[] = {{"conv", CONV}, {"fc", FC}, {"maxpool", POOL}, {"avgpool", POOL},
    {"global_avgpool", POOL}, {"adaptive_avgpool", POOL}, {"batchnorm", NORM}, {"relu", ACTIVATION},
    {"sigmoid", ACTIVATION}, {"tanh", ACTIVATION}, {"lrn", RESPONSE}, {"dropout", DROPOUT},
    {"cross_entropy", SOFTMAX}, {"add", JOIN}, {"concat", CONCAT}};

enum { NONE = -1, STATES = 3 }; /* a parameter, its gradient, its momentum */

/* Of one tensor, so that no sum overflows. */
#define MOST_BYTES (UINT64_MAX >> 24)

/* Its inputs are @n_in edges from @in on; its outputs, of a fork one for each reader, are @out and
 * what follows that by next_out. */
typedef struct layer {
    kind kind;
    int32_t in, n_in, out;
} layer;

/* What layer @from (NONE: the image) made for layer @to (NONE: nobody, the loss made it). */
typedef struct edge {
    int32_t from, to, next_out;
    uint64_t bytes;
} edge;

/* Tensor e is what is at edge e, tensor n_edge + e its gradient; 0 bytes: there is no such. */
typedef struct account {
    size_t n, n_edge;
    layer *layer;
    edge *edge;
    int32_t *source; /* by node: the layer whose output its readers read */
    int32_t *reader; /* by node: how many read it */
    uint64_t *bytes;
    int32_t
        *use; /* tensors, of step s from use_at[s] on: forward and then backward from the last */
    size_t *use_at;
    size_t *first, *last; /* steps that use a tensor */
    size_t *back;         /* by layer of a segment: the step at which its output is there again */
    bool *large;          /* by layer of a segment: once for all would exceed the largest layer */
    bool *here;
    uint64_t *load, largest;
} account;

typedef enum way { STAY, OFFLOAD, SPEED, MEMORY, AWARE } way;

static size_t backward(const account *a, int32_t l)
{
    return 2 * a->n - 1 - (size_t)l;
}

static bool checkpoint(const account *a, int32_t l)
{
    return l == NONE || facts[a->layer[l].kind].checkpoint;
}

/* ---- the network ---- */

static dt_status kind_of(kind *k, const dt_node *nd, dt_err *err)
{
    size_t i = 0;
    if (nd->with[0] != '\0')
        return dti_account_fused(nd, err);
    while (i < DT_COUNT(kinds) && strcmp(kinds[i].layer, nd->desc->name) != 0)
        i++;
    if (i == DT_COUNT(kinds))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s, a %s: SuperNeurons' table is counted here of convolutions, poolings, norms, "
            "activations, dropout, fc, sums, concatenations and a loss; what such a layer's "
            "backward reads in their release is not known",
            nd->name, nd->desc->name);
    *k = kinds[i].kind;
    return DT_OK;
}

static int32_t add_layer(account *a, kind k)
{
    a->layer[a->n] = (layer){.kind = k, .in = (int32_t)a->n_edge, .out = NONE};
    return (int32_t)a->n++;
}

/* To the layer that was added last, or to nobody. */
static void add_edge(account *a, int32_t from, int32_t to, uint64_t bytes)
{
    const int32_t e = (int32_t)a->n_edge++;
    a->edge[e] = (edge){from, to, NONE, bytes};
    if (to != NONE)
        a->layer[to].n_in++;
    int32_t *end = from != NONE ? &a->layer[from].out : NULL;
    while (end != NULL && *end != NONE)
        end = &a->edge[*end].next_out;
    if (end != NULL)
        *end = e;
}

static dt_status bytes_of(
    const dt_graph *g, int32_t value, int64_t batch, uint64_t *out, dt_err *err)
{
    const dt_shape s = dt_graph_shape(g, value);
    const uint64_t each = (uint64_t)batch * sizeof(float);
    *out = (uint64_t)dt_shape_sample(&s);
    if (*out > MOST_BYTES / each)
        return DT_FAIL(err, DT_E_CONFIG, "%s: too many bytes to be counted",
            value == DT_GRAPH_INPUT ? "the input" : g->node[value].name);
    *out *= each;
    return DT_OK;
}

/* A layer, and behind it a fork where several read what it makes. The loss gives probabilities, as
 * many as the scores that it takes. */
static dt_status read_node(account *a, const dt_graph *g, size_t i, int64_t batch, dt_err *err)
{
    const dt_node *nd = &g->node[i];
    kind k = CONV;
    uint64_t bytes = 0;
    DT_CHECK(kind_of(&k, nd, err));
    const int32_t l = add_layer(a, k);
    for (int j = 0; j < nd->n_in; j++) {
        const int32_t in = dt_graph_behind(g, nd->in[j]);
        DT_CHECK(bytes_of(g, in, batch, &bytes, err));
        add_edge(a, in == DT_GRAPH_INPUT ? NONE : a->source[in], l, bytes);
    }
    a->source[i] = l;
    if (nd->desc->loss)
        add_edge(a, l, NONE, bytes);
    else
        DT_CHECK(bytes_of(g, (int32_t)i, batch, &bytes, err));
    if (a->reader[i] > 1) {
        a->source[i] = add_layer(a, FORK);
        add_edge(a, l, a->source[i], bytes);
    }
    return DT_OK;
}

static dt_status read_network(account *a, const dt_graph *g, int64_t batch, dt_err *err)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (int j = 0; j < g->node[i].n_in && !g->node[i].desc->identity; j++) {
            const int32_t in = dt_graph_behind(g, g->node[i].in[j]);
            if (in != DT_GRAPH_INPUT)
                a->reader[in]++;
        }
    for (size_t i = 0; i < g->n_node; i++)
        if (!g->node[i].desc->identity)
            DT_CHECK(read_node(a, g, i, batch, err));
    return DT_OK;
}

/* ---- who uses what ---- */

/* The tensor that holds the gradient of what is at an edge; of a softmax that is its output. */
static int32_t gradient(const account *a, int32_t e)
{
    while (e != NONE && a->edge[e].to != NONE) {
        const layer *l = &a->layer[a->edge[e].to];
        if (facts[l->kind].own && (l->kind != JOIN || e != l->in))
            return (int32_t)a->n_edge + e;
        e = l->out;
        if (l->kind == SOFTMAX)
            return e;
    }
    return NONE;
}

static bool used(const account *a, int32_t tensor, size_t step)
{
    for (size_t u = a->use_at[step]; u < a->use_at[step + 1]; u++)
        if (a->use[u] == tensor)
            return true;
    return false;
}

static void add_use(account *a, int32_t tensor, size_t step)
{
    if (tensor == NONE || used(a, tensor, step))
        return;
    a->use[a->use_at[step + 1]++] = tensor;
    a->first[tensor] = a->last[tensor] == SIZE_MAX ? step : a->first[tensor];
    a->last[tensor] = step;
}

static void list_step(account *a, int32_t l, size_t step)
{
    const layer *y = &a->layer[l];
    const bool again = step >= a->n;
    for (int32_t e = y->in; e < y->in + y->n_in; e++) {
        if (a->edge[e].from != NONE && (!again || facts[y->kind].in))
            add_use(a, e, step);
        if (again && facts[y->kind].own)
            add_use(a, gradient(a, e), step);
    }
    for (int32_t e = y->out; e != NONE; e = a->edge[e].next_out) {
        if (!again || facts[y->kind].out)
            add_use(a, e, step);
        if (again)
            add_use(a, gradient(a, e), step);
    }
}

static void list_uses(account *a)
{
    for (size_t e = 0; e < a->n_edge; e++) {
        const size_t dy = a->n_edge + e;
        a->bytes[e] = a->edge[e].from != NONE ? a->edge[e].bytes : 0;
        a->bytes[dy] = gradient(a, (int32_t)e) == (int32_t)dy ? a->edge[e].bytes : 0;
    }
    for (size_t s = 0; s < 2 * a->n; s++) {
        a->use_at[s + 1] = a->use_at[s];
        list_step(a, (int32_t)(s < a->n ? s : 2 * a->n - 1 - s), s);
    }
}

static uint64_t layer_bytes(const account *a, int32_t l)
{
    const size_t step = backward(a, l);
    uint64_t sum = 0;
    for (size_t u = a->use_at[step]; u < a->use_at[step + 1]; u++)
        sum += a->bytes[a->use[u]];
    return sum;
}

static uint64_t largest_layer(const account *a)
{
    uint64_t most = 0;
    for (int32_t l = 0; l < (int32_t)a->n; l++) {
        const int32_t dy = gradient(a, a->layer[l].out);
        uint64_t sum = layer_bytes(a, l);
        if (facts[a->layer[l].kind].twice && dy != NONE)
            sum += a->bytes[dy];
        most = sum > most ? sum : most;
    }
    return most;
}

/* ---- segments: layers in a row of which none is a checkpoint; each has one input and one reader
 */

static int32_t before(const account *a, int32_t l)
{
    return a->edge[a->layer[l].in].from;
}

static int32_t behind(const account *a, int32_t l)
{
    return a->edge[a->layer[l].out].to;
}

static bool is_first(const account *a, int32_t l)
{
    return !checkpoint(a, l) && checkpoint(a, before(a, l));
}

static int32_t last_of(const account *a, int32_t l)
{
    while (!checkpoint(a, behind(a, l)))
        l = behind(a, l);
    return l;
}

/* Whether backward of a layer reads what another made. */
static bool reads(const account *a, int32_t l, int32_t of)
{
    return used(a, a->layer[of].out, backward(a, l));
}

/* For backward of @l, layers @first to @to: those whose output is not there. @anew: what was read
 * on the way goes at once, unless backward of @l reads it. */
static uint64_t run_again(account *a, int32_t l, int32_t first, int32_t to, bool anew)
{
    uint64_t n = 0;
    for (int32_t i = first;; i = behind(a, i)) {
        if (!a->here[i]) {
            n++;
            a->here[i] = true;
            a->back[i] = a->back[i] == SIZE_MAX ? backward(a, l) : a->back[i];
            if (anew && i != first && !reads(a, l, before(a, i)))
                a->here[before(a, i)] = false;
        }
        if (i == to)
            return n;
    }
}

static uint64_t replay(account *a, int32_t first, int32_t last, bool anew)
{
    const int32_t next = behind(a, last);
    uint64_t n = reads(a, next, last) ? run_again(a, next, first, last, anew) : 0;
    for (int32_t l = last;; l = before(a, l)) {
        if (reads(a, l, l) || (l != first && reads(a, l, before(a, l))))
            n += run_again(a, l, first, l, anew);
        if (l == first)
            return n;
    }
}

static uint64_t runs(account *a, way w)
{
    uint64_t sum = 0;
    memset(a->here, 0, a->n * sizeof *a->here);
    for (int32_t l = 0; l < (int32_t)a->n; l++)
        if (is_first(a, l))
            sum += replay(a, l, last_of(a, l), w == MEMORY || (w == AWARE && a->large[l]));
    return sum;
}

static void find_large(account *a)
{
    a->largest = largest_layer(a);
    for (int32_t l = 0; l < (int32_t)a->n; l++) {
        if (!is_first(a, l))
            continue;
        const int32_t last = last_of(a, l);
        uint64_t sum = layer_bytes(a, last);
        for (int32_t i = l;; i = behind(a, i)) {
            sum += a->bytes[a->layer[i].out];
            if (i == last)
                break;
        }
        for (int32_t i = l;; i = behind(a, i)) {
            a->large[i] = sum > a->largest;
            if (i == last)
                break;
        }
    }
}

/* ---- peaks ---- */

/* Between the next convolution's forward and its backward, but for what reads it outside of that;
 * the last one's output stays. */
static bool on_host(const account *a, const edge *x, size_t step)
{
    if (a->layer[x->from].kind != CONV)
        return false;
    size_t next = (size_t)x->from + 1;
    while (next < a->n && a->layer[next].kind != CONV)
        next++;
    return next < a->n && step >= next && step > (size_t)x->to &&
           step < backward(a, (int32_t)next) && step < backward(a, x->to);
}

/* Whether a tensor that lives takes no bytes at a step. */
static bool away(const account *a, size_t tensor, size_t step, way w)
{
    if (w == STAY || tensor >= a->n_edge || a->edge[tensor].to == NONE)
        return false;
    const edge *x = &a->edge[tensor];
    if (checkpoint(a, x->from) || w == OFFLOAD)
        return on_host(a, x, step);
    if (step < a->n) /* dropped as soon as the next layer has read it */
        return step > (size_t)x->to;
    if (w == MEMORY || (w == AWARE && a->large[x->from]))
        return !used(a, (int32_t)tensor, step);
    return step < a->back[x->from];
}

/* The largest load, and in *at its step, the first of several, counted from 1. */
static uint64_t peak(const account *a, way w, uint64_t *at)
{
    uint64_t most = 0;
    *at = 1;
    memset(a->load, 0, 2 * a->n * sizeof *a->load);
    for (size_t t = 0; t < 2 * a->n_edge; t++)
        for (size_t s = a->first[t]; a->bytes[t] > 0 && s <= a->last[t] && s < 2 * a->n; s++)
            a->load[s] += away(a, t, s, w) ? 0 : a->bytes[t];
    for (size_t s = 0; s < 2 * a->n; s++)
        if (a->load[s] > most) {
            most = a->load[s];
            *at = s + 1;
        }
    return most;
}

static void count(account *a, dti_superneurons *out)
{
    for (size_t t = 0; t < 2 * a->n_edge; t++) {
        out->tensors += a->bytes[t] > 0;
        out->baseline += a->bytes[t];
    }
    out->speed_runs = runs(a, SPEED);
    out->memory_runs = runs(a, MEMORY);
    out->aware_runs = runs(a, AWARE);
    uint64_t at;
    out->liveness = peak(a, STAY, &out->liveness_step);
    out->offloaded = peak(a, OFFLOAD, &out->offloaded_step);
    out->speed = peak(a, SPEED, &at);
    out->memory = peak(a, MEMORY, &at);
    out->aware = peak(a, AWARE, &at);
    out->largest = a->largest;
}

/* Room for a fork behind every layer, and for six uses of what is at an edge. */
static bool init(account *a, const dt_graph *g)
{
    const size_t nodes = g->n_node, layers = 2 * nodes;
    size_t edges = nodes + 1;
    for (size_t i = 0; i < nodes; i++)
        edges += (size_t)g->node[i].n_in;
    *a = (account){.layer = dt_alloc(layers, sizeof *a->layer),
        .edge = dt_alloc(edges, sizeof *a->edge),
        .source = dt_alloc(nodes, sizeof *a->source),
        .reader = dt_alloc(nodes, sizeof *a->reader),
        .bytes = dt_alloc(edges, 2 * sizeof *a->bytes),
        .use = dt_alloc(edges, 6 * sizeof *a->use),
        .use_at = dt_alloc(2 * layers + 1, sizeof *a->use_at),
        .first = dt_alloc(edges, 2 * sizeof *a->first),
        .last = dt_alloc(edges, 2 * sizeof *a->last),
        .back = dt_alloc(layers, sizeof *a->back),
        .large = dt_alloc(layers, sizeof *a->large),
        .here = dt_alloc(layers, sizeof *a->here),
        .load = dt_alloc(2 * layers, sizeof *a->load)};
    if (a->layer == NULL || a->edge == NULL || a->source == NULL || a->reader == NULL ||
        a->bytes == NULL || a->use == NULL || a->use_at == NULL || a->first == NULL ||
        a->last == NULL || a->back == NULL || a->large == NULL || a->here == NULL ||
        a->load == NULL)
        return false;
    for (size_t t = 0; t < 2 * edges; t++)
        a->last[t] = SIZE_MAX;
    for (size_t l = 0; l < layers; l++)
        a->back[l] = SIZE_MAX;
    return true;
}

static void deinit(account *a)
{
    dt_free(a->layer);
    dt_free(a->edge);
    dt_free(a->source);
    dt_free(a->reader);
    dt_free(a->bytes);
    dt_free(a->use);
    dt_free(a->use_at);
    dt_free(a->first);
    dt_free(a->last);
    dt_free(a->back);
    dt_free(a->large);
    dt_free(a->here);
    dt_free(a->load);
}

dt_status dti_superneurons_count(
    dti_superneurons *out, const dt_graph *g, int64_t batch, dt_err *err)
{
    account a;
    *out = (dti_superneurons){.tensors = 0};
    dt_status st = init(&a, g)
                       ? read_network(&a, g, batch, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory to count %zu layers", g->n_node);
    if (st == DT_OK) {
        list_uses(&a);
        find_large(&a);
        count(&a, out);
        for (size_t e = 0; e < a.n_edge; e++)
            out->input += a.edge[e].from == NONE ? a.edge[e].bytes : 0;
        out->states = (uint64_t)dt_graph_parameters(g) * STATES * sizeof(float);
    }
    deinit(&a);
    return st;
}

/* ---- the account ---- */

static const dt_account_figure figures[] = {
    {"tensors", "", "outputs and gradients of values"},
    {"baseline", "MiB", "bytes of all of them"},
    {"liveness", "MiB", "peak where each lives from its first use to its last"},
    {"offloaded", "MiB", "and outputs of convolutions but the last wait on the host"},
    {"speed", "MiB", "and segments of cheap layers run again, once for all of their backward"},
    {"memory", "MiB", "or anew for each of their layers"},
    {"aware", "MiB", "or anew only where once would exceed the largest layer"},
    {"speed_runs", "layers", "that run again, speed-centric"},
    {"memory_runs", "layers", "memory-centric"},
    {"aware_runs", "layers", "cost-aware"},
    {"largest_layer", "MiB", "the most that backward of one layer uses"},
    {"liveness_step", "", "at which liveness peaks, of the steps of forward and backward from 1"},
    {"offloaded_step", "", "the same with outputs of convolutions on the host"},
    {"mirror", "MiB", "of the host: the release has a place there for all that it makes"},
    {"batch", "samples", "at most, by the largest layer on the device and this on the host"},
    {"batch_16", "samples", "the same, of the multiples of 16"},
};

/* Bytes of values grow with the batch, and those of states do not. NaN: no budget. */
static double largest_batch(double budget, double states, double values, int64_t batch)
{
    return budget > 0 ? fmax(0, floor((budget - states) * (double)batch / values)) : (double)NAN;
}

static dt_status count_figures(
    const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    dti_superneurons n;
    const double mib = 1 << 20;
    DT_CHECK(dti_superneurons_count(&n, g, ask->batch, err));
    const double states = (double)n.states, input = (double)n.input;
    const double mirror = (double)n.baseline + input;
    const double batch =
        fmin(largest_batch((double)ask->budget, states, (double)n.largest + input, ask->batch),
            largest_batch((double)ask->host, states, mirror, ask->batch));
    const double all[DT_COUNT(figures)] = {(double)n.tensors, (double)n.baseline / mib,
        (double)n.liveness / mib, (double)n.offloaded / mib, (double)n.speed / mib,
        (double)n.memory / mib, (double)n.aware / mib, (double)n.speed_runs, (double)n.memory_runs,
        (double)n.aware_runs, (double)n.largest / mib, (double)n.liveness_step,
        (double)n.offloaded_step, (mirror + states) / mib, batch, batch - fmod(batch, 16)};
    memcpy(value, all, sizeof all);
    return DT_OK;
}

const dt_account_desc dt_account_superneurons = {
    .name = "superneurons",
    .summary = "SuperNeurons' dependency table: liveness, offload and recomputation (2018)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count_figures,
};
