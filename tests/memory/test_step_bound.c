/* The bounds of a step, of its seconds and of its bytes: below every plan that random passes,
 * policies and an exhaustive search make, and above the ops alone where something must run again.
 */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/least_room.h"
#include "memory/policies/chen.h"
#include "memory/step_bound.h"
#include "memory/time/card_costs.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/random_pass.h"

static dt_err err;

static dt_costs card(void)
{
    dt_costs c;
    dt_costs_of_card(&c, dt_card_speed_find("p100"));
    return c;
}

/* One on which copies and ops slow each other, as on a processor. */
static dt_costs slowing_card(void)
{
    dt_costs c = card();
    for (int k = DT_USUAL_OUT; k <= DT_USUAL_READ; k++) {
        c.slow[DT_USUAL_COMPUTE][k] = 1 + 0.3 * k;
        c.slow[k][DT_USUAL_COMPUTE] = 1.2;
    }
    return c;
}

static double bound(const dt_lowered *m, const dt_pass_env *env, uint64_t budget)
{
    double seconds = (double)NAN;
    memset(&err, 0, sizeof err);
    assert_ok(dt_step_bound(m->program, env, budget, &seconds, &err), &err);
    return seconds;
}

static void not_below(const dt_lowered *m, const dt_pass_env *env, const dti_pass_cost *c)
{
    int32_t op;
    const uint64_t room = dt_least_room(m->program, &op);
    if (room == 0 || c->device < room)
        fail_msg("'%s' has %zu bytes, and a plan takes %zu", m->program->op[op].name, (size_t)room,
            (size_t)c->device);
    const double least = bound(m, env, c->device);
    if (!(least <= c->seconds * (1 + 1e-9)))
        fail_msg("bound %.12g s of %zu bytes, and a plan of %.12g s", least, (size_t)c->device,
            c->seconds);
}

static void random_plans_are_not_below(void **state)
{
    (void)state;
    const dt_costs machines[] = {card(), slowing_card()};
    int tried = 0;
    for (uint64_t seed = 0; seed < (uint64_t)dt_scaled(8, 12, 30); seed++) {
        const dt_pass_env env = {.costs = &machines[seed % DT_COUNT(machines)]};
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 4);
        assert_ok(dt_program_index(m.program, &err), &err);
        for (uint64_t k = 0; k < 12; k++) {
            dt_program *p = NULL;
            dt_fates f = {0};
            dti_pass_cost c;
            memset(&err, 0, sizeof err);
            assert_ok(dt_program_copy(&p, m.program, &err), &err);
            assert_ok(dt_random_pass(p, 100 * seed + k, &f, &err), &err);
            assert_ok(dti_pass_cost_of(&env, p, &c, &err), &err);
            if (f.encodes + f.packed_moves + f.encoded_moves == 0) { /* packed by chance */
                not_below(&m, &env, &c);
                tried++;
            }
            dt_program_destroy(p);
        }
        dt_lowered_close(&m);
    }
    assert_true(tried > 20);
}

/* Each set of values made again by itself, of networks with few. */
static void no_set_of_values_made_again_is_below(void **state)
{
    (void)state;
    enum { MOST = 7, ENOUGH = 5, SEEDS = 400 };
    const dt_costs costs = card();
    const dt_pass_env env = {.costs = &costs};
    int networks = 0;
    for (uint64_t seed = 100; seed < SEEDS && networks < ENOUGH; seed++) {
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 4);
        dti_chen c;
        assert_ok(dti_chen_open(&c, m.program, &err), &err);
        const size_t n = c.n;
        dti_chen_close(&c);
        for (uint32_t set = 0; n <= MOST && set < 1u << n; set++) {
            dt_program *p = NULL;
            dti_pass_cost cost;
            assert_ok(dt_program_copy(&p, m.program, &err), &err);
            assert_ok(dti_chen_open(&c, p, &err), &err);
            for (size_t i = 0; i < n; i++)
                c.dropped[c.value[i].tensor] = (set >> i & 1) != 0;
            assert_ok(dti_chen_rewrite(&c, &err), &err);
            dti_chen_close(&c);
            assert_ok(dti_pass_cost_of(&env, p, &cost, &err), &err);
            not_below(&m, &env, &cost);
            dt_program_destroy(p);
        }
        networks += n <= MOST;
        dt_lowered_close(&m);
    }
    assert_int_equal(networks, ENOUGH);
}

/* A list on a network, within a budget or without. */
static dti_pass_cost cost_of(const dt_lowered *m, const char *list, const dt_pass_env *env)
{
    dt_program *p = NULL;
    dt_policies policies;
    dti_pass_cost c;
    assert_ok(dt_program_copy(&p, m->program, &err), &err);
    assert_ok(dt_policies_open(&policies, list, NULL, &err), &err);
    assert_ok(dt_policies_apply(&policies, p, env, &err), &err);
    assert_ok(dti_pass_cost_of(env, p, &c, &err), &err);
    dt_policies_close(&policies);
    dt_program_destroy(p);
    return c;
}

/* Every exact one that plans without a search and leaves parameters where they are; and two lists.
 */
static int no_policy_is_below_of(const dt_lowered *m, dt_pass_env env)
{
    size_t n;
    int tried = 0;
    const dt_policy *const *all = dt_policy_all(&n);
    const uint64_t most = cost_of(m, "keep_all", &env).device;
    for (uint64_t tenths = 0; tenths <= 5; tenths += 5) {
        env.budgets.device = most * tenths / 10;
        for (size_t i = 0; i < n; i++) {
            const dt_policy *p = all[i];
            if (!p->exact || p->searches || p->home != NULL || p->rung != NULL ||
                (tenths > 0 && !p->by_budget) || !dt_picked(i, 6, 6, 1))
                continue;
            const dti_pass_cost c = cost_of(m, p->name, &env);
            not_below(m, &env, &c);
            tried++;
        }
    }
    env.budgets.device = 0;
    const char *const lists[] = {"chen_cheap,vdnn_conv", "chen_sqrt,capuchin"};
    for (size_t i = 0; i < DT_COUNT(lists); i++) {
        const dti_pass_cost c = cost_of(m, lists[i], &env);
        not_below(m, &env, &c);
    }
    return tried;
}

static void no_policy_is_below(void **state)
{
    (void)state;
    dt_take_turns(2, 4);
    const dt_costs costs = card();
    const dt_pass_env env = {.costs = &costs};
    dt_lowered m = dt_program_of(dt_standard("resnet50"), DT_PROGRAM_FIRST, 8);
    assert_true(no_policy_is_below_of(&m, env) > (dt_whole_scale() ? 20 : 0));
    dt_lowered_close(&m);
}

/* Where copies slow ops: to the host, to a disk alone, and with half of all values zero. */
static void nor_where_copies_slow_ops(void **state)
{
    (void)state;
    dt_take_turns(1, 4);
    const dt_costs costs = slowing_card();
    const dt_lower_opts to_disk = {
        .pool = dt_pool_find("best_fit"), .policy = "", .tier = DT_TIER_DISK};
    dt_densities half = {0};
    assert_ok(dt_densities_add(&half, "*", 0.5, 0.4, &err), &err);
    const dt_pass_env machines[] = {{.costs = &costs},
        {.costs = &costs, .lower = &to_disk, .pool = to_disk.pool},
        {.costs = &costs, .density = &half}};
    dt_lowered m = dt_program_of(dt_standard("resnet20"), DT_PROGRAM_FIRST, 64);
    for (size_t i = 0; i < DT_COUNT(machines); i++)
        assert_true(no_policy_is_below_of(&m, machines[i]) > (dt_whole_scale() ? 20 : 0));
    dt_lowered_close(&m);
    dt_densities_close(&half);
}

/* What cannot stay and takes long to make again has to move, and slows ops. */
static void what_copies_take_from_ops_is_seen(void **state)
{
    (void)state;
    const dt_costs free = card(), slow = slowing_card();
    const dt_pass_env without = {.costs = &free}, with = {.costs = &slow};
    dt_lowered m = dt_program_of(dt_standard("resnet50"), DT_PROGRAM_FIRST, 32);
    const dti_pass_cost c = cost_of(&m, "capuchin,vdnn_all", &with);
    const double all = bound(&m, &with, UINT64_MAX), least = bound(&m, &with, c.device);
    assert_true(all <= bound(&m, &without, UINT64_MAX));
    assert_true(least > bound(&m, &without, c.device) * 1.01 && least <= c.seconds);
    dt_lowered_close(&m);
}

/* Each by the bound of what it leaves out; and that is above the other where it matters. */
static void bounds_of_what_is_left_out_hold(void **state)
{
    (void)state;
    dt_take_turns(0, 4);
    static const char *const still[] = {"chen_sqrt", "rotor", "revolve"};
    static const char *const once[] = {"vdnn_all", "geeps", "autoswap", "swapadvisor"};
    const dt_costs costs = card();
    dt_pass_env env = {.costs = &costs};
    int still_above = 0, once_above = 0;
    for (uint64_t seed = 0; seed <= (uint64_t)dt_scaled(1, 1, 40); seed++) {
        dt_graph *g = seed > 0 ? dt_random_graph(seed) : dt_standard("resnet20");
        dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, seed > 0 ? 16384 : 256);
        assert_ok(dt_program_index(m.program, &err), &err);
        const uint64_t all = cost_of(&m, "keep_all", &env).device;
        for (uint64_t part = 3; part <= 5; part += 2) {
            env.budgets.device = all / 8 * part;
            for (size_t i = 0; i < DT_COUNT(still) + DT_COUNT(once); i++) {
                const bool moves = i >= DT_COUNT(still);
                const char *name = moves ? once[i - DT_COUNT(still)] : still[i];
                const dti_pass_cost c = cost_of(&m, name, &env);
                dti_step_bounds b = {0};
                assert_ok(dti_step_bounds_of(m.program, &env, c.device, &b, &err), &err);
                const double least = moves ? b.once : b.still;
                if (!(least <= c.seconds * (1 + 1e-9)))
                    fail_msg("bound %.12g s of %zu bytes, and %s takes %.12g s", least,
                        (size_t)c.device, name, c.seconds);
                const double any = bound(&m, &env, c.device);
                still_above += !moves && least > any;
                once_above += moves && least > any;
            }
        }
        env.budgets.device = 0;
        dt_lowered_close(&m);
    }
    assert_true(still_above > 0 && once_above > 0);
}

/* Without links all that is over runs again. */
static void recomputation_is_seen(void **state)
{
    (void)state;
    dt_costs costs = card();
    const dt_pass_env env = {.costs = &costs};
    dt_lowered m = dt_program_of(dt_standard("resnet50"), DT_PROGRAM_FIRST, 8);
    for (int t = DT_TIER_HOST; t <= DT_TIER_DISK; t++)
        for (int d = 0; d < DT_TIER_DIRECTIONS; d++)
            costs.link[t][d].rate = costs.thread_link[t][d].rate = 1;
    const dti_pass_cost c = cost_of(&m, "rotor", &env);
    const double alone = bound(&m, &env, UINT64_MAX), least = bound(&m, &env, c.device);
    assert_true(least > alone * 1.01 && least <= c.seconds);
    dt_lowered_close(&m);
}

/* No op that matters runs before the input is there, so a slower link makes the bound higher by
 * what its copy takes more. */
static void the_copy_of_the_input_is_seen(void **state)
{
    (void)state;
    const double rates[] = {1e9, 1e6};
    double seconds[DT_COUNT(rates)];
    dt_lowered m = dt_program_of(dt_standard("resnet20"), DT_PROGRAM_FIRST, 8);
    for (size_t i = 0; i < DT_COUNT(rates); i++) {
        dt_costs costs = card();
        costs.link[DT_TIER_INPUT][DT_FROM_TIER].rate = rates[i];
        costs.thread_link[DT_TIER_INPUT][DT_FROM_TIER].rate = rates[i];
        const dt_pass_env env = {.costs = &costs};
        dti_pass_cost c;
        seconds[i] = bound(&m, &env, UINT64_MAX);
        assert_ok(dti_pass_cost_of(&env, m.program, &c, &err), &err);
        not_below(&m, &env, &c);
    }
    const double bytes = 8.0 * 32 * 32 * 3 * sizeof(float);
    const double more = bytes / rates[1] - bytes / rates[0];
    assert_true(fabs(seconds[1] - seconds[0] - more) <= 0.01 * more);
    dt_lowered_close(&m);
}

DT_TEST_GROUP(step_bound)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_are_not_below),
        cmocka_unit_test(no_set_of_values_made_again_is_below),
        cmocka_unit_test(no_policy_is_below),
        cmocka_unit_test(nor_where_copies_slow_ops),
        cmocka_unit_test(what_copies_take_from_ops_is_seen),
        cmocka_unit_test(bounds_of_what_is_left_out_hold),
        cmocka_unit_test(recomputation_is_seen),
        cmocka_unit_test(the_copy_of_the_input_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
