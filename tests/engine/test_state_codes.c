/* Optimizer state in 8 bits: what the codes stand for, as the paper's reference draws it up, and
 * what is promised of packing. */
#include "tests/fixture/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/philox.h"
#include "engine/state_codes.h"

static const dt_state_map *map_of(bool sign)
{
    static dt_state_map map[2];
    dt_state_map_fill(&map[sign], sign, 0, 1);
    return &map[sign];
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As create_dynamic_map of the paper's bitsandbytes: of each decade means of neighbours on a line
 * from 0.1 to 1; then 0 and 1; all in order. */
static void reference(bool sign, double share[256])
{
    int n = 0;
    for (int i = 0; i < 7; i++) {
        const int items = (sign ? 1 << i : 1 << (i + 1)) + 1;
        for (int k = 0; k + 1 < items; k++) {
            const double a = 0.1 + 0.9 * k / (items - 1), b = 0.1 + 0.9 * (k + 1) / (items - 1);
            share[n++] = pow(10, i - 6) * (a + b) / 2;
            if (sign)
                share[n++] = -pow(10, i - 6) * (a + b) / 2;
        }
    }
    share[n++] = 0;
    share[n++] = 1;
    assert_int_equal(n, 256);
    qsort(share, 256, sizeof *share, ascending);
}

static void shares_are_the_papers(void **state)
{
    (void)state;
    for (int sign = 0; sign < 2; sign++) {
        double want[256];
        reference(sign, want);
        for (int i = 0; i < 256; i++) {
            const int code = sign ? (i + 256 - 127) % 256 : i; /* from the least share on */
            const float got = map_of(sign)->share[code];
            if (!(fabs((double)got - want[i]) <= 1e-7 * fabs(want[i])))
                fail_msg("share %d is %g, not %g", i, (double)got, want[i]);
        }
    }
    assert_true(map_of(true)->share[1] == 0.55e-6f && map_of(true)->share[127] == 0.99296875f);
    assert_true(map_of(true)->share[255] == -0.55e-6f && map_of(true)->share[128] == 1);
    assert_true(map_of(false)->share[1] == 0.325e-6f && map_of(false)->share[254] == 0.996484375f);
}

/* A device may round a product of doubles otherwise: no number of the tables may turn on that. */
static void tables_do_not_turn_on_a_double_s_last_bits(void **state)
{
    (void)state;
    for (int sign = 0; sign < 2; sign++)
        for (int code = 0; code < 256; code++) {
            const double exact = dti_state_share(code, sign);
            const float f = (float)exact;
            const double to = ((double)f + (double)nextafterf(f, exact > (double)f ? 2 : -2)) / 2;
            assert_true(exact == (double)f || fabs(exact - to) > 1e-13 * fabs(exact));
        }
}

static double off(const dt_state_map *m, int code, float x)
{
    return fabs((double)m->share[code] - (double)x);
}

/* Of 256, by looking at all. */
static void a_value_gets_the_nearest_share(void **state)
{
    (void)state;
    for (int sign = 0; sign < 2; sign++) {
        const dt_state_map *m = map_of(sign);
        for (uint32_t i = 0; i < 20000; i++) {
            const dt_u32x4 u = dt_random(dt_test_seed(), DT_RANDOM_TEST, (uint32_t)sign, 0, i);
            const float size = powf(10, -8 * dt_unit(u.v[0])),
                        r = i % 2 == 0 ? size : dt_unit(u.v[1]);
            const float x = sign && u.v[2] % 2 == 0 ? -r : r;
            const int code = dt_state_code(m, x);
            double least = 2;
            for (int c = 0; c < 256; c++)
                least = fmin(least, off(m, c, x));
            if (!sign && code == 1 && (double)x < 0.1625e-6)
                continue; /* what is not 0 does not become it */
            if (!(off(m, code, x) <= least + 1e-6 * (double)r))
                fail_msg("%g becomes %g", (double)x, (double)m->share[code]);
        }
    }
}

/* @kind: of what sizes they are. */
static void draw(float *v, int64_t n, bool sign, int kind, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        const dt_u32x4 u = dt_random(dt_test_seed(), DT_RANDOM_TEST, seed, 1, (uint64_t)i);
        const float half = dt_unit(u.v[0]) - 0.5f;
        const float size = powf(10, (kind == 1 ? -30 : -9) * dt_unit(u.v[1]));
        v[i] = kind == 0 ? half : half * size;
        v[i] *= kind == 2 ? 1e-20f : kind == 3 ? 1e30f : kind == 5 ? 1e-30f : 1;
        v[i] = sign ? v[i] : fabsf(v[i]);
        if (kind == 4)
            v[i] = u.v[2] % 3 == 0 ? 0.0f : u.v[2] % 2 == 0 && sign ? -0.25f : 0.25f;
    }
}

/* So a checkpoint may hold fp32, and a run goes on from it with the codes that it had. */
static void what_was_packed_packs_to_the_same_codes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 63, 2047, DT_STATE_BLOCK};
    for (uint32_t i = 0; i < 200; i++) {
        static float v[DT_STATE_BLOCK], back[DT_STATE_BLOCK];
        static uint8_t code[DT_STATE_BLOCK], again[DT_STATE_BLOCK];
        const bool sign = i % 2 == 0;
        const int64_t n = sizes[i % DT_COUNT(sizes)];
        draw(v, n, sign, (int)(i / 2 % 6), i);
        const float scale = dt_state_pack(map_of(sign), v, code, n);
        dt_state_unpack(map_of(sign), code, scale, back, n);
        float most = 0;
        for (int64_t k = 0; k < n; k++)
            most = fabsf(v[k]) > fabsf(most) ? v[k] : most;
        assert_true(fabsf(scale) == fabsf(most) || fabsf(most) < DT_STATE_SCALE);
        for (int64_t k = 0; k < n; k++)
            if (fabsf(v[k]) == fabsf(scale) && v[k] == scale)
                assert_true(back[k] == v[k]); /* the greatest loses nothing, whatever its sign */
        assert_true(dt_state_pack(map_of(sign), back, again, n) == scale);
        assert_memory_equal(code, again, (size_t)n);
    }
}

/* Else a weight of which nothing but an old mean gradient is known moved by that over eps. */
static void a_mean_square_never_becomes_0(void **state)
{
    (void)state;
    float v[3] = {1, 1e-12f, 0}, back[3];
    uint8_t code[3];
    const float scale = dt_state_pack(map_of(false), v, code, 3);
    dt_state_unpack(map_of(false), code, scale, back, 3);
    assert_true(back[0] == 1 && back[1] > 0 && back[2] == 0);
    v[1] = 1e-12f;
    (void)dt_state_pack(map_of(true), v, code, 3); /* a mean gradient may */
    assert_int_equal(code[1], 0);
    v[0] = 1e-30f;
    v[1] = 1e-38f; /* a block of nothing but such */
    assert_true(dt_state_pack(map_of(false), v, code, 3) == DT_STATE_SCALE);
    dt_state_unpack(map_of(false), code, DT_STATE_SCALE, back, 3);
    assert_true(fabsf(back[0] - v[0]) < 0.01f * v[0] && back[1] > 0 && back[2] == 0);
    v[0] = v[1] = 0;
    assert_true(dt_state_pack(map_of(false), v, code, 3) == 0);
}

static void what_is_no_number_packs_to_0(void **state)
{
    (void)state;
    float v[3] = {NAN, 1, INFINITY};
    uint8_t code[3];
    assert_true(isinf(dt_state_pack(map_of(true), v, code, 3)));
    v[2] = -2;
    assert_true(dt_state_pack(map_of(true), v, code, 3) == -2);
    assert_int_equal(code[0], 0);
    assert_int_equal(code[2], 128);
    v[0] = v[1] = v[2] = 1e-38f; /* a scale of which shares would lose their digits */
    assert_true(dt_state_pack(map_of(true), v, code, 3) == 0);
    assert_true(code[0] == 0 && code[1] == 0 && code[2] == 0);
}

DT_TEST_GROUP(state_codes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_the_papers),
        cmocka_unit_test(tables_do_not_turn_on_a_double_s_last_bits),
        cmocka_unit_test(a_value_gets_the_nearest_share),
        cmocka_unit_test(what_was_packed_packs_to_the_same_codes),
        cmocka_unit_test(a_mean_square_never_becomes_0),
        cmocka_unit_test(what_is_no_number_packs_to_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
