/* Rotor: Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, Optimal checkpointing for heterogeneous
 * chains, arXiv:1911.13214. The network is a chain of stages, each run forward in one of three
 * ways: keeping nothing, its input, or all that its backward needs; a dynamic program over (first
 * stage, last stage, memory) finds the fastest sequence whose memory fits (memory/remat/chain.h).
 *
 * Ours differs in this. Stages are found: they end where one value alone crosses, and where such
 * points are far apart, as in U-Net, after any value, all that cross being a stage's input. Several
 * neighbours become one stage where there are too many for the table. The program's memory is a
 * model of the plan's, so what is aimed at is moved by how far real plans are off, and the fastest
 * plan that fits is taken; without a budget the one of the lowest peak. And a value lives no longer
 * than to its last reader, whatever the sequence keeps. */
#include "memory/policies/remat_pass.h"
#include "memory/remat/aim.h"

typedef struct options {
    int64_t stages;
    uint64_t budget;
    int cuts;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"cuts",   DT_OPT_ENUM,  AT(cuts),   "auto", 0, 0,   dti_chain_cuts_names, NULL, "where stages end; points: where a single value crosses; linear: after any value; auto: chosen as in chen_sqrt"},
    {"stages", DT_OPT_I64,   AT(stages), "64",   2, 512, NULL, NULL, "most stages of the chain; neighbouring ones are merged if there are more"},
    {"budget", DT_OPT_BYTES, AT(budget), "0",    0, 0,   NULL, NULL, "most device memory to use; the fastest plan within it is taken; 0: memory.device_budget. Without a budget the lowest peak that it finds"},
    {NULL,     DT_OPT_I64,   0,          NULL,   0, 0,   NULL, NULL, NULL},
};
/* clang-format on */

enum { ROUNDS = 8 };

typedef struct search {
    dti_problem *x;
    dti_chain_stages s;
    dti_chain_solver *solver;
} search;

static dt_status try_at(void *ctx, uint64_t aim, uint64_t *peak, dt_err *err)
{
    search *s = ctx;
    dt_chain_plan plan;
    dt_remat_sequence runs = {0};
    dt_err none = {0};
    dt_status st = dti_chain_solver_plan(s->solver, &plan, aim, &none);
    *peak = UINT64_MAX;
    if (st == DT_E_BUDGET)
        return DT_OK;
    if (st != DT_OK)
        return DT_FAIL(err, st, "no memory for the table of a chain of %u stages", s->s.chain.n);
    st = dti_chain_runs(&runs, &s->x->r.graph, &s->s, &plan, s->x->r.once, err);
    if (st == DT_OK)
        st = dti_problem_try(s->x, &runs, peak, err);
    dti_remat_sequence_deinit(&runs);
    dt_chain_plan_deinit(&plan);
    return st;
}

dt_status dti_problem_try_chain(
    dti_problem *x, dti_chain_cuts where, uint32_t stages, bool *points, dt_err *err)
{
    search s = {.x = x};
    const uint64_t whole = x->cost.device;
    const int64_t first = (int64_t)x->budget - x->offset;
    const dti_aim aim = {.budget = x->budget,
        .least = 1,
        .most = whole,
        .first = first > 0 ? (uint64_t)first : whole / 4,
        .rounds = ROUNDS};
    dt_status st = dti_chain_of_graph(&s.s, &x->r.graph, where, stages, x->mirror, err);
    *points = s.s.points;
    if (st == DT_OK && (s.solver = dti_chain_solver_new(&s.s.chain)) == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for a chain's table");
    if (st == DT_OK)
        st = dti_aim_search(&aim, try_at, &s, err);
    dti_chain_solver_free(s.solver);
    dti_chain_stages_deinit(&s.s);
    return st;
}

static dt_status rotor(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    dti_problem x;
    const options *o = env->opts;
    bool points = true;
    if (p->loss == DT_NONE)
        return DT_OK;
    dt_status st = dti_problem_open(&x, p, env, err);
    x.budget = dti_pass_budget(env, o->budget);
    if (st == DT_OK && x.cost.device > x.budget)
        st = dti_problem_try_chain(&x, (dti_chain_cuts)o->cuts, (uint32_t)o->stages, &points, err);
    if (st == DT_OK)
        st = dti_problem_take(&x,
            points ? "rotor: the optimum for the chain of values that alone cross"
                   : "rotor: the optimum for the chain of stages between any two values",
            err);
    dti_problem_close(&x);
    return st;
}

const dt_policy dt_policy_rotor = {
    .name = "rotor",
    .summary = "the optimum for a chain of stages, by dynamic programming (Rotor, 2019)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = rotor,
};
