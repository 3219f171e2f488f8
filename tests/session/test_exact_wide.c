/* Every exact policy, and the combinations of tests/fixture/exactness.c, on transformers, on
 * networks that branch and join, and on one that labels pixels: each leaves the bits that keep_all
 * leaves, and every plan takes the bytes it says. Tier, copy threads, delays, micro-batches and
 * fusion go round on the way; test_exact.c pairs those. */
#include <string.h>

#include "tests/fixture/check.h"
#include "tests/fixture/exactness.h"

/* The other factors, from a number that grows. */
static dt_way way_of(int network, int policy, int precision, int turn)
{
    return (dt_way){.level = {[DT_BY_NETWORK] = dt_levels(DT_BY_NETWORK) + network,
                        [DT_BY_POLICY] = policy,
                        [DT_BY_TIER] = turn % 2,
                        [DT_BY_COPY] = turn / 2 % 2,
                        [DT_BY_DELAY] = turn / 4 % 2,
                        [DT_BY_MICRO] = turn / 8 % 2,
                        [DT_BY_FUSE] = turn / 16 % 2,
                        [DT_BY_PRECISION] = precision},
        .seed = (uint64_t)turn};
}

static void every_policy_is_exact_on(void **state)
{
    const int network = *(const int *)*state % dt_wide_networks();
    const int precision = *(const int *)*state / dt_wide_networks();
    if (precision >= dt_levels(DT_BY_PRECISION))
        skip();
    uint64_t moved = 0, least = UINT64_MAX, kept = 0;
    const char *name = dt_level_name(DT_BY_NETWORK, dt_levels(DT_BY_NETWORK) + network);
    const int all = dt_levels(DT_BY_POLICY);
    /* another part of the policies on each network; one of those that take seconds each */
    const int part = strcmp(name, "inception_v4") == 0 ? all : 26;
    const int step = dt_scaled(part, part, 1);
    for (int p = (int)(((uint64_t)network + dt_test_seed()) % (uint64_t)step); p < all; p += step) {
        const dt_way w = way_of(network, p, precision, p * 7 + network);
        const dt_exactness x = dt_assert_exact(&w);
        moved += x.moved;
        least = x.peak < least ? x.peak : least;
        kept = x.kept_peak;
    }
    print_message("%s: the least peak is %.1f %% of keep_all's\n", name,
        100.0 * (double)least / (double)kept);
    assert_true(least < UINT64_MAX && kept > 0);
    assert_true(step > 1 || (moved > 0 && least < kept)); /* a part may move and save nothing */
}

static int end(void **state)
{
    (void)state;
    dt_exactness_end();
    return 0;
}

DT_TEST_GROUP(exact_wide)
{
    enum { MOST = 64 };
    static int number[MOST];
    static struct CMUnitTest tests[MOST];
    static char name[MOST][64];
    static const char *const narrow[] = {
        "gpt2, efficient", "googlenet", "unet", "lstm_attention, efficient", "turned"};
    const int wide = dt_wide_networks();
    size_t n = 0;
    for (int k = 0; k < 2 * wide && n < MOST; k++) {
        const char *network = dt_level_name(DT_BY_NETWORK, dt_levels(DT_BY_NETWORK) + k % wide);
        bool run = k < wide;
        for (size_t i = 0; i < DT_COUNT(narrow) && !run; i++)
            run = strcmp(narrow[i], network) == 0;
        if (!run || !dt_picked((uint64_t)k, 2, 2, 1))
            continue; /* one network in two with each commit */
        snprintf(name[n], sizeof name[n], "every_policy_is_exact_on: %s, %s", network,
            k < wide ? "fp32" : "bf16");
        number[n] = k;
        tests[n] = (struct CMUnitTest){name[n], every_policy_is_exact_on, NULL, NULL, &number[n]};
        n++;
    }
    return dt_run_tests("exact_wide", tests, n, NULL, end);
}
