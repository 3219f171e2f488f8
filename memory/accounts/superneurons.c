/* SuperNeurons' count: the dependency table of its release, liveness over the 2 N steps of forward
 * and backward, outputs that are away, and segments that are computed again.
 *
 * Two of its rules are kept though they overstate: layers in place leave their output whole, and
 * the largest layer counts the gradient of a response norm twice, by which the second segment of
 * AlexNet falls below it. */
#include "memory/accounts/superneurons.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "memory/accounts/account.h"

typedef enum kind { CONV, FC, POOL, NORM, ACTIVATION, RESPONSE, DROPOUT, SOFTMAX } kind;

/* What a step's backward reads and writes, by kind. Who does not own the gradient of its input
 * writes that over the gradient of its output. */
static const struct {
    bool in, out, own, checkpoint, twice;
} facts[] = {[CONV] = {.in = true, .own = true, .checkpoint = true},
    [FC] = {.in = true, .own = true, .checkpoint = true},
    [POOL] = {.in = true, .out = true, .own = true},
    [NORM] = {.in = true, .own = true},
    [ACTIVATION] = {.in = true, .out = true},
    [RESPONSE] = {.in = true, .out = true, .twice = true},
    [DROPOUT] = {.own = true},
    [SOFTMAX] = {.in = true, .out = true, .checkpoint = true}};

static const struct {
    const char *layer;
    kind kind;
} kinds[] = {{"conv", CONV}, {"fc", FC}, {"maxpool", POOL}, {"avgpool", POOL}, {"batchnorm", NORM},
    {"relu", ACTIVATION}, {"sigmoid", ACTIVATION}, {"tanh", ACTIVATION}, {"lrn", RESPONSE},
    {"dropout", DROPOUT}, {"cross_entropy", SOFTMAX}};

enum { USES = 4, NONE = -1 };

/* Of one tensor, so that no sum overflows. */
#define MOST_BYTES (UINT64_MAX >> 24)

/* Tensor i is the output of layer i, tensor n + i the gradient of its input; 0 bytes: it has no
 * such. */
typedef struct account {
    size_t n;
    kind *kind;
    uint64_t *bytes;      /* of 2 n tensors */
    int32_t (*use)[USES]; /* of 2 n steps, forward and then backward from the last layer */
    size_t *first, *last; /* steps that use a tensor */
    size_t *stop;         /* by layer: the first behind its segment; of a checkpoint itself */
    size_t *start;        /* the segment's first */
    uint64_t *load;
} account;

typedef enum way { STAY, OFFLOAD, SPEED, MEMORY, AWARE } way;

static size_t backward(const account *a, size_t layer)
{
    return 2 * a->n - 1 - layer;
}

static dt_status read_kinds(account *a, const dt_graph *g, int64_t batch, dt_err *err)
{
    for (size_t i = 0; i < a->n; i++) {
        const dt_node *nd = &g->node[i];
        size_t k = 0;
        while (k < DT_COUNT(kinds) && strcmp(kinds[k].layer, nd->desc->name) != 0)
            k++;
        const int32_t before = i > 0 ? (int32_t)i - 1 : DT_GRAPH_INPUT;
        if (nd->with[0] != '\0')
            return dti_account_fused(nd, err);
        if (k == DT_COUNT(kinds))
            return DT_FAIL(err, DT_E_CONFIG,
                "%s, a %s: SuperNeurons' table is counted here of convolutions, poolings, norms, "
                "activations, dropout, fc and a loss; what such a layer's backward reads in their "
                "release is not known",
                nd->name, nd->desc->name);
        if (nd->n_in != 1 || nd->in[0] != before)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s does not follow on %s alone: SuperNeurons' table is counted here of chains, "
                "which a network with branches is not; its policy, memory.policy = superneurons, "
                "plans any network",
                nd->name, i > 0 ? g->node[i - 1].name : "the input");
        a->kind[i] = kinds[k].kind;
        /* the loss gives probabilities, as many as the scores that it takes */
        const dt_shape in = dt_graph_shape(g, before);
        const dt_shape out = a->kind[i] == SOFTMAX ? in : dt_graph_shape(g, (int32_t)i);
        const uint64_t each = (uint64_t)batch * sizeof(float);
        const int64_t larger = dt_shape_sample(&in) > dt_shape_sample(&out) ? dt_shape_sample(&in)
                                                                            : dt_shape_sample(&out);
        if ((uint64_t)larger > MOST_BYTES / each)
            return DT_FAIL(err, DT_E_CONFIG, "%s: too many bytes to be counted", nd->name);
        a->bytes[i] = (uint64_t)dt_shape_sample(&out) * each;
        if (facts[a->kind[i]].own)
            a->bytes[a->n + i] = (uint64_t)dt_shape_sample(&in) * each;
    }
    return DT_OK;
}

/* The tensor that holds the gradient of a layer's output; of a softmax that is its output. */
static int32_t gradient(const account *a, size_t layer)
{
    for (size_t i = layer + 1; i < a->n; i++) {
        if (facts[a->kind[i]].own)
            return (int32_t)(a->n + i);
        if (a->kind[i] == SOFTMAX)
            return (int32_t)i;
    }
    return NONE;
}

static void list_uses(account *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const int32_t in = (int32_t)i - 1, out = (int32_t)i;
        int32_t *f = a->use[i], *b = a->use[backward(a, i)];
        f[0] = in;
        f[1] = out;
        f[2] = f[3] = NONE;
        b[0] = facts[a->kind[i]].in ? in : NONE;
        b[1] = facts[a->kind[i]].out ? out : NONE;
        b[2] = gradient(a, i);
        b[3] = facts[a->kind[i]].own ? (int32_t)(a->n + i) : NONE;
    }
    for (size_t s = 0; s < 2 * a->n; s++)
        for (int u = 0; u < USES; u++) {
            const int32_t t = a->use[s][u];
            if (t == NONE)
                continue;
            a->first[t] = a->last[t] == SIZE_MAX ? s : a->first[t];
            a->last[t] = s;
        }
}

static void find_segments(account *a)
{
    for (size_t i = 0; i < a->n; i++)
        a->start[i] = i > 0 && !facts[a->kind[i]].checkpoint && !facts[a->kind[i - 1]].checkpoint
                          ? a->start[i - 1]
                          : i;
    for (size_t i = a->n; i-- > 0;)
        a->stop[i] = facts[a->kind[i]].checkpoint                        ? i
                     : i + 1 < a->n && !facts[a->kind[i + 1]].checkpoint ? a->stop[i + 1]
                                                                         : i + 1;
}

static uint64_t layer_bytes(const account *a, size_t layer)
{
    const int32_t *use = a->use[backward(a, layer)];
    uint64_t sum = 0;
    for (int u = 0; u < USES; u++)
        sum += use[u] != NONE ? a->bytes[use[u]] : 0;
    return sum;
}

static uint64_t largest_layer(const account *a)
{
    uint64_t most = 0;
    for (size_t i = 0; i < a->n; i++) {
        const int32_t dy = gradient(a, i);
        uint64_t sum = layer_bytes(a, i);
        if (facts[a->kind[i]].twice && dy != NONE)
            sum += a->bytes[dy];
        most = sum > most ? sum : most;
    }
    return most;
}

/* Whether a layer's segment is computed once for all of its backward; a checkpoint's, which is not
 * computed again, is as well. */
static bool once(const account *a, size_t layer, way w)
{
    if (w != AWARE || a->stop[layer] == layer)
        return w != MEMORY;
    uint64_t sum = layer_bytes(a, a->stop[layer] - 1);
    for (size_t i = a->start[layer]; i < a->stop[layer]; i++)
        sum += a->bytes[i];
    return sum <= largest_layer(a);
}

static bool used(const account *a, int32_t tensor, size_t step)
{
    for (int u = 0; u < USES; u++)
        if (a->use[step][u] == tensor)
            return true;
    return false;
}

/* Between the next convolution's forward and its backward; the last one's output stays. */
static bool on_host(const account *a, size_t layer, size_t step)
{
    size_t next = layer + 1;
    while (next < a->n && a->kind[next] != CONV)
        next++;
    return a->kind[layer] == CONV && next < a->n && step >= next && step < backward(a, next);
}

/* Whether a tensor that lives takes no bytes at a step. */
static bool away(const account *a, int32_t tensor, size_t step, way w)
{
    const size_t layer = (size_t)tensor;
    if (w == STAY || layer >= a->n)
        return false;
    if (facts[a->kind[layer]].checkpoint || w == OFFLOAD)
        return on_host(a, layer, step);
    if (step < a->n) /* dropped as soon as the next layer has read it */
        return step > layer + 1;
    if (once(a, layer, w))
        return step < backward(a, a->stop[layer]);
    return !used(a, tensor, step);
}

/* The largest load, and in *at its step, the first of several, counted from 1. */
static uint64_t peak(const account *a, way w, uint64_t *at)
{
    uint64_t most = 0;
    *at = 1;
    memset(a->load, 0, 2 * a->n * sizeof *a->load);
    for (size_t t = 0; t < 2 * a->n; t++)
        for (size_t s = a->first[t]; a->bytes[t] > 0 && s <= a->last[t] && s < 2 * a->n; s++)
            a->load[s] += away(a, (int32_t)t, s, w) ? 0 : a->bytes[t];
    for (size_t s = 0; s < 2 * a->n; s++)
        if (a->load[s] > most) {
            most = a->load[s];
            *at = s + 1;
        }
    return most;
}

/* A segment of k layers runs k of them again, or k (k + 1) / 2. */
static uint64_t runs(const account *a, way w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i<a->n; i = a->stop[i]> i ? a->stop[i] : i + 1) {
        const uint64_t k = a->stop[i] - i;
        sum += once(a, i, w) ? k : k * (k + 1) / 2;
    }
    return sum;
}

static void count(const account *a, dti_superneurons *out)
{
    for (size_t t = 0; t < 2 * a->n; t++) {
        out->tensors += a->bytes[t] > 0;
        out->baseline += a->bytes[t];
    }
    uint64_t at;
    out->liveness = peak(a, STAY, &out->liveness_step);
    out->offloaded = peak(a, OFFLOAD, &out->offloaded_step);
    out->speed = peak(a, SPEED, &at);
    out->memory = peak(a, MEMORY, &at);
    out->aware = peak(a, AWARE, &at);
    out->largest = largest_layer(a);
    out->speed_runs = runs(a, SPEED);
    out->memory_runs = runs(a, MEMORY);
    out->aware_runs = runs(a, AWARE);
}

static bool init(account *a, size_t n)
{
    *a = (account){.n = n,
        .kind = dt_alloc(n, sizeof *a->kind),
        .bytes = dt_alloc(n, 2 * sizeof *a->bytes),
        .use = dt_alloc(n, 2 * sizeof *a->use),
        .first = dt_alloc(n, 2 * sizeof *a->first),
        .last = dt_alloc(n, 2 * sizeof *a->last),
        .stop = dt_alloc(n, sizeof *a->stop),
        .start = dt_alloc(n, sizeof *a->start),
        .load = dt_alloc(n, 2 * sizeof *a->load)};
    if (a->kind == NULL || a->bytes == NULL || a->use == NULL || a->first == NULL ||
        a->last == NULL || a->stop == NULL || a->start == NULL || a->load == NULL)
        return false;
    for (size_t t = 0; t < 2 * n; t++)
        a->last[t] = SIZE_MAX;
    return true;
}

static void deinit(account *a)
{
    dt_free(a->kind);
    dt_free(a->bytes);
    dt_free(a->use);
    dt_free(a->first);
    dt_free(a->last);
    dt_free(a->stop);
    dt_free(a->start);
    dt_free(a->load);
}

dt_status dti_superneurons_count(
    dti_superneurons *out, const dt_graph *g, int64_t batch, dt_err *err)
{
    account a;
    *out = (dti_superneurons){.tensors = 0};
    dt_status st = init(&a, g->n_node)
                       ? read_kinds(&a, g, batch, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory to count %zu layers", g->n_node);
    if (st == DT_OK) {
        list_uses(&a);
        find_segments(&a);
        count(&a, out);
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
};

static dt_status count_figures(
    const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    dti_superneurons n;
    const double mib = 1 << 20;
    DT_CHECK(dti_superneurons_count(&n, g, ask->batch, err));
    const double all[DT_COUNT(figures)] = {(double)n.tensors, (double)n.baseline / mib,
        (double)n.liveness / mib, (double)n.offloaded / mib, (double)n.speed / mib,
        (double)n.memory / mib, (double)n.aware / mib, (double)n.speed_runs, (double)n.memory_runs,
        (double)n.aware_runs, (double)n.largest / mib, (double)n.liveness_step,
        (double)n.offloaded_step};
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
