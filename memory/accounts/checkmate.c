/* Checkmate's count of figure 6 (Jain and others, MLSys 2020): how many samples train within a
 * device's bytes where at most one forward is computed again, by its baselines and by its optimum.
 *
 * A network is a node a layer as Keras has them, forward and backward: an activation behind a
 * convolution or a fully connected layer is part of that. A node takes its layer's output; backward
 * of a layer, which makes the gradient of that output, reads it, the outputs of the layers that
 * read it, and their gradients. Forward costs a multiply-add each of convolutions and fully
 * connected layers, backward twice that. Parameters and their gradients are fixed bytes, which the
 * paper takes from the device twice for its baselines, once in a schedule's peak and once in what
 * that is held against. Chen's rule of √n and Algorithm 3 may keep any value ("linearised"), or
 * articulation points alone ("AP").
 *
 * Where ours differs: the optimum is what annealing finds, not an integer program's, and so a lower
 * bound of it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "memory/accounts/account.h"
#include "memory/remat/remat.h"
#include "memory/remat/stages.h"

enum { MOVES = 200000, NONE = -1 };

/* ---- the graph ---- */

/**
 * struct folding - a network with the layers folded away that are none of Keras'.
 * @op: by node of the network: the op of forward that makes its value; NONE: the image
 */
typedef struct folding {
    const dt_graph *g;
    int32_t *op;
    uint32_t n_forward, n_edge;
    size_t cap_edge;
    uint64_t *bytes, *cost;
    uint8_t *backward;
    dti_remat_edge *edge;
} folding;

static bool is(const dt_node *nd, const char *layer)
{
    return strcmp(nd->desc->name, layer) == 0;
}

static bool multiplies(const dt_node *nd)
{
    return is(nd, "conv") || is(nd, "fc") || is(nd, "linear");
}

/* Whether a node's value is that of its input: what Keras has within a layer. */
static bool folded(const dt_graph *g, const dt_node *nd)
{
    if (nd->desc->identity)
        return true;
    return is(nd, "relu") && nd->in[0] != DT_GRAPH_INPUT && multiplies(&g->node[nd->in[0]]);
}

static int32_t op_of(const folding *f, int32_t value)
{
    return value == DT_GRAPH_INPUT ? NONE : f->op[value];
}

static dt_status add_edge(folding *f, uint32_t from, uint32_t to, dt_err *err)
{
    if (!dt_grow(&f->edge, &f->cap_edge, f->n_edge, sizeof *f->edge))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the edges of a graph");
    f->edge[f->n_edge++] = (dti_remat_edge){from, to};
    return DT_OK;
}

/* The op of backward that belongs to one of forward; the loss stands between them. */
static uint32_t mirror(const folding *f, uint32_t op)
{
    return 2 * f->n_forward - op;
}

static dt_status add_inputs(folding *f, const dt_node *nd, uint32_t op, dt_err *err)
{
    for (int i = 0; i < nd->n_in; i++) {
        const int32_t in = op_of(f, nd->in[i]);
        if (in == NONE)
            continue;
        DT_CHECK(add_edge(f, (uint32_t)in, op, err));
        DT_CHECK(add_edge(f, op, mirror(f, (uint32_t)in), err));
        DT_CHECK(add_edge(f, mirror(f, op), mirror(f, (uint32_t)in), err));
    }
    return add_edge(f, op, mirror(f, op), err);
}

static void number_ops(folding *f)
{
    for (size_t i = 0; i < f->g->n_node; i++) {
        const dt_node *nd = &f->g->node[i];
        f->op[i] = nd->desc->loss     ? NONE
                   : folded(f->g, nd) ? op_of(f, nd->in[0])
                                      : (int32_t)f->n_forward++;
    }
}

static void weigh(folding *f, size_t node)
{
    const dt_node *nd = &f->g->node[node];
    const dt_shape y = dt_graph_shape(f->g, (int32_t)node);
    const uint32_t op = (uint32_t)f->op[node], back = mirror(f, op);
    f->bytes[op] = f->bytes[back] = (uint64_t)dt_shape_sample(&y) * sizeof(float);
    f->cost[op] = multiplies(nd) ? (uint64_t)(nd->info.forward_flops / 2) : 0;
    f->cost[back] = 2 * f->cost[op];
    f->backward[back] = 1;
}

static dt_status fill(folding *f, dt_err *err)
{
    const uint32_t loss = f->n_forward;
    int32_t scores = NONE;
    if (2 * loss + 1 > DTI_STAGES_MOST_OPS)
        return DT_FAIL(err, DT_E_CONFIG,
            "checkmate: a network of %" PRIu32 " ops, forward and backward, is more than the %d "
            "that its schedules are made for; name one of fewer layers",
            2 * loss + 1, DTI_STAGES_MOST_OPS);
    for (size_t i = 0; i < f->g->n_node; i++) {
        const dt_node *nd = &f->g->node[i];
        if (nd->with[0] != '\0')
            return dti_account_fused(nd, err);
        if (nd->desc->loss)
            scores = op_of(f, nd->in[0]);
        if (nd->desc->loss || folded(f->g, nd))
            continue;
        weigh(f, i);
        DT_CHECK(add_inputs(f, nd, (uint32_t)f->op[i], err));
    }
    f->bytes[loss] = sizeof(float);
    if (scores == NONE)
        return DT_FAIL(err, DT_E_CONFIG, "checkmate: the network has no layer before its loss");
    DT_CHECK(add_edge(f, (uint32_t)scores, loss, err));
    return add_edge(f, loss, mirror(f, (uint32_t)scores), err);
}

static dt_status make_graph(dt_remat_graph *out, const dt_graph *g, dt_err *err)
{
    const size_t most = 2 * g->n_node + 1;
    folding f = {.g = g,
        .op = dt_alloc(g->n_node, sizeof *f.op),
        .bytes = dt_alloc(most, sizeof *f.bytes),
        .cost = dt_alloc(most, sizeof *f.cost),
        .backward = dt_alloc(most, 1)};
    dt_status st = DT_OK;
    if (f.op == NULL || f.bytes == NULL || f.cost == NULL || f.backward == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for a graph of %zu layers", g->n_node);
    if (st == DT_OK) {
        number_ops(&f);
        st = fill(&f, err);
    }
    if (st == DT_OK)
        st = dti_remat_graph_init(
            out, 2 * f.n_forward + 1, f.bytes, f.cost, f.backward, f.n_edge, f.edge, err);
    dt_free(f.op);
    dt_free(f.bytes);
    dt_free(f.cost);
    dt_free(f.backward);
    dt_free(f.edge);
    return st;
}

/* ---- the largest batch ---- */

/**
 * struct room - what a schedule may take.
 * @device @fixed: bytes
 * @limit: of the cost: every op once, and forward once more
 */
typedef struct room {
    uint64_t device, fixed, limit;
} room;

static dt_status make_room(
    room *r, const dt_remat_graph *m, const dt_graph *g, uint64_t device, dt_err *err)
{
    char fixed[DT_HUMAN_BYTES], budget[DT_HUMAN_BYTES];
    *r = (room){.device = device, .fixed = 2 * sizeof(float) * (uint64_t)dt_graph_parameters(g)};
    for (uint32_t v = 0; v < m->n_op; v++)
        r->limit += m->cost[v] * (m->backward[v] != 0 ? 1 : 2);
    if (r->fixed >= device / 2)
        return DT_FAIL(err, DT_E_CONFIG,
            "checkmate: parameters and gradients, %s bytes, counted twice leave nothing of "
            "memory.device_budget = %s; name a larger one",
            dt_human_count(fixed, r->fixed), dt_human_count(budget, device));
    return DT_OK;
}

/* By a rule of a paper: the best of its schedules; NaN: each computes more again. Bytes grow with
 * the batch. */
static dt_status by_rule(
    const dt_remat_graph *m, const room *r, dt_remat_rule rule, double *batch, dt_err *err)
{
    size_t n;
    const dt_remat_policy *all = dt_remat_policies(&n);
    *batch = (double)NAN;
    for (size_t i = 0; i < n; i++)
        for (int k = 0; all[i].rule == rule && k < all[i].n; k++) {
            dt_remat_sequence s;
            dt_remat_taken took;
            DT_CHECK(dti_remat_by_rule(m, &all[i], k, true, &s, &took, err));
            dti_remat_sequence_deinit(&s);
            const double fits = (double)((r->device - 2 * r->fixed) / took.peak);
            if (took.cost <= r->limit && !(fits <= *batch))
                *batch = fits;
        }
    return DT_OK;
}

/* What annealing reaches: between a batch that fits and the first that no sequence fits. */
static dt_status by_search(const dt_remat_graph *m, const room *r, double *batch, dt_err *err)
{
    const uint64_t bytes = r->device - r->fixed;
    dt_remat_sequence s = {0};
    dt_remat_taken took;
    dt_status st = dti_remat_in_order(&s, m, err);
    if (st == DT_OK)
        st = dti_remat_measure(m, &s, &took, err);
    uint64_t fits = st == DT_OK ? bytes / took.peak : 0;
    uint64_t never = bytes / dt_remat_least_peak(m) + 1;
    for (uint64_t n = never - 1; st == DT_OK && fits + 1 < never; n = fits + (never - fits) / 2) {
        const dti_remat_search how = {
            .budget = bytes / n, .seed = 1, .moves = MOVES, .bound = r->limit};
        st = dti_remat_anneal(m, &how, &s, &took, err);
        if (took.peak <= how.budget && took.cost <= r->limit)
            fits = n;
        else
            never = n;
    }
    dti_remat_sequence_deinit(&s);
    *batch = (double)fits;
    return st;
}

/* ---- the account ---- */

enum { ALL, SQRT, SQRT_AP, BUDGET, BUDGET_AP, OPTIMUM };

static const dt_account_figure figures[] = {
    [ALL] = {"keep_all", "samples", "every value of forward stays"},
    [SQRT] = {"sqrt", "samples", "every √n-th value stays (Chen, linearised)"},
    [SQRT_AP] = {"sqrt_ap", "samples", "the same of articulation points alone"},
    [BUDGET] = {"greedy", "samples", "Algorithm 3 of Chen, the best of 60 budgets (linearised)"},
    [BUDGET_AP] = {"greedy_ap", "samples", "the same, keeping articulation points alone"},
    [OPTIMUM] = {"optimum", "samples", "any op runs again: what annealing finds"},
};

static dt_status count_one(
    const dt_remat_graph *m, const room *r, size_t figure, double *value, dt_err *err)
{
    static const dt_remat_rule rules[] = {[ALL] = DT_REMAT_KEEP_ALL,
        [SQRT] = DT_REMAT_CHEN_SQRT,
        [SQRT_AP] = DT_REMAT_CHEN_SQRT_AP,
        [BUDGET] = DT_REMAT_CHEN_BUDGET,
        [BUDGET_AP] = DT_REMAT_CHEN_BUDGET_AP};
    return figure == OPTIMUM ? by_search(m, r, value, err)
                             : by_rule(m, r, rules[figure], value, err);
}

static dt_status count(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    dt_remat_graph m = {0};
    room r;
    if (ask->budget == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "checkmate: its figures are of a device; name it: memory.device_budget = 16000000000");
    dt_status st = make_graph(&m, g, err);
    if (st == DT_OK)
        st = make_room(&r, &m, g, ask->budget, err);
    for (size_t i = 0; i < DT_COUNT(figures) && st == DT_OK; i++)
        if (ask->figure == DT_ACCOUNT_ALL || ask->figure == (int)i)
            st = count_one(&m, &r, i, &value[i], err);
    dt_remat_graph_deinit(&m);
    return st;
}

const dt_account_desc dt_account_checkmate = {
    .name = "checkmate",
    .summary = "Checkmate's largest batches with at most one forward again (2020, figure 6)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count,
};
