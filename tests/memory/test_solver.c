/* Linear and integer programs by CBC and CLP: against brute force, in several threads at once, and
 * without a trace in the process's handlers of signals. */
#include "tests/fixture/check.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "memory/remat/solver.h"
#include "tests/fixture/layer_check.h"

enum { ITEMS = 12, ROUNDS = 20, THREADS = 4, NODES = 1000 };

/* Of some items as much worth as weighs no more than half of all. */
typedef struct knapsack {
    double worth[ITEMS], weight[ITEMS], most;
} knapsack;

static knapsack draw(uint32_t seed)
{
    knapsack k = {.most = 0};
    float *v = dt_random_values(2 * ITEMS, seed);
    for (int i = 0; i < ITEMS; i++) {
        k.worth[i] = 1 + fabs((double)v[i]);
        k.weight[i] = 1 + fabs((double)v[ITEMS + i]);
        k.most += k.weight[i] / 2;
    }
    free(v);
    return k;
}

static double best_of(const knapsack *k)
{
    double best = 0;
    for (unsigned set = 0; set < 1U << ITEMS; set++) {
        double worth = 0, weight = 0;
        for (int i = 0; i < ITEMS; i++)
            if ((set >> i & 1) != 0) {
                worth += k->worth[i];
                weight += k->weight[i];
            }
        best = weight <= k->most && worth > best ? worth : best;
    }
    return best;
}

static dt_status build(dti_lp *p, const knapsack *k, dt_err *err)
{
    int column[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        DT_CHECK(dti_lp_col(p, 0, 1, -k->worth[i], true, &column[i], err));
    DT_CHECK(dti_lp_row(p, 0, k->most, err));
    for (int i = 0; i < ITEMS; i++)
        DT_CHECK(dti_lp_entry(p, column[i], k->weight[i], err));
    return DT_OK;
}

/* Whether the program is solved as brute force does, and its relaxation is worth no less. */
static dt_status solve(uint32_t seed, dt_err *err)
{
    const knapsack k = draw(seed);
    const double best = best_of(&k);
    double value[ITEMS];
    dti_lp p = {0};
    dti_lp_answer whole = {0}, parts = {0};
    dt_status st = build(&p, &k, err);
    if (st == DT_OK)
        st = dti_lp_solve(&p, NODES, 1e-9, value, &whole, err);
    if (st == DT_OK)
        st = dti_lp_solve(&p, 0, 0, value, &parts, err);
    dti_lp_deinit(&p);
    if (st != DT_OK)
        return st;
    const bool right = whole.found && whole.proved && fabs(-whole.cost - best) < 1e-6 &&
                       parts.found && -parts.cost >= best - 1e-6;
    return right ? DT_OK
                 : DT_FAIL(err, DT_E_INTERNAL, "knapsack %u: %.9g, by fractions %.9g, best %.9g",
                       (unsigned)seed, -whole.cost, -parts.cost, best);
}

typedef struct solving {
    uint32_t seed;
    dt_status st;
    dt_err err;
} solving;

static void *solve_some(void *arg)
{
    solving *s = arg;
    for (uint32_t i = 0; i < ROUNDS && s->st == DT_OK; i++)
        s->st = solve(s->seed + i, &s->err);
    return NULL;
}

static void need_solver(void)
{
    if (dt_solver_name() == NULL)
        skip();
}

static void several_threads_solve_at_once(void **state)
{
    (void)state;
    need_solver();
    static solving each[THREADS];
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++) {
        each[t] = (solving){.seed = (uint32_t)(100 * t + 1)};
        assert_int_equal(pthread_create(&thread[t], NULL, solve_some, &each[t]), 0);
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_join(thread[t], NULL), 0);
    for (int t = 0; t < THREADS; t++)
        assert_ok(each[t].st, &each[t].err);
}

static void caught(int signal)
{
    (void)signal;
}

static void an_interrupt_is_its_handlers_again(void **state)
{
    (void)state;
    need_solver();
    struct sigaction own = {.sa_handler = caught}, before, after;
    dt_err err = {0};
    assert_int_equal(sigaction(SIGINT, &own, &before), 0);
    assert_ok(solve(7, &err), &err);
    assert_int_equal(sigaction(SIGINT, &before, &after), 0);
    assert_true(after.sa_handler == caught);
}

DT_TEST_GROUP(solver)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_threads_solve_at_once),
        cmocka_unit_test(an_interrupt_is_its_handlers_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
