/* Rotor: Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, Optimal checkpointing for heterogeneous
 * chains, arXiv:1911.13214. The network is a chain of stages, each run forward in one of three
 * ways: keeping nothing, its input, or all that its backward needs; a dynamic program over (first
 * stage, last stage, memory) finds the fastest sequence whose memory fits (memory/remat/chain.h).
 *
 * Ours differs in this. Stages are found: they end where one value alone crosses, and where such
 * points are far apart, as in U-Net, after any value, all that cross being a stage's input. Several
 * neighbours become one stage where there are too many for the table. The program's memory is a
 * model of the plan's, so what is aimed at is moved by how far real plans are off, and the fastest
 * plan that fits is taken. Where none does, and without a budget, where the lowest peak is, aims
 * from the most down to the least are tried, and stages that end after any value as well. And a
 * value lives no longer than to its last reader, whatever the sequence keeps. */
#include <math.h>

#include "engine/base/numbers.h"
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
    {"cuts",   DT_OPT_ENUM,  AT(cuts),   "auto", 0, 0,   dti_chain_cuts_names, NULL, "where stages end; points: where a single value crosses; linear: after any value; auto: chosen as in chen_sqrt, and linear as well where nothing fits or there is no budget"},
    {"stages", DT_OPT_I64,   AT(stages), "64",   2, 512, NULL, NULL, "most stages of the chain; neighbouring ones are merged if there are more"},
    {"budget", DT_OPT_BYTES, AT(budget), "0",    0, 0,   NULL, NULL, "most device memory to use; the fastest plan within it is taken; 0: memory.device_budget. Without a budget the lowest peak that it finds"},
    {NULL,     DT_OPT_I64,   0,          NULL,   0, 0,   NULL, NULL, NULL},
};
/* clang-format on */

/* So many aims are tried from the most to the least, of large networks fewer; then a quarter as
 * many closer ones. */
enum { ROUNDS = 8, SPACED = 24, LEAST_SPACED = 3, CLOSER = 4, MANY_OPS = 16000 };

/* *points: the best has stages that end where one value alone crosses; @linear: those that were
 * tried last end after any; @roughly: a table serves many aims; @best: what was tried last is the
 * best */
typedef struct search {
    dti_problem *x;
    dti_chain_stages s;
    dti_chain_solver *solver;
    bool *points, linear, roughly, best;
} search;

static dt_status try_at(void *ctx, uint64_t aim, uint64_t *peak, dt_err *err)
{
    search *s = ctx;
    dt_chain_plan plan;
    dt_remat_sequence runs = {0};
    dt_err none = {0};
    dt_status st = s->roughly ? dti_chain_solver_roughly(s->solver, &plan, aim, &none)
                              : dti_chain_solver_plan(s->solver, &plan, aim, &none);
    *peak = UINT64_MAX;
    s->best = false;
    if (st == DT_E_BUDGET)
        return DT_OK;
    if (st != DT_OK)
        return DT_FAIL(err, st, "no memory for the table of a chain of %u stages", s->s.chain.n);
    st = dti_chain_runs(&runs, &s->x->r.graph, &s->s, &plan, s->x->r.once, err);
    if (st == DT_OK)
        st = dti_problem_try(s->x, &runs, peak, err);
    s->best = st == DT_OK && runs.op == NULL;
    *s->points = s->best ? s->s.points : *s->points;
    dti_remat_sequence_deinit(&runs);
    dt_chain_plan_deinit(&plan);
    return st;
}

static dt_status try_steps(search *s, dt_err *err)
{
    const uint64_t whole = s->x->cost.device;
    const int64_t first = (int64_t)s->x->budget - s->x->offset;
    const dti_aim aim = {.budget = s->x->budget,
        .least = 1,
        .most = whole,
        .first = first > 0 ? (uint64_t)first : whole / 4,
        .rounds = ROUNDS};
    return dti_aim_search(&aim, try_at, s, err);
}

/* An aim between the least, at place 0, and what all tapes take, at 1: in equal ratios. */
static dt_status try_place(search *s, uint64_t least, double place, dt_err *err)
{
    const double ratio = (double)dti_chain_most(&s->s.chain) / (double)least;
    uint64_t peak;
    return try_at(s, (uint64_t)((double)least * pow(ratio, place)), &peak, err);
}

/* Without a budget, of so large a network the least alone: each plan of that makes most of forward
 * again, and takes long. */
static bool takes_long(const search *s)
{
    return s->x->budget == 0 && s->x->p->n_op > MANY_OPS;
}

/* The real peak does not always rise with what is aimed at, so steps may miss the budget where a
 * plan would fit; and without one there is nothing to step by. So aims are tried from the most
 * down to the least until one fits, and others close to the best; at last the least by itself. */
static dt_status try_spaced(search *s, dt_err *err)
{
    const size_t many = MANY_OPS / s->x->p->n_op;
    const size_t n = many < LEAST_SPACED ? LEAST_SPACED : many > SPACED ? SPACED : many;
    double at = -1, by = 1.0 / (double)n;
    uint64_t least, peak;
    DT_CHECK(dt_chain_least(&s->s.chain, &least, err));
    least = dt_max_u64(least, 1);
    s->roughly = true;
    for (size_t k = n - 1; k > 0 && !takes_long(s) && s->x->cost.device > s->x->budget; k--) {
        DT_CHECK(try_place(s, least, (double)k * by, err));
        at = s->best ? (double)k * by : at;
    }
    for (size_t i = 0; at >= 0 && i < n / CLOSER; i++) {
        by = i % 2 == 0 ? fabs(by) / 2 : -by;
        DT_CHECK(try_place(s, least, at + by, err));
        at += s->best ? by : 0;
    }
    s->roughly = false;
    peak = s->x->cost.device > s->x->budget ? UINT64_MAX : 0;
    for (uint64_t more = least / 1024; peak == UINT64_MAX; more += more / 2 + 1)
        DT_CHECK(try_at(s, least + more, &peak, err)); /* a table rounds sizes up */
    return DT_OK;
}

static dt_status try_cuts(
    search *s, dti_chain_cuts where, bool steps, bool spaced, uint32_t stages, dt_err *err)
{
    dt_status st = dti_chain_of_graph(&s->s, &s->x->r.graph, where, stages, s->x->mirror, err);
    s->linear = st == DT_OK && !s->s.points;
    if (st == DT_OK && (s->solver = dti_chain_solver_new(&s->s.chain)) == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for a chain's table");
    if (st == DT_OK && steps)
        st = try_steps(s, err);
    if (st == DT_OK && spaced && s->x->cost.device > s->x->budget)
        st = try_spaced(s, err);
    dti_chain_solver_free(s->solver);
    dti_chain_stages_deinit(&s->s);
    return st;
}

dt_status dti_problem_try_chain(
    dti_problem *x, dti_chain_cuts where, uint32_t stages, bool spaced, bool *points, dt_err *err)
{
    search s = {.x = x, .points = points};
    DT_CHECK(try_cuts(&s, where, !spaced || x->budget > 0, spaced, stages, err));
    return spaced && where == DTI_CHAIN_AUTO && !s.linear && !takes_long(&s) &&
                   x->cost.device > x->budget
               ? try_cuts(&s, DTI_CHAIN_LINEAR, false, true, stages, err)
               : DT_OK;
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
        st = dti_problem_try_chain(
            &x, (dti_chain_cuts)o->cuts, (uint32_t)o->stages, true, &points, err);
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
