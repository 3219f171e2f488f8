/* What to compute again, by whatever way is asked for, and the largest batch. */
#include "memory/remat/solve.h"

#include "memory/remat/aim.h"
#include "memory/remat/chain.h"

dt_status dt_remat_task_init(dt_remat_task *r, const dt_remat_graph *g, dt_err *err)
{
    r->graph = g;
    DT_CHECK(dti_remat_in_order(&r->best, g, err));
    return dti_remat_measure(g, &r->best, &r->base, err);
}

void dt_remat_task_deinit(dt_remat_task *r)
{
    dti_remat_sequence_deinit(&r->best);
}

/* Whether @a is the better answer: under a limit of the cost the lowest peak, else within the
 * budget the least cost. */
static bool better(const dt_remat_task *r, dt_remat_taken a, dt_remat_taken than)
{
    const uint64_t limit = r->limit > 0 ? r->limit : r->budget;
    const uint64_t bound_a = r->limit > 0 ? a.cost : a.peak;
    const uint64_t bound_than = r->limit > 0 ? than.cost : than.peak;
    const uint64_t goal_a = r->limit > 0 ? a.peak : a.cost;
    const uint64_t goal_than = r->limit > 0 ? than.peak : than.cost;
    if ((bound_a <= limit) != (bound_than <= limit))
        return bound_a <= limit;
    return bound_a <= limit ? goal_a < goal_than : bound_a < bound_than;
}

/* Chains: what is aimed at is moved until what comes of it keeps to the budget. */
typedef struct chain_search {
    dt_remat_task *r;
    dti_chain_stages stages;
    dti_chain_solver *solver;
    bool revolve;
} chain_search;

/* @aim: bytes for Rotor, states for Revolve. */
static dt_status try_chain(void *ctx, uint64_t aim, uint64_t *peak, dt_err *err)
{
    chain_search *x = ctx;
    dt_chain_plan plan;
    dt_remat_sequence runs;
    dt_remat_taken took = {0};
    dt_err none = {0};
    *peak = UINT64_MAX;
    dt_status st = x->revolve ? dti_revolve_steps(&plan, x->stages.chain.n, aim, err)
                              : dti_chain_solver_plan(x->solver, &plan, aim, &none);
    if (st == DT_E_BUDGET)
        return DT_OK;
    if (st != DT_OK)
        return x->revolve ? st : DT_FAIL(err, st, "no memory for the table of a chain");
    st = dti_chain_runs(&runs, x->r->graph, &x->stages, &plan, NULL, err);
    if (st == DT_OK)
        st = dti_remat_measure(x->r->graph, &runs, &took, err);
    dt_chain_plan_deinit(&plan);
    if (st == DT_OK && better(x->r, took, x->r->found)) {
        const dt_remat_sequence before = x->r->best;
        x->r->best = runs;
        x->r->found = took;
        runs = before;
    }
    dti_remat_sequence_deinit(&runs);
    *peak = took.peak;
    return st;
}

static dt_status solve_chain(dt_remat_task *r, dt_err *err)
{
    enum { STAGES = 128, ROUNDS = 12 };
    chain_search x = {.r = r, .revolve = r->how == DT_REMAT_REVOLVE};
    r->found = r->base; /* as written */
    dt_status st = dti_chain_of_graph(&x.stages, r->graph, DTI_CHAIN_AUTO, STAGES, NULL, err);
    const uint64_t n = x.stages.chain.n;
    const dti_aim aim = {.budget = r->budget,
        .least = 1,
        .most = x.revolve ? n : r->base.peak,
        .first = x.revolve ? (n + 1) / 2 : r->budget,
        .rounds = ROUNDS};
    if (st == DT_OK && (x.solver = dti_chain_solver_new(&x.stages.chain)) == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for a chain's table");
    if (st == DT_OK && r->base.peak > r->budget)
        st = dti_aim_search(&aim, try_chain, &x, err);
    dti_chain_solver_free(x.solver);
    dti_chain_stages_deinit(&x.stages);
    return st;
}

static dt_status try_policy(dt_remat_task *r, const dt_remat_policy *p, dt_err *err)
{
    for (int k = 0; k < p->n; k++) {
        dt_remat_sequence s = {0};
        dt_remat_taken took;
        const dt_status st = dti_remat_by_rule(r->graph, p, k, r->published, &s, &took, err);
        if (st == DT_OK && (k == 0 || better(r, took, r->found))) {
            const dt_remat_sequence before = r->best;
            r->best = s;
            r->found = took;
            s = before;
        }
        dti_remat_sequence_deinit(&s);
        DT_CHECK(st);
    }
    return DT_OK;
}

/* From the best so far. */
static dt_status anneal(dt_remat_task *r, uint64_t bound, dt_err *err)
{
    const dti_remat_search how = {
        .budget = r->budget, .seed = r->seed, .moves = r->moves, .bound = bound};
    return dti_remat_anneal(r->graph, &how, &r->best, &r->found, err);
}

/* Whether first runs have no other order than the graph's: each op reads the one before it. */
static bool is_in_one_order(const dt_remat_graph *g)
{
    for (uint32_t v = 1; v < g->n_op; v++)
        if (!dti_remat_reads(g, v, v - 1))
            return false;
    return true;
}

/* By branch and bound over sets of values, where it ends in time. What is the optimum in the
 * graph's order bounds all sequences where there is no other order. DT_E_BUDGET: as of
 * dti_remat_exact. */
static dt_status solve_small(dt_remat_task *r, dt_err *err)
{
    enum { STATES = 10 * DTI_REMAT_USUAL_STATES };
    r->proved = false;
    if (r->graph->n_op > DTI_REMAT_MOST_EXACT)
        return DT_E_BUDGET;
    DT_CHECK(dti_remat_exact(r->graph, r->budget, STATES, NULL, &r->best, &r->proved, err));
    DT_CHECK(dti_remat_measure(r->graph, &r->best, &r->found, err));
    if (is_in_one_order(r->graph) && r->found.cost > r->bound)
        r->bound = r->found.cost;
    return DT_OK;
}

/* On small graphs from the optimum in the graph's order; where none fits, another may. */
static dt_status search_all(dt_remat_task *r, bool bounded, dt_err *err)
{
    dt_err none = {0};
    const dt_status st = solve_small(r, &none);
    if (st != DT_OK && st != DT_E_BUDGET)
        return DT_FAIL(err, st, "no memory for the sets of a graph's values");
    return anneal(r, bounded ? r->bound : r->limit, err);
}

/* By Checkmate's program, within the nodes that are asked for or some seconds. */
static dt_status branch(dt_remat_task *r, dt_err *err)
{
    const uint64_t nodes = r->nodes > 0 ? r->nodes : dti_remat_checkmate_nodes(r->graph);
    dt_remat_sequence runs = {0};
    dt_status st = dti_remat_checkmate(r->graph, r->budget, nodes, NULL, &runs, &r->optimum, err);
    if (st == DT_OK)
        st = dti_remat_measure(r->graph, &runs, &r->found, err);
    if (st == DT_OK) {
        const dt_remat_sequence before = r->best;
        r->best = runs;
        runs = before;
    }
    dti_remat_sequence_deinit(&runs);
    return st == DT_OK ? dti_remat_relaxation(r->graph, r->budget, NULL, &r->relaxation, err) : st;
}

/* The optimum in the graph's order: that of the integer program where nodes are asked for. Else of
 * small graphs by branch and bound over sets of values, or by the program where it has an answer
 * within seconds; what neither proves is annealed, as in the policy of the name. */
static dt_status solve_exactly(dt_remat_task *r, dt_err *err)
{
    const bool usual = r->graph->n_op <= DTI_REMAT_USUAL_CHECKMATE && dt_solver_name() != NULL;
    dt_err why = {0};
    if (r->nodes > 0)
        return branch(r, err);
    dt_status st = solve_small(r, &why);
    if (!r->proved && st == DT_E_BUDGET) {
        dt_err_clear(&why);
        st = usual ? branch(r, &why) : DT_OK;
    }
    if (r->proved || r->optimum || (st != DT_OK && st != DT_E_BUDGET))
        return st == DT_OK ? DT_OK : dt_err_append(err, st, why.text);
    r->annealed = true;
    return anneal(r, r->bound, err);
}

/* Halve between a batch that fits and the first that none can; each try goes on from the best
 * sequence so far, which is kept where a try fails. */
static dt_status search_batch(dt_remat_task *r, uint64_t room, dt_err *err)
{
    uint64_t fits = room / r->base.peak;
    uint64_t never = room / dt_remat_least_peak(r->graph) + 1;
    dt_remat_sequence kept = {0};
    dt_remat_taken least = r->base;
    dt_status st = dti_remat_in_order(&kept, r->graph, err);
    for (uint64_t n = never - 1; st == DT_OK && fits + 1 < never; n = fits + (never - fits) / 2) {
        r->budget = room / n;
        r->best.n = 0;
        for (size_t i = 0; i < kept.n && st == DT_OK; i++)
            st = dti_remat_push(&r->best, kept.op[i], err);
        if (st == DT_OK)
            st = search_all(r, false, err);
        if (st != DT_OK)
            break;
        if (r->found.peak > r->budget || r->found.cost > r->limit) {
            never = n;
            continue;
        }
        fits = room / r->found.peak;
        least = r->found;
        const dt_remat_sequence before = kept;
        kept = r->best;
        r->best = before;
    }
    dti_remat_sequence_deinit(&r->best);
    r->best = kept;
    r->found = least;
    return st;
}

/* The bound is of the budget that there is in the end. */
static dt_status solve_by_policy(dt_remat_task *r, dt_err *err)
{
    DT_CHECK(try_policy(r, r->policy, err));
    r->budget = r->any_budget ? r->found.peak : r->budget;
    return dti_remat_bound(r->graph, r->budget, &r->bound, err);
}

dt_status dt_remat_solve(dt_remat_task *r, dt_err *err)
{
    if (r->how == DT_REMAT_BY_POLICY)
        return solve_by_policy(r, err);
    DT_CHECK(dti_remat_bound(r->graph, r->budget, &r->bound, err));
    switch (r->how) {
    case DT_REMAT_CHECKMATE:
        return solve_exactly(r, err);
    case DT_REMAT_ROTOR:
    case DT_REMAT_REVOLVE:
        return solve_chain(r, err);
    case DT_REMAT_BY_POLICY:
    case DT_REMAT_AUTO:
        break;
    }
    return search_all(r, true, err);
}

dt_status dt_remat_largest_batch(dt_remat_task *r, uint64_t room, uint64_t *most, dt_err *err)
{
    DT_ASSERT(r->how == DT_REMAT_AUTO || r->how == DT_REMAT_BY_POLICY);
    r->limit = r->base.cost;
    for (uint32_t v = 0; v < r->graph->n_op; v++)
        r->limit += r->graph->backward[v] == 0 ? r->graph->cost[v] : 0;
    DT_CHECK(
        r->how == DT_REMAT_BY_POLICY ? try_policy(r, r->policy, err) : search_batch(r, room, err));
    *most = r->found.cost <= r->limit ? room / r->found.peak : 0;
    r->budget = room / (*most > 0 ? *most : 1);
    r->bound = 0; /* which small graphs' tries have set for budgets of their own */
    return *most > 0 && !r->published ? dti_remat_bound(r->graph, r->budget, &r->bound, err)
                                      : DT_OK;
}
