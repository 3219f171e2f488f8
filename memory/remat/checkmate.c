/* Checkmate's integer program (Jain et al., MLSys 2020, section 4). In stage t op t runs for the
 * first time. R: an op runs in a stage; S: its value is held from the stage before; U: bytes there
 * once an op of a stage has run; F: a value goes behind one of its readers.
 *
 * Ours differs from the paper in this. That a value goes behind reader k is bounded by three rows,
 * that k runs, that the next stage does not hold it, and that no later reader runs, in place of a
 * sum with a large factor: with R and S whole that leaves F no fraction, and the relaxation is
 * tighter. Costs and bytes are scaled to the program's; what comes of it is replayed in whole
 * bytes, and solved again for a little less where the solver's tolerance let it pass. And no noise
 * is added to costs. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "engine/base/numbers_text.h"
#include "memory/remat/solver.h"
#include "memory/remat/stages.h"

enum { RETRIES = 4 };
static const double budget_scale = 1000, cost_scale = 1000;

/* Columns of the program, by stage and op: -1 where there is none. */
typedef struct model {
    const dt_remat_graph *g;
    const uint8_t *once;
    double byte, cost; /* what one is in the program */
    dti_lp lp;
    int *run, *held, *used, *gone; /* gone: by stage and edge, as the graph numbers inputs */
    dt_err *err;
} model;

static size_t cell(const model *m, uint32_t stage, uint32_t op)
{
    return (size_t)stage * m->g->n_op + op;
}

static size_t edge_cell(const model *m, uint32_t stage, uint32_t edge)
{
    return (size_t)stage * m->g->n_edge + edge;
}

static dt_status add_columns(model *m)
{
    const dt_remat_graph *g = m->g;
    for (uint32_t t = 0; t < g->n_op; t++)
        for (uint32_t v = 0; v <= t; v++) {
            const double cost = m->cost * (double)g->cost[v];
            const bool again = m->once == NULL || m->once[v] == 0;
            DT_CHECK(dti_lp_col(
                &m->lp, v == t, v == t || again, cost, true, &m->run[cell(m, t, v)], m->err));
            DT_CHECK(dti_lp_col(&m->lp, 0, v < t, 0, true, &m->held[cell(m, t, v)], m->err));
            DT_CHECK(
                dti_lp_col(&m->lp, 0, budget_scale, 0, false, &m->used[cell(m, t, v)], m->err));
            for (uint32_t e = g->in_at[v]; e < g->in_at[v + 1]; e++)
                DT_CHECK(dti_lp_col(&m->lp, 0, 1, 0, false, &m->gone[edge_cell(m, t, e)], m->err));
        }
    return DT_OK;
}

/* first - second - third <= bound; a column below 0 is none. */
static dt_status at_most(model *m, int first, int second, int third, double bound, double sign)
{
    DT_CHECK(dti_lp_row(&m->lp, -HUGE_VAL, bound, m->err));
    DT_CHECK(dti_lp_entry(&m->lp, first, 1, m->err));
    if (second >= 0)
        DT_CHECK(dti_lp_entry(&m->lp, second, sign, m->err));
    return third >= 0 ? dti_lp_entry(&m->lp, third, sign, m->err) : DT_OK;
}

/* What an op reads runs in the stage or is held; what is held was held before, or ran. */
static dt_status add_dependences(model *m, uint32_t t)
{
    const dt_remat_graph *g = m->g;
    for (uint32_t v = 0; v <= t; v++) {
        for (uint32_t e = g->in_at[v]; e < g->in_at[v + 1]; e++)
            DT_CHECK(at_most(m, m->run[cell(m, t, v)], m->run[cell(m, t, g->in[e])],
                m->held[cell(m, t, g->in[e])], 0, -1));
        if (v < t)
            DT_CHECK(at_most(m, m->held[cell(m, t, v)], m->run[cell(m, t - 1, v)],
                m->held[cell(m, t - 1, v)], 0, -1));
    }
    return DT_OK;
}

/* Whether input e of op k goes behind it. */
static dt_status add_frees(model *m, uint32_t t, uint32_t k, uint32_t e)
{
    const dt_remat_graph *g = m->g;
    const uint32_t i = g->in[e];
    const int gone = m->gone[edge_cell(m, t, e)];
    DT_CHECK(at_most(m, gone, m->run[cell(m, t, k)], -1, 0, -1));
    if (t + 1 < g->n_op)
        DT_CHECK(at_most(m, gone, m->held[cell(m, t + 1, i)], -1, 1, 1));
    for (uint32_t j = g->out_at[i]; j < g->out_at[i + 1]; j++)
        if (g->out[j] > k && g->out[j] <= t)
            DT_CHECK(at_most(m, gone, m->run[cell(m, t, g->out[j])], -1, 1, 1));
    return DT_OK;
}

/* Bytes behind op k of the stage. */
static dt_status add_bytes(model *m, uint32_t t, uint32_t k)
{
    const dt_remat_graph *g = m->g;
    DT_CHECK(dti_lp_row(&m->lp, 0, 0, m->err));
    DT_CHECK(dti_lp_entry(&m->lp, m->used[cell(m, t, k)], 1, m->err));
    DT_CHECK(dti_lp_entry(&m->lp, m->run[cell(m, t, k)], -m->byte * (double)g->bytes[k], m->err));
    if (k == 0) {
        for (uint32_t v = 0; v < t; v++)
            DT_CHECK(dti_lp_entry(
                &m->lp, m->held[cell(m, t, v)], -m->byte * (double)g->bytes[v], m->err));
        return DT_OK;
    }
    DT_CHECK(dti_lp_entry(&m->lp, m->used[cell(m, t, k - 1)], -1, m->err));
    for (uint32_t e = g->in_at[k - 1]; e < g->in_at[k]; e++)
        DT_CHECK(dti_lp_entry(
            &m->lp, m->gone[edge_cell(m, t, e)], m->byte * (double)g->bytes[g->in[e]], m->err));
    return DT_OK;
}

static dt_status build(model *m)
{
    const dt_remat_graph *g = m->g;
    DT_CHECK(add_columns(m));
    for (uint32_t t = 0; t < g->n_op; t++) {
        DT_CHECK(add_dependences(m, t));
        for (uint32_t k = 0; k <= t; k++) {
            DT_CHECK(add_bytes(m, t, k));
            for (uint32_t e = g->in_at[k]; e < g->in_at[k + 1]; e++)
                DT_CHECK(add_frees(m, t, k, e));
        }
    }
    return DT_OK;
}

static dt_status model_init(
    model *m, const dt_remat_graph *g, uint64_t budget, const uint8_t *once, dt_err *err)
{
    const size_t cells = (size_t)g->n_op * g->n_op;
    uint64_t all = 0;
    for (uint32_t v = 0; v < g->n_op; v++)
        all += g->cost[v];
    *m = (model){.g = g,
        .once = once,
        .byte = budget_scale / (double)(budget > 0 ? budget : 1),
        .cost = cost_scale / (double)(all > 0 ? all : 1),
        .run = dt_alloc(cells, sizeof *m->run),
        .held = dt_alloc(cells, sizeof *m->held),
        .used = dt_alloc(cells, sizeof *m->used),
        .gone = dt_alloc((size_t)g->n_op * g->n_edge + 1, sizeof *m->gone),
        .err = err};
    if (m->run == NULL || m->held == NULL || m->used == NULL || m->gone == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
    return build(m);
}

static void model_deinit(model *m)
{
    dti_lp_deinit(&m->lp);
    dt_free(m->run);
    dt_free(m->held);
    dt_free(m->used);
    dt_free(m->gone);
}

static dt_status check_size(const dt_remat_graph *g, uint32_t most, const char *what, dt_err *err)
{
    if (g->n_op > most)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s is for at most %" PRIu32 " ops, and there are %" PRIu32
            "; the search, auto, takes any number",
            what, most, g->n_op);
    return DT_OK;
}

/* Two costs of sequences differ by a multiple of this. */
static uint64_t cost_step(const dt_remat_graph *g)
{
    uint64_t step = 0;
    for (uint32_t v = 0; v < g->n_op; v++)
        step = dt_gcd(step, g->cost[v]);
    return step;
}

/* One solution within a budget as runs; *fits: in whole bytes, too. */
static dt_status solve_once(const dt_remat_graph *g, uint64_t budget, int nodes,
    const uint8_t *once, dt_remat_sequence *out, dt_remat_taken *taken, dti_lp_answer *a,
    dt_err *err)
{
    model m;
    dti_remat_stages s = {0};
    dt_status st = model_init(&m, g, budget, once, err);
    double *value = st == DT_OK ? dt_alloc(m.lp.n_col + 1, sizeof *value) : NULL;
    if (st == DT_OK && value == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
    if (st == DT_OK)
        st = dti_lp_solve(&m.lp, nodes, 0.9 * m.cost * (double)cost_step(g), value, a, err);
    if (st == DT_OK)
        st = dti_stages_init(&s, g->n_op, err);
    if (st == DT_OK && a->found) {
        for (uint32_t t = 0; t < g->n_op; t++)
            for (uint32_t v = 0; v < t; v++)
                s.held[cell(&m, t, v)] = value[m.held[cell(&m, t, v)]] > 0.5;
        dti_stages_least_runs(g, &s);
        out->n = 0;
        st = dti_stages_replay(g, &s, out, taken, err);
    }
    dti_stages_deinit(&s);
    dt_free(value);
    model_deinit(&m);
    return st;
}

/* Four kinds of columns, by stage and op or by stage and edge. */
uint64_t dti_remat_checkmate_nodes(const dt_remat_graph *g)
{
    enum { WORK = 20000 };
    uint64_t columns = 0;
    for (uint32_t v = 0; v < g->n_op; v++)
        columns += (uint64_t)(g->n_op - v) * (3 + g->in_at[v + 1] - g->in_at[v]);
    return columns > 0 && columns <= WORK ? WORK / columns : 1;
}

dt_status dti_remat_checkmate(const dt_remat_graph *g, uint64_t budget, uint64_t nodes,
    const uint8_t *once, dt_remat_sequence *out, bool *proved, dt_err *err)
{
    DT_CHECK(check_size(g, DTI_REMAT_MOST_CHECKMATE, "checkmate's integer program", err));
    uint64_t aim = budget;
    char count[DT_HUMAN_BYTES];
    for (int i = 0; i < RETRIES; i++) {
        dti_lp_answer a;
        dt_remat_taken taken = {0};
        DT_CHECK(solve_once(g, aim, (int)nodes, once, out, &taken, &a, err));
        *proved = a.proved && aim == budget; /* of less room it says nothing of this */
        if (!a.found)
            return DT_FAIL(err, DT_E_BUDGET,
                "checkmate: no sequence in the graph's order, in which each op runs at most once "
                "before every first run, %s %s bytes",
                *proved ? "fits" : "was found that fits", dt_human_count(count, budget));
        if (taken.peak <= budget)
            return dti_remat_prune(g, out, err);
        aim -= taken.peak - budget < aim ? taken.peak - budget : 0;
    }
    *proved = false;
    return DT_FAIL(err, DT_E_BUDGET, "checkmate: what the solver finds takes more than %s bytes",
        dt_human_count(count, budget));
}

dt_status dti_remat_relaxation(
    const dt_remat_graph *g, uint64_t budget, const uint8_t *once, uint64_t *out, dt_err *err)
{
    model m;
    dti_lp_answer a = {0};
    DT_CHECK(check_size(g, DTI_REMAT_MOST_RELAXED, "the relaxation of checkmate's program", err));
    dt_status st = model_init(&m, g, budget, once, err);
    double *value = st == DT_OK ? dt_alloc(m.lp.n_col + 1, sizeof *value) : NULL;
    if (st == DT_OK && value == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
    if (st == DT_OK)
        st = dti_lp_solve(&m.lp, 0, 0, value, &a, err);
    *out = 0;
    for (uint32_t v = 0; v < g->n_op; v++)
        *out += g->cost[v];
    const double step = (double)cost_step(g);
    /* less what the solver's sums may be wrong by, and up to the next cost that there is */
    const double more = a.cost / m.cost * (1 - 1e-7) - (double)*out;
    if (st == DT_OK && a.found && more > 0 && step > 0)
        *out += (uint64_t)(ceil(more / step - 1e-6) * step);
    if (st == DT_OK && !a.found)
        st = a.proved ? DT_FAIL(err, DT_E_BUDGET, "no sequence in the graph's order fits %" PRIu64,
                            budget)
                      : DT_FAIL(err, DT_E_INTERNAL, "the solver gave up a relaxation");
    dt_free(value);
    model_deinit(&m);
    return st;
}
