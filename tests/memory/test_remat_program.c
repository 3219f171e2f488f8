/* A program as a problem of recomputation: what a sequence takes there its plan takes, too. */
#include <stdio.h>
#include <string.h>

#include "memory/policies/remat_pass.h"
#include "models/ini.h"
#include "tests/fixture/check.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

static dt_err err;

static dt_graph *network(const char *text, int64_t image)
{
    dt_config *c;
    dt_graph *g;
    const dt_model_opts o = {.dropout = -1, .image = image, .classes = 3};
    memset(&err, 0, sizeof err);
    assert_ok(parse_config(&c, "net", text, strlen(text), &err), &err);
    assert_ok(dt_ini_network(c, &o, &g, &err), &err);
    dt_config_destroy(c);
    return g;
}

/* Backward of the pool, the activation and the norm each overwrite the gradient that they read. */
static dt_graph *overwriting(const char *activation)
{
    char text[256];
    snprintf(text, sizeof text,
        "[conv c]\nout = 16\nkernel = 3\npad = 1\n[batchnorm b]\n[%s r]\n[maxpool p]\nkernel = 2\n"
        "[global_avgpool g]\n[fc out]\nout = 3\n[cross_entropy loss]\n",
        activation);
    return network(text, 64);
}

static uint64_t peak_by(dt_graph *g, int64_t n, const char *policy, uint64_t budget)
{
    const dt_pass_env e = {.budgets = {.device = budget}};
    dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, n);
    dt_rewrite_with(m.program, policy, NULL, &e);
    m.plan = dt_lower_with(m.program, &e);
    const uint64_t peak = m.plan->peak;
    dt_lowered_close(&m);
    return peak;
}

/* What backward of one of them reads need not be there for that of the one before it. */
static void ops_in_place_need_not_run_as_one(void **state)
{
    (void)state;
    static const char *const policies[] = {"checkmate", "rotor", "revolve"};
    static const char *const activations[] = {"relu", "silu", "tanh"};
    for (size_t a = 0; a < DT_COUNT(activations); a++) {
        const uint64_t all = peak_by(overwriting(activations[a]), 8, "keep_all", 0);
        for (size_t i = 0; i < DT_COUNT(policies); i++) {
            const uint64_t least = peak_by(overwriting(activations[a]), 8, policies[i], 0);
            if (!(least <= all * 3 / 4))
                fail_msg("%s, %s: %zu bytes of %zu", activations[a], policies[i], (size_t)least,
                    (size_t)all);
        }
    }
}

static void assert_first_runs_in_order(const dt_remat_graph *g, const dt_remat_sequence *s)
{
    uint32_t next = 0;
    for (size_t i = 0; i < s->n; i++)
        next += s->op[i] == next;
    assert_int_equal(next, g->n_op);
}

/* What a sequence takes, and what its plan takes beside that of the plan that keeps all. */
typedef struct taken {
    double problem, plan;
} taken;

static taken by_search(dti_problem *x, uint64_t seed, uint64_t budget)
{
    const dt_remat_graph *g = &x->r.graph;
    const dti_remat_search how = {.budget = budget,
        .seed = seed,
        .moves = 1000 * (uint64_t)g->n_op,
        .once = x->r.once,
        .in_order = true};
    dt_remat_sequence runs;
    dt_remat_taken took;
    uint64_t peak;
    assert_ok(dti_remat_in_order(&runs, g, &err), &err);
    assert_ok(dti_remat_anneal(g, &how, &runs, &took, &err), &err);
    assert_first_runs_in_order(g, &runs);
    assert_ok(dti_problem_try(x, &runs, &peak, &err), &err);
    dti_remat_sequence_deinit(&runs);
    return (taken){(double)took.peak, (double)peak - (double)x->offset};
}

/* But for the input: in a plan it is fetched again once, in a sequence as often as it saves bytes,
 * and in these networks it is as large as other values. What else a plan takes are workspaces. */
static void a_plan_takes_what_its_sequence_takes(void **state)
{
    (void)state;
    const dt_pass_env e = {0};
    int tried = 0, near = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        if (!dt_picked(seed, 4, 2, 1))
            continue;
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 4096);
        dti_problem x;
        assert_ok(dti_problem_open(&x, m.program, &e, &err), &err);
        const uint64_t all = dt_remat_least_peak(&x.r.graph), input = x.r.graph.bytes[0];
        for (uint64_t k = 4; k < 8; k++) {
            const taken t = by_search(&x, seed, all * k / 4);
            const double more = (t.plan - t.problem - (double)input) / t.problem;
            if (!(more <= 0.25))
                fail_msg("network %d, %d of 4: a plan of %g bytes, a sequence of %g", (int)seed,
                    (int)k, t.plan, t.problem);
            near += more <= 0.05;
            tried++;
        }
        dti_problem_close(&x);
        dt_lowered_close(&m);
    }
    if (!(near * 10 >= tried * 8))
        fail_msg("%d of %d plans take no more than 5 %% more than their sequences", near, tried);
}

DT_TEST_GROUP(remat_program)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_in_place_need_not_run_as_one),
        cmocka_unit_test(a_plan_takes_what_its_sequence_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
