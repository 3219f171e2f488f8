/* The problem of a program, its sequences by real plans, and the rewrite. */
#include "memory/policies/remat_pass.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policies/chen.h"

const char *const dti_chain_cuts_names[] = {
    [DTI_CHAIN_AUTO] = "auto", [DTI_CHAIN_POINTS] = "points", [DTI_CHAIN_LINEAR] = "linear", NULL};

/* Forward's ops by the node that they are of, for those of backward. */
static dt_status find_mirrors(dti_problem *x, dt_err *err)
{
    const dt_remat_graph *g = &x->r.graph;
    const size_t n_node = (size_t)x->p->graph->n_node;
    uint32_t *of = dt_alloc(n_node + 1, sizeof *of);
    x->mirror = dt_alloc((size_t)g->n_op + 1, sizeof *x->mirror);
    if (of == NULL || x->mirror == NULL) {
        dt_free(of);
        return dti_pass_no_memory(err);
    }
    memset(of, 0xff, n_node * sizeof *of);
    for (uint32_t v = 0; v < g->n_op; v++) {
        const int32_t node = x->r.op[v] != DT_NONE ? x->p->op[x->r.op[v]].node : DT_NONE;
        const bool named = node >= 0 && (size_t)node < n_node;
        x->mirror[v] = g->backward[v] != 0 && named ? of[node] : UINT32_MAX;
        if (named && g->backward[v] == 0)
            of[node] = v;
    }
    dt_free(of);
    return DT_OK;
}

/* What other policies have touched, and what is pinned, runs once. */
static dt_status forbid(dti_problem *x, dt_err *err)
{
    dti_chen c;
    dt_status st = dti_chen_open(&c, x->p, err);
    bool *allowed = st == DT_OK ? dt_alloc(x->p->n_tensor + 1, sizeof *allowed) : NULL;
    if (st == DT_OK && allowed == NULL)
        st = dti_pass_no_memory(err);
    for (size_t i = 0; st == DT_OK && i < c.n; i++)
        allowed[c.value[i].tensor] = true;
    if (st == DT_OK)
        dti_remat_only(&x->r, x->p, allowed);
    dt_free(allowed);
    dti_chen_close(&c);
    return st;
}

/* The program with all kept is the first that is tried. */
static dt_status try_all_kept(dti_problem *x, dt_err *err)
{
    dt_remat_sequence runs;
    dt_remat_taken taken = {0};
    uint64_t peak = 0;
    DT_CHECK(dti_remat_in_order(&runs, &x->r.graph, err));
    dt_status st = dti_remat_measure(&x->r.graph, &runs, &taken, err);
    if (st == DT_OK)
        st = dti_problem_try(x, &runs, &peak, err);
    dti_remat_sequence_deinit(&runs);
    x->offset = (int64_t)peak - (int64_t)taken.peak;
    return st;
}

/* An input that is read again is copied again, which is not taken to hide behind ops. */
static dt_status find_seconds(const dt_pass_env *env, dt_program *p, double *seconds, dt_err *err)
{
    DT_CHECK(dti_pass_op_seconds(env, p, seconds, err));
    for (size_t i = 0; i < p->n_op; i++)
        if (p->op[i].kind == DT_OP_FETCH)
            seconds[i] = dti_pass_copy_seconds(
                env, DT_TIER_INPUT, DT_ROW_COPY_IN, p->tensor[p->op[i].arg[0].tensor].bytes);
    return DT_OK;
}

dt_status dti_problem_open(dti_problem *x, dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const dt_lower_opts o = dti_pass_lower_opts(env);
    dt_plan *plan = NULL;
    *x = (dti_problem){.p = p, .env = env, .budget = env->budgets.device};
    DT_CHECK(dt_program_index(p, err));
    double *seconds = dt_alloc(p->n_op + 1, sizeof *seconds);
    dt_status st = seconds != NULL ? find_seconds(env, p, seconds, err) : dti_pass_no_memory(err);
    if (st == DT_OK)
        st = dt_lower(&plan, p, &o, err);
    if (st == DT_OK)
        st = dti_remat_of_program(&x->r, p, plan, seconds, NULL, err);
    dt_plan_destroy(plan);
    dt_free(seconds);
    if (st == DT_OK)
        st = find_mirrors(x, err);
    if (st == DT_OK)
        st = forbid(x, err);
    return st == DT_OK ? try_all_kept(x, err) : st;
}

void dti_problem_close(dti_problem *x)
{
    dti_remat_program_deinit(&x->r);
    dti_remat_sequence_deinit(&x->best);
    dt_program_destroy(x->made);
    dt_free(x->mirror);
    *x = (dti_problem){0};
}

static dt_status rewrite(
    const dti_problem *x, dt_program *to, const dt_remat_sequence *runs, dt_err *err)
{
    DT_CHECK(dti_remat_onto(to, &x->r, runs, err));
    return runs->n > x->r.graph.n_op ? dti_fetch_again(to, err) : DT_OK;
}

/* Of what exceeds the budget bytes alone are compared, so rows are not made of it, nor timed. What
 * does so with nothing ahead of homes in a tier does so with some ahead, too: those bytes are the
 * least that it can be brought to, and only what fits is counted with what comes ahead. */
static dt_status find_cost(const dti_problem *x, dt_program *p, dti_pass_cost *out, dt_err *err)
{
    const dt_lower_opts o = dti_pass_lower_opts(x->env);
    *out = (dti_pass_cost){0};
    DT_CHECK(dt_lower_peak(&out->device, p, o.pool, o.memo, err));
    return out->device > x->budget ? DT_OK : dti_pass_cost_of(x->env, p, out, err);
}

/* A search that has come near its end proposes the same again and again. */
static bool is_best(const dti_problem *x, const dt_remat_sequence *runs)
{
    return x->found && runs->n == x->best.n &&
           memcmp(runs->op, x->best.op, runs->n * sizeof *runs->op) == 0;
}

/* Takes over the sequence and the program. */
static void keep(
    dti_problem *x, dt_remat_sequence *runs, dt_program **made, const dti_pass_cost *cost)
{
    dti_remat_sequence_deinit(&x->best);
    x->best = *runs;
    *runs = (dt_remat_sequence){0};
    x->cost = *cost;
    x->found = true;
    dt_program_destroy(x->made);
    x->made = NULL;
    if (x->best.n == x->r.graph.n_op)
        return;
    x->made = *made;
    *made = NULL;
}

dt_status dti_problem_try(dti_problem *x, dt_remat_sequence *runs, uint64_t *peak, dt_err *err)
{
    dt_program *copy = NULL;
    dti_pass_cost cost = {0};
    if (is_best(x, runs)) {
        *peak = x->cost.device;
        return DT_OK;
    }
    dt_status st = dt_program_copy(&copy, x->p, err);
    if (st == DT_OK)
        st = rewrite(x, copy, runs, err);
    if (st == DT_OK)
        st = find_cost(x, copy, &cost, err);
    *peak = cost.device;
    if (st == DT_OK && (!x->found || dti_pass_is_better_in_all(x->env, &cost, &x->cost, x->budget)))
        keep(x, runs, &copy, &cost);
    dt_program_destroy(copy);
    return st;
}

/* What runs again was not said why of, as that is known in the end. */
dt_status dti_problem_take(dti_problem *x, const char *why, dt_err *err)
{
    int32_t reason;
    if (x->made == NULL)
        return DT_OK;
    DT_CHECK(dt_reasons_add(&x->made->reasons, &reason, err, "%s", why));
    for (size_t i = x->p->n_op; i < x->made->n_op; i++)
        if (x->made->op[i].reason == 0)
            x->made->op[i].reason = reason;
    dt_program_swap(x->p, x->made);
    return DT_OK;
}
