/* What a search remembers: values by key within a bound of bytes, placements that are the pool's
 * own, and costs of plans that are those of the plans. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "memory/program_key.h"
#include "memory/time/card_costs.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"

static dt_err err;

static void key_of(uint64_t value, char key[DT_SHA256_TEXT])
{
    dt_sha256 sum;
    dt_sha256_init(&sum);
    dt_sha256_add(&sum, &value, sizeof value);
    dt_sha256_text(&sum, key);
}

/* More keys than places, so that some are gone; what is found is what was put last. */
static void found_is_what_was_put(void **state)
{
    (void)state;
    enum { KEYS = 20000 };
    dt_memo *m = dt_memo_create();
    uint64_t drawn = 7, found = 0;
    uint64_t *last = dt_alloc(KEYS, sizeof *last);
    assert_true(m != NULL && last != NULL);
    for (uint64_t i = 1; i <= 4 * KEYS; i++) {
        char key[DT_SHA256_TEXT];
        const uint64_t k = dt_mix_next(&drawn) % KEYS;
        key_of(k, key);
        const uint64_t *is = dti_memo_find(m, key, sizeof *is);
        if (is != NULL)
            assert_int_equal(*is, last[k]);
        found += is != NULL;
        assert_null(dti_memo_find(m, key, sizeof *is + 1));
        last[k] = i;
        dti_memo_put(m, key, &i, sizeof i);
        is = dti_memo_find(m, key, sizeof *is);
        assert_true(is != NULL && *is == i);
        found++;
    }
    assert_true(found > 5 * KEYS && found < 8 * KEYS);
    assert_int_equal(dti_memo_hits(m), found);
    dt_free(last);
    dt_memo_destroy(m);
}

/* What does not fit beside the others is not kept, and others are. */
static void bytes_are_bounded(void **state)
{
    (void)state;
    enum { EACH = DTI_MEMO_BYTES / 4 };
    dt_memo *m = dt_memo_create();
    char *large = dt_alloc(DTI_MEMO_BYTES + 1, 1);
    char key[DT_SHA256_TEXT];
    size_t kept = 0;
    assert_true(m != NULL && large != NULL);
    key_of(0, key);
    dti_memo_put(m, key, large, (size_t)DTI_MEMO_BYTES + 1);
    assert_null(dti_memo_find(m, key, (size_t)DTI_MEMO_BYTES + 1));
    for (uint64_t i = 1; i <= 6; i++) {
        key_of(i, key);
        dti_memo_put(m, key, large, EACH);
        kept += dti_memo_find(m, key, EACH) != NULL;
    }
    assert_int_equal(kept, 4);
    key_of(1, key);
    dti_memo_put(m, key, large, 1); /* in the place of one of them */
    assert_non_null(dti_memo_find(m, key, 1));
    dt_free(large);
    dt_memo_destroy(m);
}

static void draw_intervals(dt_interval *v, size_t n, uint64_t *drawn)
{
    for (size_t i = 0; i < n; i++) {
        const int64_t lower = (int64_t)(dt_mix_next(drawn) % 6);
        v[i] = (dt_interval){.lower = lower,
            .upper = lower + 1 + (int64_t)(dt_mix_next(drawn) % 3),
            .bytes = dt_mix_next(drawn) % 3,
            .align = (uint64_t)1 << dt_mix_next(drawn) % 2};
    }
}

static void placements_are_the_pools(void **state)
{
    (void)state;
    enum { N = 3 };
    const char *const pools[] = {"greedy", "best_fit"};
    dt_memo *m = dt_memo_create();
    uint64_t drawn = 3;
    for (int i = 0; i < 20000; i++) {
        dt_interval v[N], w[N];
        uint64_t known, fresh;
        const dt_pool_desc *pool = dt_pool_find(pools[i % 2]);
        const size_t n = (size_t)(dt_mix_next(&drawn) % (N + 1));
        draw_intervals(v, n, &drawn);
        memcpy(w, v, sizeof w);
        assert_ok(dti_pool_memo_place(m, pool, v, n, &known, &err), &err);
        assert_ok(pool->place(w, n, &fresh, &err), &err);
        assert_int_equal(known, fresh);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(v[k].off, w[k].off);
    }
    assert_true(dti_memo_hits(m) > 1000);
    dt_memo_destroy(m);
}

static void failures_are_not_kept(void **state)
{
    (void)state;
    dt_memo *m = dt_memo_create();
    dt_interval empty = {.lower = 1, .upper = 1, .bytes = 1, .align = 1};
    uint64_t peak;
    for (int i = 0; i < 2; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(
            dti_pool_memo_place(m, dt_pool_find("greedy"), &empty, 1, &peak, &err), DT_E_INTERNAL);
    }
    assert_int_equal(dti_memo_hits(m), 0);
    dt_memo_destroy(m);
}

/* Of all policies on one network, each twice: the second time every cost is known. */
static void costs_are_those_of_the_plans(void **state)
{
    (void)state;
    dt_costs costs;
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    dt_costs_of_card(&costs, dt_card_speed_find("p100"));
    const dt_lower_opts quick = {.pool = dt_pool_find("best_fit"), .policy = ""};
    dt_lower_opts remembers = quick;
    remembers.memo = dt_memo_create();
    const dt_pass_env plain = {.costs = &costs, .lower = &quick};
    const dt_pass_env with = {.costs = &costs, .lower = &remembers};
    dt_lowered m = dt_program_of(dt_standard("resnet20"), DT_PROGRAM_FIRST, 8);
    for (size_t i = 0; i < 2 * n; i++) {
        const dt_policy *policy = all[i % n];
        dt_program *p = NULL;
        dti_pass_cost is, known;
        if (policy->searches || policy->rung != NULL)
            continue;
        assert_ok(dt_program_copy(&p, m.program, &err), &err);
        dt_rewrite_with(p, policy->name, NULL, &plain);
        const size_t before = dti_memo_hits(remembers.memo);
        assert_ok(dti_pass_cost_of(&plain, p, &is, &err), &err);
        assert_ok(dti_pass_cost_of(&with, p, &known, &err), &err);
        if (is.device != known.device || is.tier[DT_TIER_HOST] != known.tier[DT_TIER_HOST] ||
            is.tier[DT_TIER_DISK] != known.tier[DT_TIER_DISK] || is.bound != known.bound ||
            !(is.seconds >= known.seconds) || !(is.seconds <= known.seconds))
            fail_msg("%s: %g s known as %g s", policy->name, is.seconds, known.seconds);
        assert_true(i < n || dti_memo_hits(remembers.memo) > before);
        dt_program_destroy(p);
    }
    dt_lowered_close(&m);
    dt_memo_destroy(remembers.memo);
}

DT_TEST_GROUP(memo)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_is_what_was_put),
        cmocka_unit_test(bytes_are_bounded),
        cmocka_unit_test(placements_are_the_pools),
        cmocka_unit_test(failures_are_not_kept),
        cmocka_unit_test(costs_are_those_of_the_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
