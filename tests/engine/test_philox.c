/* The generator against the vectors published with Random123 (Salmon et al., SC 2011), and the
 * rules the engine relies on: no use shares numbers with another, and unit values stay below 1. */
#include "tests/fixture/check.h"

#include <string.h>

#include "engine/base/draw.h"

static const struct vector {
    uint32_t ctr[4], key[2], out[4];
} vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void published_vectors_are_met(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(vectors); i++) {
        dt_u32x4 ctr;
        memcpy(ctr.v, vectors[i].ctr, sizeof ctr.v);
        const dt_u32x4 got = dt_philox(ctr, vectors[i].key[0], vectors[i].key[1]);
        assert_memory_equal(got.v, vectors[i].out, sizeof got.v);
    }
}

static void every_coordinate_changes_the_numbers(void **state)
{
    (void)state;
    const dt_u32x4 draws[] = {
        dt_random(7, DT_RANDOM_INIT, 0, 0, 0),
        dt_random(8, DT_RANDOM_INIT, 0, 0, 0),
        dt_random(7 + (UINT64_C(1) << 32), DT_RANDOM_INIT, 0, 0, 0),
        dt_random(7, DT_RANDOM_DROPOUT, 0, 0, 0),
        dt_random(7, DT_RANDOM_INIT, 1, 0, 0),
        dt_random(7, DT_RANDOM_INIT, 0, 1, 0),
        dt_random(7, DT_RANDOM_INIT, 0, UINT64_C(1) << 32, 0),
        dt_random(7, DT_RANDOM_INIT, 0, (UINT64_C(1) << 32) + 1, 0),
        dt_random(7, DT_RANDOM_INIT, 0, 0, 1),
        dt_random(7, DT_RANDOM_INIT, 0, 0, UINT64_C(1) << 32),
    };
    for (size_t i = 0; i < DT_COUNT(draws); i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(draws[i].v, draws[k].v, sizeof draws[i].v);
}

static void unit_values_lie_in_0_to_below_1(void **state)
{
    (void)state;
    assert_true(dt_unit(0) >= 0.0f && dt_unit(0) <= 0.0f);
    assert_true(dt_unit(UINT32_MAX) < 1.0f);
    assert_true(dt_unit(UINT32_MAX) > 0.9999999f);
}

static void unit_values_are_even(void **state)
{
    (void)state;
    enum { DRAWS = 40000, BINS = 16 };
    int bin[BINS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++)
        bin[(int)(dt_unit(dt_random(1, DT_RANDOM_TEST, 0, 0, i).v[i % 4]) * (float)BINS)]++;
    double chi = 0;
    for (int b = 0; b < BINS; b++) {
        const double d = bin[b] - (double)DRAWS / BINS;
        chi += d * d / ((double)DRAWS / BINS);
    }
    assert_true(chi < 37.7); /* 15 degrees of freedom: one seed in a thousand is above */
}

static void draws_of_many_are_those_of_one(void **state)
{
    (void)state;
    enum { N = 5 * DT_DRAW_LANES };
    const uint64_t seed = UINT64_C(0x123456789ABCDEF), first = UINT64_C(0xFFFFFFFF) - 11;
    uint32_t u[4 * N];
    static const uint64_t steps[] = {0xFFFFFFFE, UINT64_C(0x2FFFFFFFE)};
    for (size_t k = 0; k < DT_COUNT(steps); k++) {
        dt_draw_best()(seed, DT_RANDOM_DROPOUT, 77, steps[k], first, u, N);
        for (uint64_t i = 0; i < N; i++) {
            const dt_u32x4 want = dt_random(seed, DT_RANDOM_DROPOUT, 77, steps[k], first + i);
            assert_memory_equal(u + 4 * i, want.v, sizeof want.v);
        }
    }
}

DT_TEST_GROUP(philox)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_are_met),
        cmocka_unit_test(every_coordinate_changes_the_numbers),
        cmocka_unit_test(unit_values_lie_in_0_to_below_1),
        cmocka_unit_test(unit_values_are_even),
        cmocka_unit_test(draws_of_many_are_those_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
