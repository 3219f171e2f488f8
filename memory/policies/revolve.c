/* Revolve: Griewank and Walther, Algorithm 799, ACM TOMS 26 (2000). A chain of n steps that are all
 * alike is reversed with s of their inputs kept at once, in the least number of forward steps,
 * which is a closed form (memory/remat/chain.h).
 *
 * Ours differs in this. Steps are the network's stages, cut as rotor's are, and what they cost and
 * take is not looked at, as in the paper; but what a value takes ends with its last reader. With
 * states = 0 the most states are taken whose plan fits the budget, which is the fastest; without a
 * budget those of the lowest peak that was looked at. */
#include <stdio.h>

#include "memory/policies/remat_pass.h"

typedef struct options {
    int64_t states;
    int cuts;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"states", DT_OPT_I64,  AT(states), "0",    0, 512, NULL, NULL, "number of stage inputs that are kept at once; 0: the fastest that fits memory.device_budget; without a budget: the lowest peak that it finds"},
    {"cuts",   DT_OPT_ENUM, AT(cuts),   "auto", 0, 0,   dti_chain_cuts_names, NULL, "where stages end, as in rotor"},
    {NULL,     DT_OPT_I64,  0,          NULL,   0, 0,   NULL, NULL, NULL},
};
/* clang-format on */

enum { STAGES = 128, ONE_BY_ONE = 6 };

typedef struct search {
    dti_problem x;
    dti_chain_stages s;
    uint64_t taken; /* states of the best */
} search;

static dt_status try_states(search *s, uint64_t states, bool *fits, dt_err *err)
{
    dt_chain_plan plan;
    dt_remat_sequence runs = {0};
    uint64_t peak = UINT64_MAX;
    DT_CHECK(dti_revolve_steps(&plan, s->s.chain.n, states, err));
    dt_status st = dti_chain_runs(&runs, &s->x.r.graph, &s->s, &plan, s->x.r.once, err);
    if (st == DT_OK)
        st = dti_problem_try(&s->x, &runs, &peak, err);
    if (st == DT_OK && runs.op == NULL)
        s->taken = states;
    *fits = st == DT_OK && peak <= s->x.budget;
    dti_remat_sequence_deinit(&runs);
    dt_chain_plan_deinit(&plan);
    return st;
}

/* Small numbers one by one, then half as many again each time, up to all. */
static uint64_t next_number(uint64_t states, uint64_t all)
{
    const uint64_t next = states < ONE_BY_ONE ? states + 1 : states + states / 2;
    return next < all ? next : all;
}

/* More states take more bytes and repeat less, but for the first few, whose repeats take bytes as
 * well. So once some fit, the first that do not end the search, and the most that fit are found
 * between the two. Where none fit, it goes on for the lowest peak. */
static dt_status search_states(search *s, dt_err *err)
{
    const uint64_t all = s->s.chain.n;
    uint64_t most = 0, states = 0; /* the most that fit; and those looked at */
    bool fits = false;
    while (states < all && (most == 0 || fits)) {
        states = next_number(states, all);
        DT_CHECK(try_states(s, states, &fits, err));
        most = fits ? states : most;
    }
    while (most > 0 && states - most > 1) {
        const uint64_t middle = most + (states - most) / 2;
        DT_CHECK(try_states(s, middle, &fits, err));
        *(fits ? &most : &states) = middle;
    }
    return DT_OK;
}

static dt_status find(search *s, const options *o, dt_err *err)
{
    bool fits;
    if (o->states > 0) {
        s->x.found = false; /* as it is asked for, better or not */
        return try_states(s, (uint64_t)o->states, &fits, err);
    }
    return s->x.cost.device <= s->x.budget ? DT_OK : search_states(s, err);
}

static dt_status revolve(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    search s = {.taken = 0};
    char why[96];
    if (p->loss == DT_NONE)
        return DT_OK;
    dt_status st = dti_problem_open(&s.x, p, env, err);
    if (st == DT_OK)
        st = dti_chain_of_graph(
            &s.s, &s.x.r.graph, (dti_chain_cuts)o->cuts, STAGES, s.x.mirror, err);
    if (st == DT_OK)
        st = find(&s, o, err);
    snprintf(why, sizeof why, "revolve: of %u stages, %u inputs kept at once", s.s.chain.n,
        (unsigned)s.taken);
    if (st == DT_OK)
        st = dti_problem_take(&s.x, why, err);
    dti_chain_stages_deinit(&s.s);
    dti_problem_close(&s.x);
    return st;
}

const dt_policy dt_policy_revolve = {
    .name = "revolve",
    .summary = "stages all alike, s of them kept, in the fewest forward steps (Revolve, 2000)",
    .exact = true,
    .by_budget = true,
    .searches = true,
    .leaves = DT_LEAVES_COPIES,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = revolve,
};
