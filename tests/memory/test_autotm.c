/* AutoTM's integer program: held against every placement of small problems, and what its notes say
 * of any. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "memory/policies/autotm_program.h"
#include "memory/remat/solver.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

enum { PLACES = 12, MOST = 6 };
static const double close_enough = 1.01 + 1e-9;

/* @of: n absences of MOST / 2 tensors. */
typedef struct problem {
    double hidden[PLACES];
    uint64_t load[PLACES];
    dti_absence_of of[MOST];
    dti_placement x;
} problem;

static void roll(problem *p, uint64_t seed, size_t n)
{
    dt_dice d = {seed, 0};
    memset(p, 0, sizeof *p);
    for (size_t k = 0; k < PLACES; k++) {
        p->hidden[k] = (double)dt_roll_in(&d, 0, 9);
        p->load[k] = (uint64_t)dt_roll_in(&d, 0, 9);
    }
    for (size_t i = 0; i < n; i++) {
        const int32_t second = (int32_t)(i % 2); /* two absences of a tensor follow each other */
        const int32_t from = second ? p->of[i - 1].to : (int32_t)dt_roll_in(&d, 0, PLACES / 2 - 3);
        const int32_t to = (int32_t)dt_roll_in(&d, from + 2, second ? PLACES - 1 : PLACES / 2);
        p->of[i] = (dti_absence_of){.tensor = (int32_t)(i / 2),
            .from = from,
            .to = to,
            .bytes = second ? p->of[i - 1].bytes : (uint64_t)dt_roll_in(&d, 1, 20),
            .out = (double)dt_roll_in(&d, 1, 12),
            .in = (double)dt_roll_in(&d, 1, 12)};
        for (int32_t k = from; k <= to; k++)
            p->load[k] += p->of[i].bytes;
    }
    p->x = (dti_placement){.n_place = PLACES,
        .n = n,
        .hidden = p->hidden,
        .load = p->load,
        .of = p->of,
        .nodes = 5000};
}

/* The limit between the least and the load's highest place. */
static uint64_t limit_of(const problem *p, uint64_t part, uint64_t parts)
{
    const uint64_t least = dti_placement_least(&p->x);
    uint64_t most = 0;
    for (size_t k = 0; k < PLACES; k++)
        most = p->load[k] > most ? p->load[k] : most;
    return least + (most - least) * part / parts;
}

/* The best of all placements of absences i and on. */
static double brute(problem *p, size_t i)
{
    dti_absence_of *a = &p->of[i];
    double best = HUGE_VAL;
    if (i == p->x.n)
        return dti_placement_keeps(&p->x) ? dti_placement_cost(&p->x) : HUGE_VAL;
    if (p->x.tied && i % 2 == 1) { /* as its tensor's first */
        a->away = a[-1].away;
        a->release = a->from;
        a->fetch = a->to;
        return brute(p, i + 1);
    }
    a->away = false;
    best = brute(p, i + 1);
    a->away = true;
    const int32_t half = (a->to - a->from - 2) / 2, h = half < p->x.reach ? half : p->x.reach;
    for (a->release = a->from; a->release <= a->from + h; a->release++)
        for (a->fetch = a->to - h; a->fetch <= a->to; a->fetch++)
            best = fmin(best, brute(p, i + 1));
    return best;
}

static double solved(problem *p)
{
    dt_err err = {0};
    assert_ok(dti_placement_solve(&p->x, &err), &err);
    assert_true(dti_placement_keeps(&p->x));
    assert_true(fabs(dti_placement_cost(&p->x) - p->x.cost) < 1e-9);
    assert_true(p->x.bound <= p->x.cost + 1e-6);
    return p->x.cost;
}

static void no_placement_is_better(void **state)
{
    (void)state;
    if (dt_solver_name() == NULL)
        skip();
    for (uint64_t seed = 0; seed < 60; seed++)
        for (int mode = 0; mode < 3; mode++) {
            problem p;
            roll(&p, seed, mode == 2 ? 4 : MOST);
            p.x.tied = mode == 0;
            p.x.reach = mode == 2 ? 3 : 0;
            p.x.limit = limit_of(&p, seed % 4, 4);
            const double best = brute(&p, 0), found = solved(&p);
            assert_true(p.x.proved && found <= best * close_enough && found >= best - 1e-9);
            assert_true(p.x.bound <= best + 1e-6);
        }
}

/* Without branches, what is rounded keeps all the same, and its bound is one. */
static void what_is_rounded_keeps_to_the_limit(void **state)
{
    (void)state;
    if (dt_solver_name() == NULL)
        skip();
    for (uint64_t seed = 0; seed < 60; seed++) {
        problem p;
        roll(&p, seed, 4);
        p.x.reach = seed % 2 == 0 ? 3 : 0;
        p.x.tied = seed % 4 == 1;
        p.x.nodes = 0;
        p.x.limit = limit_of(&p, seed % 3, 3);
        const double best = brute(&p, 0), found = solved(&p);
        assert_true(found >= best - 1e-9 && p.x.bound <= best + 1e-6);
    }
}

/* More memory never costs more, and all of it costs nothing; copies beside ops cost no more than
 * between them, nor decisions by absence more than by value. */
static void freedom_never_costs(void **state)
{
    (void)state;
    if (dt_solver_name() == NULL)
        skip();
    for (uint64_t seed = 0; seed < 40; seed++) {
        problem p;
        double by_mode[3], before = HUGE_VAL;
        roll(&p, seed, MOST);
        for (uint64_t part = 0; part <= 4; part++) {
            p.x.limit = limit_of(&p, part, 4);
            const double cost = solved(&p);
            assert_true(cost <= before * close_enough);
            before = cost;
        }
        assert_true(before <= 0 && p.x.proved);
        for (size_t i = 0; i < p.x.n; i++)
            assert_false(p.of[i].away);
        p.x.limit = limit_of(&p, 1, 2);
        for (int mode = 0; mode < 3; mode++) {
            p.x.tied = mode == 0;
            p.x.reach = mode == 2 ? 3 : 0;
            by_mode[mode] = solved(&p);
        }
        assert_true(by_mode[1] <= by_mode[0] * close_enough);
        assert_true(by_mode[2] <= by_mode[1] * close_enough);
    }
}

/* Figure 6: a value that kernels 1, 2, 4 and 5 use is kept up to kernel 2, leaves behind it, comes
 * for kernel 4 and is gone behind that once more. In the paper the second time is free, as the copy
 * that was made behind kernel 2 still holds (a write is paid once a tensor), and kernel 5 reads
 * slow memory: one write and one read. Ours has two of each, for two reasons that the policy's
 * opening tells: the slot of a value is its own only while it is away, so that it is written anew
 * the second time; and kernel 5 wants the value on the device. Nothing hides. */
static void figure_6_is_placed_so_and_paid_twice(void **state)
{
    (void)state;
    if (dt_solver_name() == NULL)
        skip();
    enum { KERNEL_1, KERNEL_2 = 2, KERNEL_4 = 5, KERNEL_5 = 8, N = 3 };
    static const double hidden[PLACES] = {0}, out = 3, in = 5;
    /* with the value's 4; between the kernels others want as much as there is */
    static const uint64_t load[PLACES] = {9, 9, 9, 13, 13, 9, 13, 13, 9, 4, 4, 4};
    static const int32_t at[N + 1] = {KERNEL_1, KERNEL_2, KERNEL_4, KERNEL_5};
    dti_absence_of of[N];
    for (int i = 0; i < N; i++)
        of[i] = (dti_absence_of){.from = at[i], .to = at[i + 1], .bytes = 4, .out = out, .in = in};
    dti_placement x = {.n_place = PLACES,
        .n = N,
        .hidden = hidden,
        .load = load,
        .of = of,
        .limit = 9,
        .nodes = 100};
    dt_err err = {0};
    assert_ok(dti_placement_solve(&x, &err), &err);
    assert_true(x.proved && dti_placement_keeps(&x));
    assert_true(!of[0].away && of[1].away && of[2].away);
    assert_true(fabs(x.cost - 1.001 * 2 * (out + in)) < 1e-6);
}

static dt_lowered planned(const char *ini, const dt_pass_env *e)
{
    dt_lowered m = dt_program_of(dt_standard("resnet20"), DT_PROGRAM_FIRST, 64);
    dt_rewrite_with(m.program, "autotm", ini, e);
    m.plan = dt_lower_with(m.program, e);
    return m;
}

static double seconds_of(const char *mode, const dt_pass_env *e)
{
    char ini[64];
    snprintf(ini, sizeof ini, "[policy.autotm]\nmode = %s\n", mode);
    dt_lowered m = planned(ini, e);
    const double seconds = dt_simulated(m.plan, e);
    assert_true(m.plan->peak <= e->budgets.device);
    dt_lowered_close(&m);
    return seconds;
}

/* Plans keep to the budget. Where copies stand between the ops, a decision for each absence is no
 * slower than one for each value; where they have streams, copies beside ops are no slower over
 * some budgets, though when they run is only guessed by the integer program. */
static void each_mode_is_no_slower_than_the_one_before(void **state)
{
    (void)state;
    if (dt_solver_name() == NULL)
        skip();
    const dt_simulate_opts inlined = {.inline_copies = true};
    dt_pass_env e = {0};
    dt_lowered kept = dt_program_of(dt_standard("resnet20"), DT_PROGRAM_FIRST, 64);
    kept.plan = dt_lower_with(kept.program, &e);
    e.budgets.device = 1;
    dt_lowered least = planned("[policy.autotm]\nmode = synchronous\n", &e);
    double beside = 0, between = 0;
    for (uint64_t part = 1; part <= 3; part++) {
        e.budgets.device = least.plan->peak + (kept.plan->peak - least.plan->peak) * part / 4;
        e.machine = &inlined;
        assert_true(seconds_of("synchronous", &e) <= seconds_of("static", &e) * close_enough);
        e.machine = NULL;
        beside += seconds_of("asynchronous", &e);
        between += seconds_of("synchronous", &e);
    }
    assert_true(beside <= between * close_enough);
    dt_lowered_close(&kept);
    dt_lowered_close(&least);
}

/* Without a budget the peak is the least that any of its budgets gives. */
static void without_a_budget_the_peak_is_the_least(void **state)
{
    (void)state;
    if (dt_solver_name() == NULL)
        skip();
    dt_pass_env e = {0};
    dt_lowered none = planned(NULL, &e);
    e.budgets.device = 1;
    dt_lowered least = planned(NULL, &e);
    assert_int_equal(none.plan->peak, least.plan->peak);
    dt_lowered_close(&none);
    dt_lowered_close(&least);
}

static bool tells_unused(const char *ini, const dt_pass_env *e)
{
    bool told = false;
    dt_lowered m = planned(ini, e);
    const dt_program *p = m.program;
    for (size_t k = 0; k < p->n_order; k++) {
        const dt_op *op = &p->op[p->order[k]];
        told |= op->kind == DT_OP_OUT && strstr(dt_reason_text(&p->reasons, op->reason),
                                             "; nodes unused: over 1000 columns") != NULL;
    }
    dt_lowered_close(&m);
    return told;
}

/* What is asked for and changes nothing is told; what nobody asked for is not. With one decision a
 * value the program is small enough. */
static void nodes_that_go_unused_are_told(void **state)
{
    (void)state;
    if (dt_solver_name() == NULL)
        skip();
    dt_pass_env e = {0};
    dt_lowered kept = dt_program_of(dt_standard("resnet20"), DT_PROGRAM_FIRST, 64);
    kept.plan = dt_lower_with(kept.program, &e);
    e.budgets.device = kept.plan->peak / 2;
    assert_true(tells_unused("[policy.autotm]\nnodes = 7\n", &e));
    assert_false(tells_unused("[policy.autotm]\nnodes = 100\n", &e));
    assert_false(tells_unused("[policy.autotm]\nnodes = 0\n", &e));
    assert_false(tells_unused("[policy.autotm]\nnodes = 7\nmode = static\n", &e));
    dt_lowered_close(&kept);
}

DT_TEST_GROUP(autotm)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_placement_is_better),
        cmocka_unit_test(what_is_rounded_keeps_to_the_limit),
        cmocka_unit_test(freedom_never_costs),
        cmocka_unit_test(figure_6_is_placed_so_and_paid_twice),
        cmocka_unit_test(each_mode_is_no_slower_than_the_one_before),
        cmocka_unit_test(without_a_budget_the_peak_is_the_least),
        cmocka_unit_test(nodes_that_go_unused_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
