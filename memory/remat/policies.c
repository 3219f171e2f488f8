/* Policies of papers on graphs: each names values that forward keeps, and the rest is made again
 * when backward asks for it.
 *
 * Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016), with every op of the forward
 * pass as a place to cut (Checkmate calls that linearised): chen_sqrt keeps every √n-th value;
 * chen_budget is Algorithm 3 under 60 budgets, 0.05 k times the bytes that chen_sqrt keeps, and the
 * cheapest of what comes of it that fits. The same two behind "_ap" cut at articulation points
 * alone, which Checkmate calls AP. */
#include <inttypes.h>
#include <math.h>

#include "engine/base/alloc.h"
#include "memory/remat/stages.h"

enum { BUDGETS = 60 };

/* --- from values that are kept to a sequence --- */

/**
 * struct replay - a sequence being written.
 * @there: by op, whether its value can be read; when backward begins, of forward's what is kept
 * @stack: of dti_remat_push_lacking
 */
typedef struct replay {
    const dt_remat_graph *g;
    uint8_t *there;
    uint32_t *stack;
    dt_remat_sequence *out;
} replay;

static dt_status replay_all(replay *r, const uint8_t *kept, dt_err *err)
{
    const dt_remat_graph *g = r->g;
    bool forward = true;
    for (uint32_t v = 0; v < g->n_op; v++) {
        if (forward && g->backward[v] != 0)
            for (uint32_t u = 0; u < v; u++)
                r->there[u] = kept[u];
        forward = forward && g->backward[v] == 0;
        if (r->there[v] == 0)
            DT_CHECK(dti_remat_push_lacking(r->out, g, v, r->there, r->stack, err));
    }
    return DT_OK;
}

static dt_status replay_kept(
    const dt_remat_graph *g, const uint8_t *kept, dt_remat_sequence *out, dt_err *err)
{
    replay r = {.g = g,
        .there = dt_alloc(g->n_op, sizeof *r.there),
        .stack = dt_alloc(2 * (size_t)g->n_op, sizeof *r.stack),
        .out = out};
    out->n = 0;
    const dt_status st =
        r.there != NULL && r.stack != NULL
            ? replay_all(&r, kept, err)
            : DT_FAIL(err, DT_E_NOMEM, "no memory to replay %" PRIu32 " ops", g->n_op);
    dt_free(r.there);
    dt_free(r.stack);
    return st;
}

/* --- Chen's two rules: which values are kept --- */

void dti_remat_articulations(const dt_remat_graph *g, uint32_t n, uint8_t *is)
{
    uint32_t reach = 0; /* the last op of forward that reads one before v */
    for (uint32_t v = 0; v < n; v++) {
        is[v] = g->backward[v] == 0 && reach <= v;
        for (uint32_t k = g->out_at[v]; k < g->out_at[v + 1]; k++)
            if (g->out[k] < n && g->backward[g->out[k]] == 0 && g->out[k] > reach)
                reach = g->out[k];
    }
}

static bool at_articulations(dt_remat_rule rule)
{
    return rule == DT_REMAT_CHEN_SQRT_AP || rule == DT_REMAT_CHEN_BUDGET_AP;
}

/* What a rule may keep. */
static void find_candidates(const dt_remat_graph *g, dt_remat_rule rule, uint8_t *may)
{
    if (at_articulations(rule))
        dti_remat_articulations(g, g->n_op, may);
    else
        for (uint32_t v = 0; v < g->n_op; v++)
            may[v] = g->backward[v] == 0;
}

/* All of what it @may keep, or every √n-th. Returns the bytes. */
static uint64_t keep_every(
    const dt_remat_graph *g, dt_remat_rule rule, const uint8_t *may, uint8_t *kept)
{
    uint32_t n = 0;
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < g->n_op; v++)
        n += may[v];
    const uint32_t every = rule == DT_REMAT_KEEP_ALL ? 1 : (uint32_t)fmax(1, floor(sqrt(n)));
    for (uint32_t v = 0, i = 0; v < g->n_op; v++) {
        kept[v] = may[v] != 0 && ++i % every == 0;
        bytes += kept[v] != 0 ? g->bytes[v] : 0;
    }
    return bytes;
}

static void keep_within(const dt_remat_graph *g, const uint8_t *may, uint8_t *kept, double budget)
{
    uint64_t since = 0;
    for (uint32_t v = 0; v < g->n_op; v++) {
        kept[v] = 0;
        if (g->backward[v] != 0)
            continue;
        since += g->bytes[v];
        kept[v] = may[v] != 0 && (double)since > budget;
        since = kept[v] != 0 ? 0 : since;
    }
}

/* --- as Checkmate's experiments count them --- */

static dt_status count_kept(const dt_remat_graph *g, const uint8_t *kept, dt_remat_sequence *out,
    dt_remat_taken *taken, dt_err *err)
{
    dti_remat_stages s;
    dt_status st = dti_stages_init(&s, g->n_op, err);
    if (st == DT_OK) {
        dti_stages_of_kept(g, kept, &s);
        st = dti_stages_replay(g, &s, out, taken, err);
    }
    dti_stages_deinit(&s);
    return st;
}

/* --- the table --- */

/* Algorithm 3's budgets are shares of the bytes that the rule of √n keeps; @published: of those
 * that the schedule of the linearised one takes. @may: scratch, two marks for each op */
static dt_status make(const dt_remat_graph *g, const dt_remat_policy *p, int k, bool published,
    uint8_t *may, dt_remat_sequence *out, dt_remat_taken *taken, dt_err *err)
{
    const bool by_budget = p->rule == DT_REMAT_CHEN_BUDGET || p->rule == DT_REMAT_CHEN_BUDGET_AP;
    uint8_t *kept = may + g->n_op;
    find_candidates(g, by_budget ? DT_REMAT_CHEN_SQRT : p->rule, may);
    uint64_t bytes = keep_every(g, p->rule, may, kept);
    if (by_budget && published) {
        DT_CHECK(count_kept(g, kept, NULL, taken, err));
        bytes = taken->peak;
    }
    if (by_budget) {
        find_candidates(g, p->rule, may);
        keep_within(g, may, kept, 0.05 * k * (double)bytes);
    }
    if (published)
        return count_kept(g, kept, out, taken, err);
    DT_CHECK(replay_kept(g, kept, out, err));
    return dti_remat_measure(g, out, taken, err);
}

dt_status dti_remat_by_rule(const dt_remat_graph *g, const dt_remat_policy *p, int k,
    bool published, dt_remat_sequence *out, dt_remat_taken *taken, dt_err *err)
{
    *out = (dt_remat_sequence){0};
    uint8_t *may = dt_alloc((size_t)g->n_op + 1, 2 * sizeof *may);
    if (may == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to choose among %" PRIu32 " values", g->n_op);
    const dt_status st = make(g, p, k, published, may, out, taken, err);
    dt_free(may);
    if (st != DT_OK)
        dti_remat_sequence_deinit(out);
    return st;
}

static const dt_remat_policy policies[] = {
    {"keep_all", DT_REMAT_KEEP_ALL, 1},
    {"chen_sqrt", DT_REMAT_CHEN_SQRT, 1},
    {"chen_sqrt_ap", DT_REMAT_CHEN_SQRT_AP, 1},
    {"chen_budget", DT_REMAT_CHEN_BUDGET, BUDGETS},
    {"chen_budget_ap", DT_REMAT_CHEN_BUDGET_AP, BUDGETS},
};

const dt_remat_policy *dt_remat_policies(size_t *n)
{
    *n = DT_COUNT(policies);
    return policies;
}
