/* No policy refuses a budget that a plan of its own keeps to, one that it makes for a lower budget
 * or for none: random networks by budgets from the least that it comes to, to what keep_all takes.
 */
#include <inttypes.h>
#include <string.h>

#include "memory/remat/solver.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

enum { GRAPHS = 120, BUDGETS = 24 };

/* Tensors of these networks are small, so policies look at all of them. */
static uint64_t peak_by(uint64_t seed, const char *policy, const char *ini, uint64_t budget)
{
    const dt_simulate_opts machine = {.inline_copies = seed % 3 == 0};
    const dt_pass_env e = {.machine = &machine, .budgets = {.device = budget}};
    dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 4);
    dt_rewrite_with(m.program, policy, ini, &e);
    m.plan = dt_lower_with(m.program, &e);
    const uint64_t peak = m.plan->peak;
    dt_lowered_close(&m);
    return peak;
}

static void refuses_none_that_it_fits(uint64_t seed, const char *policy, const char *ini)
{
    const uint64_t most = peak_by(seed, "keep_all", NULL, 0), least = peak_by(seed, policy, ini, 1);
    const uint64_t none = peak_by(seed, policy, ini, 0);
    uint64_t lowest = none < least ? none : least;
    for (uint64_t k = 0; k <= BUDGETS; k++) {
        const uint64_t budget = least + (most - least) * k / BUDGETS;
        const uint64_t peak = peak_by(seed, policy, ini, budget);
        if (peak > budget && lowest <= budget)
            fail_msg("network %" PRIu64 ", %s: %" PRIu64 " bytes for a budget of %" PRIu64
                     ", which a plan of %" PRIu64 " fits",
                seed, policy, peak, budget, lowest);
        lowest = peak < lowest ? peak : lowest;
    }
}

static void no_budget_is_refused_that_a_plan_fits(void **state)
{
    (void)state;
    static const char *const policies[][2] = {
        {"capuchin", "[policy.capuchin]\nleast = 0\n"},
        {"superneurons", "[policy.superneurons]\nleast = 0\n"},
        {"rotor", NULL},
        {"chen_budget", NULL},
    };
    for (uint64_t seed = 0; seed < GRAPHS; seed++)
        for (size_t i = 0; i < DT_COUNT(policies); i++)
            if (dt_picked(seed + 2 * i, 16, 6, 1))
                refuses_none_that_it_fits(seed, policies[i][0], policies[i][1]);
}

/* Policies double a budget, halve it and add to it. */
static void the_largest_budget_is_as_any_that_holds_all(void **state)
{
    (void)state;
    static const char *const policies[] = {"rotor", "tflms", "swapadvisor", "capuchin", "geeps",
        "sentinel", "autoswap", "chen_budget", "superneurons", "vdnnpp", "autotm", "checkmate"};
    for (uint64_t seed = 0; seed < 6; seed++)
        for (size_t i = 0; i < DT_COUNT(policies); i++) {
            if (dt_solver_name() == NULL &&
                (strcmp(policies[i], "autotm") == 0 || strcmp(policies[i], "checkmate") == 0))
                continue;
            const uint64_t ample = peak_by(seed, policies[i], NULL, UINT64_C(1) << 50);
            const uint64_t largest = peak_by(seed, policies[i], NULL, UINT64_MAX);
            if (largest != ample)
                fail_msg("network %" PRIu64 ", %s: %" PRIu64 " bytes, and %" PRIu64
                         " for the largest budget",
                    seed, policies[i], ample, largest);
        }
}

DT_TEST_GROUP(refusals)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_budget_is_refused_that_a_plan_fits),
        cmocka_unit_test(the_largest_budget_is_as_any_that_holds_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
