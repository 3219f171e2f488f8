/* The policy auto against all that there is: on small networks every way to keep, to make again and
 * to move their values, tried one by one; on chains Rotor's table at every aim; and with costs that
 * are wrong by a tenth, the plan that right ones would have chosen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/norm/batchnorm.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/fc.h"
#include "layers/plain.h"
#include "memory/kept.h"
#include "memory/policies/chen.h"
#include "memory/policies/remat_pass.h"
#include "memory/step_bound.h"
#include "memory/time/card_costs.h"
#include "tests/fixture/check.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

static dt_err err;

/* So many samples that values take megabytes and ops longer than their start. */
enum { SAMPLES = 16384, MOST_OPS = 25, MOST_VALUES = 5, BUDGETS = 3 };

static dt_costs card(double faster)
{
    dt_costs c;
    dt_costs_of_card(&c, dt_card_speed_find("p100"));
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        for (int d = 0; d < DT_TIER_DIRECTIONS; d++) {
            c.link[t][d].rate *= faster;
            c.thread_link[t][d].rate *= faster;
        }
    return c;
}

static dt_program *copy_of(const dt_lowered *m)
{
    dt_program *p = NULL;
    memset(&err, 0, sizeof err);
    assert_ok(dt_program_copy(&p, m->program, &err), &err);
    return p;
}

/* By itself: what it is held against it finds without the policies that search. */
static dt_program *by(const dt_lowered *m, const char *policy, const dt_pass_env *env)
{
    static const char alone[] = "[policy.auto]\nsearches = off\n";
    dt_policies list;
    dt_config *config = NULL;
    dt_program *p = copy_of(m);
    assert_ok(parse_config(&config, "alone", alone, strlen(alone), &err), &err);
    assert_ok(dt_policies_open(&list, policy, config, &err), &err);
    dt_config_destroy(config);
    assert_ok(dt_policies_apply(&list, p, env, &err), &err);
    dt_policies_close(&list);
    return p;
}

static dti_pass_cost cost_of(dt_program *p, const dt_pass_env *env)
{
    dti_pass_cost c;
    assert_ok(dti_pass_cost_of(env, p, &c, &err), &err);
    return c;
}

/* What is found for a network is kept for its next budget. */
static dt_kept *kept;

/* What a plan of a policy within a budget takes by other costs than it is made for. */
static dti_pass_cost under(const dt_lowered *m, const char *policy, uint64_t budget,
    const dt_costs *thought, const dt_costs *real)
{
    const dt_pass_env by_thought = {.costs = thought, .budgets = {.device = budget}, .kept = kept};
    const dt_pass_env by_real = {.costs = real};
    dt_program *p = by(m, policy, &by_thought);
    const dti_pass_cost c = cost_of(p, &by_real);
    dt_program_destroy(p);
    return c;
}

/* --- every way --- */

/* What may become of a value. The two ways to move it differ in when it comes back: right before it
 * is read, or as soon as backward begins. */
enum { KEPT, AGAIN, LATE, EARLY, WAYS };

static void move(dt_program *p, int32_t tensor, bool early)
{
    dti_gap g;
    assert_ok(dt_program_index(p, &err), &err);
    for (int32_t i = 0; dti_gap_next(p, tensor, &i, &g);) {
        if (!g.crosses_loss)
            continue;
        const int32_t behind_loss = dt_pos(p, p->loss) + 1;
        const bool room = early && behind_loss > g.from_pos && behind_loss < g.to_pos;
        const dti_offload_opt o = {.release_after = DT_NONE,
            .fetch_before = room ? p->order[behind_loss] : DT_NONE,
            .tier = DT_TIER_INPUT};
        assert_ok(dti_offload(p, &g, &o, &err), &err);
        return;
    }
}

static dti_pass_cost one_way(const dt_lowered *m, const dt_pass_env *env, uint32_t way)
{
    dti_chen c;
    dt_program *p = copy_of(m);
    assert_ok(dti_chen_open(&c, p, &err), &err);
    uint32_t left = way;
    for (size_t i = 0; i < c.n; i++, left /= WAYS)
        c.dropped[c.value[i].tensor] = left % WAYS == AGAIN;
    assert_ok(dti_chen_rewrite(&c, &err), &err);
    left = way;
    for (size_t i = 0; i < c.n; i++, left /= WAYS)
        if (left % WAYS >= LATE)
            move(p, c.value[i].tensor, left % WAYS == EARLY);
    dti_chen_close(&c);
    assert_ok(dti_fetch_again(p, &err), &err);
    const dti_pass_cost cost = cost_of(p, env);
    dt_program_destroy(p);
    return cost;
}

static size_t values_of(const dt_lowered *m)
{
    dti_chen c;
    dt_program *p = copy_of(m);
    assert_ok(dti_chen_open(&c, p, &err), &err);
    const size_t n = c.n;
    dti_chen_close(&c);
    dt_program_destroy(p);
    return n;
}

static void near_every_way(const dt_lowered *m, size_t n_value, const dt_costs *costs)
{
    const dt_pass_env env = {.costs = costs};
    uint32_t ways = 1;
    for (size_t i = 0; i < n_value; i++)
        ways *= WAYS;
    dti_pass_cost *all = dt_alloc(ways, sizeof *all);
    assert_non_null(all);
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < ways; i++) {
        all[i] = one_way(m, &env, i);
        least = all[i].device < least ? all[i].device : least;
    }
    for (uint64_t k = 0; k < BUDGETS; k++) {
        const uint64_t budget = least + (all[0].device - least) * k / BUDGETS;
        double best = HUGE_VAL;
        for (uint32_t i = 0; i < ways; i++)
            if (all[i].device <= budget)
                best = fmin(best, all[i].seconds);
        const dti_pass_cost found = under(m, "auto", budget, costs, costs);
        double bound = (double)NAN;
        assert_ok(dt_step_bound(m->program, &env, budget, &bound, &err), &err);
        if (!(bound <= best * (1 + 1e-9)))
            fail_msg("bound %g s of %zu bytes, the best of %u ways %g s", bound, (size_t)budget,
                (unsigned)ways, best);
        if (!(found.device <= budget && found.seconds <= 1.05 * best))
            fail_msg("auto takes %g s and %zu bytes of %zu, the best of %u ways %g s",
                found.seconds, (size_t)found.device, (size_t)budget, (unsigned)ways, best);
    }
    dt_free(all);
}

static void near_the_best_of_every_way(void **state)
{
    (void)state;
    int networks = 0;
    const int wanted = dt_small_scale() ? 1 : 4;
    for (uint64_t seed = 200; seed < 4000 && networks < wanted; seed++) {
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, SAMPLES);
        const size_t n = values_of(&m);
        if (m.program->n_order <= MOST_OPS && n >= 3 && n <= MOST_VALUES) {
            const dt_costs costs = card(networks % 2 == 0 ? 1 : 10);
            near_every_way(&m, n, &costs);
            networks++;
        }
        dt_lowered_close(&m);
    }
    assert_int_equal(networks, wanted);
}

/* --- chains --- */

static dt_graph *chain(uint64_t seed)
{
    dt_graph *g;
    dt_dice dice = {seed, 0};
    int32_t at = DT_GRAPH_INPUT;
    const int64_t classes = 5;
    assert_ok(dt_graph_create(&g, "chain", (dt_shape){1, 8, 8, 4}, classes, &err), &err);
    const int64_t layers = dt_roll_in(&dice, 8, 16);
    for (int64_t i = 0; i <= layers + 2; i++) {
        static const dt_batchnorm norm = {.eps = 1e-5, .momentum = 0.1};
        const dt_conv conv = {4 << dt_roll(&dice, 2), 3, 1, 1, 1, 1, false};
        const dt_fc fc = {classes, true};
        const uint32_t kind = dt_roll(&dice, 3);
        const dt_layer_desc *desc = kind == 0   ? &dt_layer_conv
                                    : kind == 1 ? &dt_layer_batchnorm
                                                : &dt_layer_relu;
        const void *opts = kind == 0 ? (const void *)&conv : kind == 1 ? (const void *)&norm : NULL;
        char name[DT_NAME_BYTES];
        if (i >= layers) {
            const dt_layer_desc *const last[] = {
                &dt_layer_global_avgpool, &dt_layer_fc, &dt_layer_cross_entropy};
            desc = last[i - layers];
            opts = i == layers + 1 ? &fc : NULL;
        }
        snprintf(name, sizeof name, "%s%d", desc->name, (int)i);
        assert_ok(dt_graph_add(g, desc, name, opts, &at, 1, &at, &err), &err);
    }
    assert_ok(dt_graph_check(g, &err), &err);
    return g;
}

/* The fastest that fits of what Rotor's table gives for every one of many aims. */
static dti_pass_cost rotor_at_every_aim(
    const dt_lowered *m, const dt_costs *costs, uint64_t budget, uint64_t most)
{
    enum { AIMS = 60 };
    const dt_pass_env env = {.costs = costs, .budgets = {.device = budget}};
    dti_problem x;
    dti_chain_stages s = {.points = true};
    dt_program *p = copy_of(m);
    assert_ok(dti_problem_open(&x, p, &env, &err), &err);
    assert_ok(
        dti_chain_of_graph(&s, &x.r.graph, DTI_CHAIN_AUTO, DT_CHAIN_MOST_STAGES, x.mirror, &err),
        &err);
    for (uint64_t i = 1; i <= AIMS; i++) {
        dt_chain_plan plan;
        dt_remat_sequence runs = {0};
        dt_err none = {0};
        uint64_t peak;
        const dt_status st = dt_chain_solve(&plan, &s.chain, most * i / AIMS, &none);
        if (st == DT_E_BUDGET)
            continue;
        assert_ok(st, &none);
        assert_ok(dti_chain_runs(&runs, &x.r.graph, &s, &plan, x.r.once, &err), &err);
        assert_ok(dti_problem_try(&x, &runs, &peak, &err), &err);
        dti_remat_sequence_deinit(&runs);
        dt_chain_plan_deinit(&plan);
    }
    const dti_pass_cost best = x.cost;
    dti_chain_stages_deinit(&s);
    dti_problem_close(&x);
    dt_program_destroy(p);
    return best;
}

static void not_behind_rotor_on_chains(void **state)
{
    (void)state;
    int wanted = 0, fitted = 0;
    for (uint64_t seed = 0; seed < 2; seed++) {
        if (!dt_picked(seed, 2, 2, 1))
            continue;
        wanted++;
        const dt_costs costs = card(seed % 2 == 0 ? 1 : 0.05);
        dt_lowered m = dt_program_of(chain(seed), DT_PROGRAM_FIRST, SAMPLES);
        const uint64_t all = under(&m, "keep_all", 0, &costs, &costs).device;
        const uint64_t least = rotor_at_every_aim(&m, &costs, 1, all).device;
        for (uint64_t k = 0; k < BUDGETS; k++) {
            const uint64_t budget = least + (all - least) * k / BUDGETS;
            const dti_pass_cost best = rotor_at_every_aim(&m, &costs, budget, all);
            const dti_pass_cost found = under(&m, "auto", budget, &costs, &costs);
            fitted += best.device <= budget;
            if (!(found.device <= budget && found.seconds <= best.seconds * (1 + 1e-9)))
                fail_msg("chain %d: auto takes %g s and %zu bytes of %zu, Rotor %g s and %zu",
                    (int)seed, found.seconds, (size_t)found.device, (size_t)budget, best.seconds,
                    (size_t)best.device);
        }
        dt_lowered_close(&m);
    }
    assert_int_equal(fitted, wanted * BUDGETS);
}

/* Where its program is too large, or there is no solver, it begins with Rotor's sequences. */
static void checkmate_by_search_is_not_behind_rotor_on_chains(void **state)
{
    (void)state;
    static const char searched[] = "[policy.checkmate]\nops = 0\n";
    int fitted = 0;
    const dt_costs costs = card(1);
    for (uint64_t seed = 0; seed < 3; seed++) {
        if (!dt_picked(seed, 3, 3, 1))
            continue;
        dt_lowered m = dt_program_of(chain(seed), DT_PROGRAM_FIRST, SAMPLES);
        const uint64_t all = under(&m, "keep_all", 0, &costs, &costs).device;
        const uint64_t least = under(&m, "rotor", 0, &costs, &costs).device;
        for (uint64_t k = 0; k < BUDGETS; k++) {
            const uint64_t budget = least + (all - least) * k / BUDGETS;
            const dti_pass_cost chained = under(&m, "rotor", budget, &costs, &costs);
            const dt_pass_env env = {.costs = &costs, .budgets = {.device = budget}};
            dt_policies list;
            dt_config *config = NULL;
            dt_program *p = copy_of(&m);
            assert_ok(parse_config(&config, "searched", searched, strlen(searched), &err), &err);
            assert_ok(dt_policies_open(&list, "checkmate", config, &err), &err);
            assert_ok(dt_policies_apply(&list, p, &env, &err), &err);
            const dti_pass_cost found = cost_of(p, &env);
            fitted += chained.device <= budget;
            if (chained.device <= budget &&
                !(found.device <= budget && found.seconds <= chained.seconds * (1 + 1e-9)))
                fail_msg("chain %d: checkmate takes %g s and %zu bytes of %zu, rotor %g s",
                    (int)seed, found.seconds, (size_t)found.device, (size_t)budget,
                    chained.seconds);
            dt_policies_close(&list);
            dt_config_destroy(config);
            dt_program_destroy(p);
        }
        dt_lowered_close(&m);
    }
    assert_true(fitted >= BUDGETS - 1);
}

/* --- pools --- */

static dt_status tight(dt_interval *v, size_t n, uint64_t *peak, dt_err *e)
{
    return dt_pool_find("greedy")->place(v, n, peak, e);
}

/* All of it half as high again. */
static dt_status loose(dt_interval *v, size_t n, uint64_t *peak, dt_err *e)
{
    const dt_status st = tight(v, n, peak, e);
    const uint64_t up = *peak / 2 & ~(uint64_t)0xfff;
    for (size_t i = 0; st == DT_OK && i < n; i++)
        v[i].off += v[i].bytes > 0 ? up : 0;
    *peak += up;
    return st;
}

/* What searches place with is not what the run places with: plans that are too large by the first
 * may fit by the second. */
static void what_the_runs_pool_fits_is_taken(void **state)
{
    (void)state;
    static const dt_pool_desc tried = {.name = "loose", .place = loose};
    static const dt_pool_desc pool = {.name = "tight", .place = tight, .tries = &tried};
    static const char *const policies[] = {"chen_sqrt", "chen_cheap", "vdnn_all"};
    const dt_costs costs = card(1);
    dt_lowered m = dt_program_of(chain(1), DT_PROGRAM_FIRST, SAMPLES);
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        dt_pass_env env = {.costs = &costs, .pool = &pool};
        dti_pass_cost one, all;
        dt_program *p = by(&m, policies[i], &env);
        assert_ok(dti_pass_cost_placed(&env, p, &one, &err), &err);
        dt_program_destroy(p);
        env.budgets.device = one.device;
        p = by(&m, "auto", &env);
        assert_ok(dti_pass_cost_placed(&env, p, &all, &err), &err);
        dt_program_destroy(p);
        if (!(all.device <= one.device && all.seconds <= one.seconds * (1 + 1e-9)))
            fail_msg("auto takes %g s and %zu bytes, %s %g s and %zu", all.seconds,
                (size_t)all.device, policies[i], one.seconds, (size_t)one.device);
    }
    dt_lowered_close(&m);
}

/* --- copies back --- */

/* AlexNet's pictures are most of what it moves. They are fetched again for the first layer's
 * gradient, behind which nothing is left to hide that; what is free by then is enough for them
 * before, so the step takes no longer than with all kept. */
static void what_is_waited_for_is_asked_for_earlier(void **state)
{
    (void)state;
    const dt_costs costs = card(1);
    dt_lowered m = dt_program_of(dt_standard("alexnet"), DT_PROGRAM_FIRST, 64);
    const dti_pass_cost all = under(&m, "keep_all", 0, &costs, &costs);
    const uint64_t budget = all.device - (all.device - m.program->map->bytes) / 4;
    const dti_pass_cost found = under(&m, "auto", budget, &costs, &costs);
    const dti_pass_cost late = under(&m, "gist_lossless", budget, &costs, &costs);
    assert_true(found.device <= budget && found.seconds <= all.seconds * (1 + 1e-9));
    assert_true(late.device <= budget && late.seconds > all.seconds * 1.01);
    dt_lowered_close(&m);
}

/* --- costs that are wrong --- */

/* The same machine, each op off by up to a tenth. */
static dt_costs off_by_a_tenth(const dt_costs *right, const dt_plan *p, uint64_t seed)
{
    dt_costs c = *right;
    dt_dice dice = {seed, 0};
    for (size_t i = 0; i < p->n_op; i++) {
        char signature[DT_SIGNATURE_BYTES];
        dt_cost_entry e = {.signature = signature};
        dt_cost_signature(p, &p->op[i], signature, &e.samples);
        e.floor = dt_costs_floor(right, p, &p->op[i]);
        e.seconds = dti_costs_op(right, p, &p->op[i]).seconds *
                    (0.9 + 0.2 * (double)dt_roll_in(&dice, 0, 1000) / 1000);
        assert_ok(dt_costs_add(&c, &e, &err), &err);
    }
    assert_ok(dt_costs_seal(&c, &err), &err);
    return c;
}

static void costs_off_by_a_tenth_lose_little(void **state)
{
    (void)state;
    const dt_costs real = card(1);
    const dt_pass_env env = {.costs = &real};
    const dt_lower_opts how = dti_pass_lower_opts(&env);
    for (uint64_t seed = 20; seed < 26; seed++) {
        if (!dt_picked(seed, 12, 6, 1))
            continue;
        dt_graph *g = seed % 2 == 0 ? chain(seed) : dt_random_graph(seed);
        dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, SAMPLES);
        dt_program *again = by(&m, "chen_sqrt", &env);
        dt_plan *plan = NULL;
        assert_ok(dt_lower(&plan, again, &how, &err), &err);
        dt_costs thought = off_by_a_tenth(&real, plan, seed);
        const uint64_t all = under(&m, "keep_all", 0, &real, &real).device;
        const uint64_t least = under(&m, "auto", 1, &real, &real).device;
        for (uint64_t k = 0; k < BUDGETS; k++) {
            const uint64_t budget = least + (all - least) * (k + 1) / (BUDGETS + 1);
            const dti_pass_cost right = under(&m, "auto", budget, &real, &real);
            const dti_pass_cost wrong = under(&m, "auto", budget, &thought, &real);
            assert_true(right.device <= budget && wrong.device <= budget);
            if (!(wrong.seconds <= 1.05 * right.seconds))
                fail_msg("network %d: by wrong costs %g s, by right ones %g", (int)seed,
                    wrong.seconds, right.seconds);
        }
        dt_costs_deinit(&thought);
        dt_plan_destroy(plan);
        dt_program_destroy(again);
        dt_lowered_close(&m);
    }
}

DT_TEST_GROUP(auto_optimum)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_best_of_every_way),
        cmocka_unit_test(not_behind_rotor_on_chains),
        cmocka_unit_test(checkmate_by_search_is_not_behind_rotor_on_chains),
        cmocka_unit_test(what_the_runs_pool_fits_is_taken),
        cmocka_unit_test(what_is_waited_for_is_asked_for_earlier),
        cmocka_unit_test(costs_off_by_a_tenth_lose_little),
    };
    kept = dt_kept_create(NULL, NULL);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dt_kept_destroy(kept);
    return failed;
}
