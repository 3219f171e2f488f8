/* Plans as values: requests of one session do not know of each other, a plan stays where it is, a
 * ladder says what it refused, and one score is what searches go by. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/onednn/onednn.h"
#include "memory/plan_text/plan_text.h"
#include "session/budget.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/session.h"
#include "tests/fixture/run_cli.h"

/* Convolutions that two algorithms compute, so that tables differ. */
static const char *config(void)
{
#define CONV(name, out)                                                                            \
    "[conv " name "]\nout = " out "\nkernel = 3\npad = 1\nbias = off\n[relu " name ".relu]\n"
    return cli_file("set.ini",
        "[model]\nimage = 16\nclasses = 10\nfuse = off\n[data]\nsource = synthetic\nsamples = 40\n"
        "[train]\nbatch = 16\nsteps = 2\nlr = 0.01\n[device]\nkind = cpu\n" CONV("a", "64")
            CONV("b", "64") CONV("c", "128") "[maxpool d]\nkernel = 2\n" CONV(
                "e", "128") "[global_avgpool g]\n[fc h]\nout = 10\n[cross_entropy loss]\n");
#undef CONV
}

static dt_session *open_session(const char *const *sets, size_t n)
{
    dt_session *s = NULL;
    dt_err err = {0};
    assert_ok(dt_session_open(&s, config(), sets, n, &err), &err);
    return s;
}

static char *text_of(const dt_plan *p)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    dt_plan_print(p, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

/* Requests that differ in all that can be asked. */
static const struct variant {
    const char *policy;
    dt_algorithm_choice algorithms;
    int64_t batch, micro;
    uint64_t budget;
} variants[] = {
    {"keep_all", DT_ALGORITHMS_FAST, 16, 16, 0},
    {"vdnn_all", DT_ALGORITHMS_SMALL, 16, 8, 0},
    {"chen_budget", DT_ALGORITHMS_FIT, 12, 12, 3 << 20},
    {"gist,vdnn_conv", DT_ALGORITHMS_FAST, 16, 4, 0},
    {"vdnn_dyn", DT_ALGORITHMS_FAST, 16, 16, 3 << 20},
};
enum { VARIANTS = DT_COUNT(variants), KINDS = 3 };
static const dt_program_kind kinds[KINDS] = {DT_PROGRAM_FIRST, DT_PROGRAM_UPDATE, DT_PROGRAM_EVAL};

static dt_plan_set *open_set(const dt_session *s, const struct variant *v, dt_policies *policies)
{
    dt_plan_set *p;
    dt_err err = {0};
    dt_plan_request r = dt_session_request(s);
    assert_ok(dt_policies_open(policies, v->policy, s->config, &err), &err);
    r.policies = policies;
    r.algorithms = v->algorithms;
    r.batch = v->batch;
    r.micro_batch = v->micro;
    r.budgets.device = v->budget;
    assert_ok(dt_plan_set_create(&p, s, &r, &err), &err);
    return p;
}

static const dt_planned *add(dt_plan_set *p, dt_program_kind kind, int64_t n)
{
    const dt_planned *x;
    dt_err err = {0};
    assert_ok(dt_plan_set_add(p, kind, n, &x, &err), &err);
    return x;
}

static void interleaved_requests_give_the_plans_that_each_gives_alone(void **state)
{
    (void)state;
    char *alone[VARIANTS][KINDS];
    dt_policies policies[VARIANTS];
    dt_plan_set *set[VARIANTS];
    for (size_t v = 0; v < VARIANTS; v++) {
        dt_session *s = open_session(NULL, 0);
        set[v] = open_set(s, &variants[v], &policies[v]);
        for (size_t k = 0; k < KINDS; k++)
            alone[v][k] = text_of(add(set[v], kinds[k], variants[v].micro)->plan);
        dt_plan_set_destroy(set[v]);
        dt_policies_close(&policies[v]);
        dt_session_close(s);
    }
    dt_session *s = open_session(NULL, 0);
    const dt_graph before = *s->graph;
    for (size_t v = 0; v < VARIANTS; v++)
        set[v] = open_set(s, &variants[v], &policies[v]);
    for (size_t k = 0; k < KINDS; k++)
        for (size_t v = VARIANTS; v-- > 0;) {
            char *text = text_of(add(set[v], kinds[k], variants[v].micro)->plan);
            assert_string_equal(text, alone[v][k]);
            free(text);
            free(alone[v][k]);
        }
    assert_memory_equal(&before, s->graph, sizeof before);
    assert_null(s->plans);
    for (size_t v = 0; v < VARIANTS; v++) {
        dt_plan_set_destroy(set[v]);
        dt_policies_close(&policies[v]);
    }
    dt_session_close(s);
}

static void a_plan_stays_where_it_is_and_is_made_once(void **state)
{
    (void)state;
    enum { SIZES = 40 };
    const dt_planned *at[SIZES];
    const dt_plan *plan[SIZES];
    dt_session *s = open_session(NULL, 0);
    dt_err err = {0};
    for (int64_t i = 0; i < SIZES; i++) {
        assert_ok(dti_session_plan(s, DT_PROGRAM_EVAL, i + 1, &at[i], &err), &err);
        plan[i] = at[i]->plan;
    }
    for (int64_t i = 0; i < SIZES; i++) {
        const dt_planned *again;
        assert_ok(dti_session_plan(s, DT_PROGRAM_EVAL, i + 1, &again, &err), &err);
        assert_ptr_equal(again, at[i]);
        assert_ptr_equal(at[i]->plan, plan[i]);
        assert_int_equal(at[i]->n, i + 1);
    }
    assert_int_equal(s->plans->made, SIZES);
    dt_session_close(s);
}

/* As a run asks: what can be known before its data is open, and then the rest. */
static void a_run_plans_once(void **state)
{
    (void)state;
    const char *const sets[] = {"memory.policy=vdnn_dyn", "memory.device_budget=1GiB"};
    for (size_t ladder = 0; ladder < 2; ladder++) {
        dt_session *s = open_session(sets, 2 * ladder);
        dt_err err = {0};
        assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
        assert_int_equal(s->plans->n, 2); /* first and update */
        const dt_planned *first = s->plans->planned[0];
        assert_ok(dti_session_check_run(s, false, &err), &err);
        assert_ok(dt_session_plan_run(s, true, 8, 4, &err), &err);
        assert_int_equal(s->plans->n, 5); /* and the last batch, evaluation, and its last batch */
        assert_ptr_equal(s->plans->planned[0], first);
        assert_int_equal(s->plans->made, 5); /* with a ladder, too: what was tried is taken */
        dt_session_close(s);
    }
}

static void a_ladder_says_what_it_refused(void **state)
{
    (void)state;
    dt_policies policies;
    dt_session *s = open_session(NULL, 0);
    struct variant v = {"keep_all", DT_ALGORITHMS_FAST, 16, 16, 0};
    dt_plan_set *all = open_set(s, &v, &policies);
    dt_err err = {0};
    assert_ok(dti_plan_set_run(all, true, 0, 0, &err), &err);
    v.policy = "gist_lossless,vdnn_dyn";
    v.budget = dt_plan_set_peak(all) / 2;
    dt_plan_set_destroy(all);
    dt_policies_close(&policies);
    dt_plan_set *p = open_set(s, &v, &policies);
    assert_true(p->n_refused > 0);
    assert_string_equal(p->refused[0].policy, "gist_lossless,keep_all");
    assert_int_equal(p->refused[0].algorithms, DT_ALGORITHMS_FAST);
    assert_non_null(strstr(p->refused[0].why, "the device needs "));
    /* what was asked for is as it was, and stands beside what was taken */
    assert_ptr_equal(p->asked.policies, &policies);
    assert_true(dt_policies_ladder(p->asked.policies) != NULL);
    assert_null(dt_policies_ladder(p->policies));
    assert_string_equal(s->opts.memory.policy, "keep_all");
    assert_int_equal(s->opts.memory.algorithms, DT_ALGORITHMS_FAST);
    dt_plan_set_destroy(p);
    dt_policies_close(&policies);
    dt_session_close(s);
}

/* The search for what fits plans by itself: the run's own plans and table stay as they were. */
static void suggestions_leave_the_plans_alone(void **state)
{
    (void)state;
    const char *const sets[] = {"memory.device_budget=2MiB", "memory.algorithms=small"};
    dt_session *s = open_session(sets, DT_COUNT(sets));
    dt_err err = {0};
    const dt_planned *x, *eval;
    assert_ok(dti_session_plan(s, DT_PROGRAM_FIRST, 16, &x, &err), &err);
    char *before = text_of(x->plan);
    assert_int_equal(dt_session_check_budget(s, &err), DT_E_BUDGET);
    char *after = text_of(x->plan);
    assert_string_equal(before, after);
    assert_ok(dti_session_plan(s, DT_PROGRAM_EVAL, 16, &eval, &err), &err);
    for (size_t i = 0; i < s->plans->table.n; i++)
        assert_int_equal(s->plans->table.limit[i][0], DT_LIMIT_LEAST);
    free(before);
    free(after);
    dt_session_close(s);
}

static void memory_that_runs_out_is_said(void **state)
{
    (void)state;
    const char *const sets[] = {"memory.policy=vdnn_dyn", "memory.device_budget=3MiB"};
    dt_session *s = open_session(sets, DT_COUNT(sets));
    const dt_plan_request r = dt_session_request(s);
    dt_plan_set *p = NULL;
    dt_err err = {0};
    assert_ok(dt_plan_set_create(&p, s, &r, &err), &err); /* what the library keeps is made */
    dt_plan_set_destroy(p);
    const long from = dt_alloc_calls(), live = dti_alloc_live();
    assert_ok(dt_plan_set_create(&p, s, &r, &err), &err);
    dt_plan_set_destroy(p);
    const long calls = dt_alloc_calls() - from;
    for (long k = 1; k <= calls; k += k < 40 ? 1 : calls / 150 + 1) {
        dt_err e = {0};
        dti_alloc_fail_at(k);
        const dt_status st = dt_plan_set_create(&p, s, &r, &e);
        dti_alloc_fail_at(0);
        if (st != DT_OK) {
            assert_int_equal(st, DT_E_NOMEM);
            assert_null(p);
        }
        dt_plan_set_destroy(p);
        assert_int_equal(dti_alloc_live(), live);
    }
    dt_session_close(s);
}

/* ---- the score ---- */

static void a_score_is_the_plans_numbers_and_the_costs(void **state)
{
    (void)state;
    dt_policies policies;
    dt_session *s = open_session(NULL, 0);
    const struct variant v = {"chen_sqrt,vdnn_conv", DT_ALGORITHMS_SMALL, 16, 16, 0};
    dt_plan_set *p = open_set(s, &v, &policies);
    const dt_planned *x = add(p, DT_PROGRAM_FIRST, 16);
    const dt_score one = dt_score_plan(x->program, x->plan);
    assert_int_equal(one.device, x->plan->peak);
    assert_int_equal(one.out, x->plan->out_bytes);
    assert_true(
        one.out > 0 && one.recomputes > 0 && one.recompute_flops > 0 && one.limited_flops > 0);
    const double seconds = dt_score_seconds(&one, NULL);
    const double want =
        2 * (double)one.out / 8e9 + one.recompute_flops / 2e11 + 0.5 * one.limited_flops / 2e11;
    assert_true(seconds > 0.999999 * want && seconds < 1.000001 * want);
    dt_costs costs = dt_costs_default;
    costs.link[DT_TIER_HOST][DT_FROM_TIER].rate = 4e9;
    const double more = dt_score_seconds(&one, &costs) - (want + (double)one.out / 8e9);
    assert_true(more > -1e-6 && more < 1e-6);
    dt_score twice = {0};
    dt_score_add(&twice, &one, 2);
    assert_true(twice.device == one.device && twice.out == 2 * one.out);
    const double both = dt_score_seconds(&twice, &costs) - 2 * dt_score_seconds(&one, &costs);
    assert_true(both > -1e-6 && both < 1e-6);
    dt_plan_set_destroy(p);
    dt_policies_close(&policies);
    dt_session_close(s);
}

static int scored;

static dt_status count(const dt_pass_env *e, dt_program *p, bool place, dt_score *out, dt_err *err)
{
    dt_pass_env own = *e;
    own.score = NULL;
    scored++;
    assert_true(e->pool == dt_pool_find("best_fit"));
    return dti_pass_score(&own, p, place, out, err);
}

/* chen_budget tries plans by the score and the pool that it is given, as any pass would. */
static void a_pass_that_searches_asks_for_scores(void **state)
{
    (void)state;
    dt_policies policies, chen;
    dt_session *s = open_session(NULL, 0);
    const struct variant v = {"keep_all", DT_ALGORITHMS_FAST, 16, 16, 0};
    dt_plan_set *p = open_set(s, &v, &policies);
    dt_program *q = add(p, DT_PROGRAM_FIRST, 16)->program;
    dt_err err = {0};
    const dt_pass_env env = {.pool = dt_pool_find("best_fit"), .score = count};
    assert_ok(dt_policies_open(&chen, "chen_budget", NULL, &err), &err);
    scored = 0;
    assert_ok(dt_policies_apply(&chen, q, &env, &err), &err);
    assert_true(scored > 6);
    dt_policies_close(&chen);
    dt_plan_set_destroy(p);
    dt_policies_close(&policies);
    dt_session_close(s);
}

/* moDNN's bound for VGG-16 is 1,080 MiB. With a second gradient of the first inner product it would
 * be 392 MiB more. */
static void a_further_micro_batch_has_no_second_weight(void **state)
{
    (void)state;
    static const char text[] =
        "[model]\nname = vgg16\n[data]\nsamples = 64\n[train]\nbatch = 64\nmicro_batch = 1\n"
        "momentum = 0\nprecision = fp32\n[device]\nkind = cpu\n[memory]\nalgorithms = small\n"
        "policy = vdnn_all\n";
    dt_session *s = NULL;
    dt_err err = {0};
    if (!dti_onednn_avx512())
        skip();
    assert_ok(dt_session_open(&s, cli_file("vgg.ini", text), NULL, 0, &err), &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    assert_true(dt_plan_set_peak(s->plans) <= (uint64_t)(1.02 * 1080) << 20);
    dt_session_close(s);
}

/* With room on the host for the packed values alone, a step that must be run again computes them
 * anew; without a bound they wait there as they are. */
static void a_step_that_is_run_again_keeps_to_the_hosts_budget(void **state)
{
    (void)state;
    static const char text[] =
        "[model]\nname = vgg16\n[data]\nsamples = 64\n[train]\nbatch = 32\nprecision = fp32\n"
        "[device]\nkind = cpu\n[memory]\npolicy = cdma\n[policy.cdma]\ndensity = 0.353\n";
    const char *const budget[] = {"memory.host_budget=800MiB"};
    for (size_t bound = 0; bound <= 1; bound++) {
        dt_session *s = NULL;
        dt_err err = {0};
        int again = 0;
        assert_ok(dt_session_open(&s, cli_file("cdma.ini", text), budget, bound, &err), &err);
        assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
        const uint64_t host = dt_plan_set_tier_peak(s->plans, DT_TIER_HOST);
        assert_true(bound ? host > 0 && host < (uint64_t)800 << 20 : host > (uint64_t)1800 << 20);
        for (size_t i = 0; i < s->plans->n; i++)
            again += s->plans->planned[i]->dense;
        assert_int_equal(again, 1);
        assert_true(dt_plan_set_exact(s->plans));
        dt_session_close(s);
    }
}

static void what_all_kept_would_take_is_noted_as_plans_are_made(void **state)
{
    (void)state;
    static const char *const policies[] = {"memory.policy=vdnn_all", "memory.policy=chen_sqrt",
        "memory.policy=gist_lossless,vdnn_conv"};
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        dt_session *s = open_session(&policies[i], 1);
        dt_plan_set *all = NULL;
        dt_policies keep_all;
        dt_saving saving;
        dt_err err = {0};
        assert_ok(dt_session_plan_run(s, true, 5, 0, &err), &err);
        assert_ok(dt_plan_set_saving(s->plans, &saving, &err), &err);
        for (size_t k = 0; k < s->plans->n; k++)
            assert_int_equal(s->plans->planned[k]->kept > 0, !s->plans->planned[k]->dense);
        dt_plan_request r = dt_session_request(s);
        assert_ok(dt_policies_open(&keep_all, "keep_all", NULL, &err), &err);
        r.policies = &keep_all;
        assert_ok(dt_plan_set_create(&all, s, &r, &err), &err);
        assert_ok(dti_plan_set_run(all, true, 5, 0, &err), &err);
        assert_int_equal(saving.kept, dt_plan_set_peak(all));
        dt_plan_set_destroy(all);
        dt_policies_close(&keep_all);
        dt_session_close(s);
    }
}

/* Where those of fewest bytes are the faster ones, too. */
static void algorithms_that_fit_are_not_below_the_bound(void **state)
{
    (void)state;
    static const char *const sets[] = {"memory.algorithms=fit"};
    for (int times = 1; times <= 4; times *= 4) {
        dt_session *s = open_session(sets, 1);
        dt_prediction step;
        double least = 0;
        dt_err err = {0};
        s->costs.flops[DT_WORK_CONV_SMALL][DT_F32] *= times;
        assert_ok(dt_session_plan_run(s, false, 5, 0, &err), &err);
        assert_ok(dt_plan_set_predict(s->plans, &step, &err), &err);
        assert_ok(dt_plan_set_bound(s->plans, 0, &least, &err), &err);
        assert_true(least > 0 && step.seconds >= least * (1 - 1e-9));
        dt_session_close(s);
    }
}

DT_TEST_GROUP(plan_set)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved_requests_give_the_plans_that_each_gives_alone),
        cmocka_unit_test(a_plan_stays_where_it_is_and_is_made_once),
        cmocka_unit_test(a_run_plans_once),
        cmocka_unit_test(a_ladder_says_what_it_refused),
        cmocka_unit_test(suggestions_leave_the_plans_alone),
        cmocka_unit_test(memory_that_runs_out_is_said),
        cmocka_unit_test(a_score_is_the_plans_numbers_and_the_costs),
        cmocka_unit_test(a_pass_that_searches_asks_for_scores),
        cmocka_unit_test(a_further_micro_batch_has_no_second_weight),
        cmocka_unit_test(a_step_that_is_run_again_keeps_to_the_hosts_budget),
        cmocka_unit_test(what_all_kept_would_take_is_noted_as_plans_are_made),
        cmocka_unit_test(algorithms_that_fit_are_not_below_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
