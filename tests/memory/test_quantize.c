/* Groups of values in a few bits: what they become by hand, what they lose, and that what is lost
 * is nothing in the mean (ActNN, section 4.1); each sample by itself. */
#include <math.h>
#include <omp.h>

#include "engine/base/philox.h"
#include "memory/codecs/quantize_bits.h"
#include "tests/fixture/codec_check.h"

enum { WIDTHS = 4 };
static const struct width {
    const char *name;
    uint32_t bits;
} widths[WIDTHS] = {{"int8", 8}, {"int4", 4}, {"int2", 2}, {"int1", 1}};

/* Packs and unpacks values of samples. */
static void there_and_back(
    const dt_codec *c, const float *x, size_t n, const dt_rounding *by, uint8_t *packed, float *y)
{
    dt_err err = {0};
    const size_t bytes = dt_packed_samples(c, n, by->samples, 1);
    assert_in_range(bytes, 1, 16 * n + 64);
    assert_true(dt_pack_samples(c, x, n, by, packed, bytes));
    assert_int_equal(dti_packed_used(packed, bytes), bytes);
    assert_ok(dt_unpack(c, packed, bytes, y, n, &err), &err);
}

/* ---- by hand ---- */

/* 1/3 is 0x3EAAAAAB; upwards in bf16, 0x3EAB, which is 171/512. So 0.5 lies at level 256/171 =
 * 1.497..., and is level 2 by a draw below .497... * 2^24 = 8339551.8, else level 1. */
static void a_level_is_chosen_by_the_draw(void **state)
{
    (void)state;
    const float step = 171.0f / 512.0f;
    const dti_group_scan s = {
        0, 1, dti_quantize_order(codec_bits(0.0f)), dti_quantize_order(codec_bits(1.0f)), false};
    const dti_group_levels l = dti_group_levels_of(&s, 2);
    assert_int_equal(l.head, 0x3EAB0000);
    assert_int_equal(codec_bits(l.step), codec_bits(step));
    assert_int_equal(dti_quantize_code(0.5f, 0, step, 8339550, 2), 2);
    assert_int_equal(dti_quantize_code(0.5f, 0, step, 8339552, 2), 1);
    assert_int_equal(dti_quantize_code(0.5f, 0, step, 0xFFFFFF, 2), 1);
    assert_int_equal(dti_quantize_code(0.0f, 0, step, 0, 2), 0);
    assert_int_equal(dti_quantize_code(1.0f, 0, step, 0, 2), 3);
    assert_int_equal(codec_bits(codec_float(dti_quantize_value(l, 2))), codec_bits(2 * step));
}

/* -1.1 goes down to -1.1015625 (0xBF8D) and 0.9 - -1.1015625 = 2.0015625 up to 2.015625. */
static void the_lowest_level_goes_down_and_the_distance_up(void **state)
{
    (void)state;
    const dti_group_scan s = {
        0, 1, dti_quantize_order(codec_bits(-1.1f)), dti_quantize_order(codec_bits(0.9f)), false};
    const dti_group_levels l = dti_group_levels_of(&s, 1);
    assert_int_equal(l.head, 0x4001BF8D);
    assert_int_equal(codec_bits(l.from), codec_bits(-1.1015625f));
    assert_int_equal(codec_bits(l.step), codec_bits(2.015625f));
}

/* The bytes of five values in 4 bits: 8 that say how many a sample has, a head, a word of codes. */
static void the_bytes_are_these(void **state)
{
    (void)state;
    const float x[5] = {0, 15, 3, 3, 8}; /* whole levels: no draw moves them */
    const uint32_t want[] = {5, 0, 0x3F800000, 0x833F0};
    uint32_t packed[4];
    size_t used;
    assert_true(dti_codec_find("int4")->encode(x, 5, packed, sizeof packed, &used));
    assert_int_equal(used, 16);
    assert_memory_equal(packed, want, sizeof want);
}

static void bytes_are_counted_by_sample(void **state)
{
    (void)state;
    const size_t header = 8 + 8; /* bytes that follow; values of a sample */
    const dt_codec *c = dti_codec_find("int2");
    assert_int_equal(dt_packed_samples(c, 512, 1, 1), header + 2 * 68);
    assert_int_equal(dt_packed_samples(c, 600, 2, 1), header + 2 * (68 + 4 + 4 * 3));
    assert_int_equal(dt_packed_samples(c, 40, 4, 1), header + 4 * 8);
    assert_int_equal(dt_packed_bytes(c, 600, 1), header + 2 * 68 + 4 + 4 * 6);
    assert_true(dt_packed_samples(c, 600, 7, 1) == SIZE_MAX); /* no whole samples */
    assert_true(dt_packed_samples(c, 600, 0, 1) == SIZE_MAX);
    /* of whole groups, as in the paper: 2 bits a value, and 32 shared by 256 */
    const size_t many = 1 << 20;
    for (size_t i = 0; i < WIDTHS; i++)
        assert_int_equal(dt_packed_samples(dti_codec_find(widths[i].name), many, 4, 1),
            header + many / 8 * widths[i].bits + many / 256 * 4);
    const dt_codec *zvc = dti_codec_find("zvc"); /* one that does not draw looks at no samples */
    assert_int_equal(dt_packed_samples(zvc, 600, 7, 0.5), dt_packed_bytes(zvc, 600, 0.5));
}

/* ---- what is kept, and what is lost ---- */

enum { GROUP = 256, MANY = 1000 };

static void fill(float *x, size_t n, uint32_t key, float middle, float spread)
{
    for (size_t i = 0; i < n; i++)
        x[i] = middle + spread * (dt_unit(codec_draw(key, i)) - 0.5f);
}

static void no_value_is_a_step_away(void **state)
{
    (void)state;
    static float x[MANY], y[MANY];
    static uint8_t packed[16 * MANY];
    for (size_t k = 0; k < 12; k++) {
        const float spread = ldexpf(1, (int)(k * 13) % 90 - 45);
        const float middle = k % 3 == 0 ? 0 : spread * (float)k;
        fill(x, MANY, (uint32_t)k, middle, spread);
        for (size_t i = 0; i < WIDTHS; i++) {
            const dt_rounding by = {.samples = 4, .seed = k};
            there_and_back(dti_codec_find(widths[i].name), x, MANY, &by, packed, y);
            /* the range, and what rounding its ends to 8 bits adds */
            const double ends = (double)(fabsf(middle) + spread) / 128;
            const double range = ((double)spread + ends) * (1 + 1.0 / 128);
            const double step = range / (double)((1 << widths[i].bits) - 1);
            for (size_t e = 0; e < MANY; e++)
                if (!(fabs((double)y[e] - (double)x[e]) <= step))
                    fail_msg("%s: %.9g became %.9g, steps are %.9g", widths[i].name, (double)x[e],
                        (double)y[e], step);
        }
    }
}

/* A mean of many is a value but for chance: five of its own deviations, and ten times a step where
 * a value lies so near a level that hardly any draw leaves it. */
static void what_is_read_is_the_value_in_the_mean(void **state)
{
    (void)state;
    enum { N = 300, TIMES = 4000 };
    static float x[N], y[N];
    static uint8_t packed[16 * N];
    fill(x, N, 77, 0.3f, 2.0f);
    for (size_t i = 0; i < WIDTHS; i++) {
        double sum[N] = {0}, squares[N] = {0};
        for (int64_t step = 0; step < TIMES; step++) {
            const dt_rounding by = {.samples = 1, .seed = 5, .step = step, .value = 3};
            there_and_back(dti_codec_find(widths[i].name), x, N, &by, packed, y);
            for (size_t e = 0; e < N; e++) {
                const double off = (double)y[e] - (double)x[e];
                sum[e] += off;
                squares[e] += off * off;
            }
        }
        double all = 0, noise = 0;
        const double rare = 10 * 2.1 / ((1 << widths[i].bits) - 1) / TIMES;
        for (size_t e = 0; e < N; e++) {
            const double mean = sum[e] / TIMES, spread = sqrt(squares[e]) / TIMES;
            if (!(fabs(mean) <= 5 * spread + rare))
                fail_msg("%s: value %zu is off by %.3g in the mean, of %.3g", widths[i].name, e,
                    mean, spread);
            all += mean;
            noise += squares[e];
        }
        if (!(fabs(all) <= 4 * sqrt(noise) / TIMES + 1e-5))
            fail_msg("%s: all are off by %.3g", widths[i].name, all);
        assert_true(noise > 0);
    }
}

static void equal_values_come_back_as_they_are(void **state)
{
    (void)state;
    static uint32_t x[MANY], y[MANY];
    static uint8_t packed[16 * MANY];
    for (size_t k = 0; k < CODEC_EDGES; k++)
        for (size_t i = 0; i < WIDTHS; i++) {
            for (size_t e = 0; e < MANY; e++)
                x[e] = codec_edges[(k + e / GROUP) % CODEC_EDGES];
            const dt_rounding by = {.samples = 1, .seed = k};
            there_and_back(
                dti_codec_find(widths[i].name), (float *)x, MANY, &by, packed, (float *)y);
            assert_memory_equal(x, y, sizeof x);
        }
}

static void what_is_no_number_makes_its_group_so(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {
        0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x7E800000, 0xFE800000};
    static float x[MANY], y[MANY];
    static uint8_t packed[16 * MANY];
    for (size_t k = 0; k < DT_COUNT(wrong); k++)
        for (size_t i = 0; i < WIDTHS; i++) {
            fill(x, MANY, 4, 1, 1);
            x[300 + k] = codec_float(wrong[k]);
            const dt_rounding by = {.samples = 1};
            there_and_back(dti_codec_find(widths[i].name), x, MANY, &by, packed, y);
            for (size_t e = 0; e < MANY; e++)
                assert_int_equal(isnan(y[e]) != 0, e / GROUP == 1);
        }
}

static void what_is_smaller_than_2_to_the_minus_100_is_zero(void **state)
{
    (void)state;
    float x[GROUP] = {0}, y[GROUP];
    uint8_t packed[16 * GROUP];
    x[1] = -0.0f;
    x[2] = 0x1p-101f;
    x[3] = -0x1p-130f;
    const dt_rounding by = {.samples = 1};
    for (size_t i = 0; i < WIDTHS; i++) {
        there_and_back(dti_codec_find(widths[i].name), x, GROUP, &by, packed, y);
        for (size_t e = 0; e < GROUP; e++)
            assert_int_equal(codec_bits(y[e]), 0);
    }
    x[4] = 0x1p-99f; /* which is not: it comes back as itself, or as next to it */
    there_and_back(dti_codec_find("int8"), x, GROUP, &by, packed, y);
    assert_true(y[4] > 0x1p-100f && y[4] < 0x1p-98f);
}

/* ---- samples ---- */

enum { SAMPLES = 6, ROW = 700 };

/* Each way to cut the step's batch in micro-batches gives each sample the same bytes, by any number
 * of threads. */
static void a_sample_is_the_same_beside_any_others(void **state)
{
    (void)state;
    static float x[SAMPLES * ROW], whole[SAMPLES * ROW], part[SAMPLES * ROW];
    static uint8_t packed[16 * SAMPLES * ROW], other[16 * SAMPLES * ROW];
    fill(x, SAMPLES * ROW, 9, 0, 3);
    for (size_t i = 0; i < WIDTHS; i++) {
        const dt_codec *c = dti_codec_find(widths[i].name);
        const size_t each = (dt_packed_samples(c, SAMPLES * ROW, SAMPLES, 1) - 16) / SAMPLES;
        dt_rounding by = {.seed = 7, .step = 11, .value = 2, .samples = SAMPLES, .sample0 = 30};
        omp_set_num_threads(1);
        there_and_back(c, x, SAMPLES * ROW, &by, packed, whole);
        for (int64_t n = 1; n <= 3; n++)
            for (int64_t first = 0; first < SAMPLES; first += n) {
                omp_set_num_threads((int)n);
                by.samples = n;
                by.sample0 = 30 + first;
                there_and_back(c, x + first * ROW, (size_t)n * ROW, &by, other, part);
                assert_memory_equal(part, whole + first * ROW, (size_t)n * ROW * sizeof *part);
                assert_memory_equal(
                    other + 16, packed + 16 + (size_t)first * each, (size_t)n * each);
            }
    }
}

static void every_coordinate_draws_other_numbers(void **state)
{
    (void)state;
    static const dt_rounding by[] = {{.samples = 1}, {.samples = 1, .seed = 1},
        {.samples = 1, .seed = UINT64_C(1) << 40}, {.samples = 1, .step = 1},
        {.samples = 1, .value = 1}, {.samples = 1, .sample0 = 1},
        {.samples = 1, .sample0 = INT64_C(1) << 33}};
    static float x[ROW], y[DT_COUNT(by)][ROW];
    static uint8_t packed[16 * ROW];
    fill(x, ROW, 10, 0, 3);
    for (size_t i = 0; i < DT_COUNT(by); i++) {
        there_and_back(dti_codec_find("int2"), x, ROW, &by[i], packed, y[i]);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(y[i], y[k], sizeof y[i]);
    }
    float again[ROW];
    there_and_back(dti_codec_find("int2"), x, ROW, &by[3], packed, again);
    assert_memory_equal(again, y[3], sizeof again);
}

/* Two samples of the same values draw apart from each other, and so do values of one sample. */
static void no_two_values_share_a_draw(void **state)
{
    (void)state;
    enum { N = 2048 };
    static float x[2 * N], y[2 * N];
    static uint8_t packed[32 * N];
    for (size_t e = 0; e < 2 * N; e++)
        x[e] = e % GROUP == 0 ? 0 : e % GROUP == 1 ? 1.0f : 0.5f;
    const dt_rounding by = {.samples = 2};
    there_and_back(dti_codec_find("int1"), x, 2 * N, &by, packed, y);
    for (size_t apart = 1; apart <= N; apart += apart < GROUP ? 1 : GROUP) {
        size_t same = 0, of = 0;
        for (size_t e = 0; e + apart < 2 * N; e++)
            if (x[e] == 0.5f && x[e + apart] == 0.5f) {
                same += codec_bits(y[e]) == codec_bits(y[e + apart]);
                of++;
            }
        /* a coin's, within five deviations */
        if (!(fabs((double)same - (double)of / 2) <= 2.5 * sqrt((double)of)))
            fail_msg("%zu apart, %zu of %zu are rounded alike", apart, same, of);
    }
}

DT_TEST_GROUP(quantize)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_is_chosen_by_the_draw),
        cmocka_unit_test(the_lowest_level_goes_down_and_the_distance_up),
        cmocka_unit_test(the_bytes_are_these),
        cmocka_unit_test(bytes_are_counted_by_sample),
        cmocka_unit_test(no_value_is_a_step_away),
        cmocka_unit_test(what_is_read_is_the_value_in_the_mean),
        cmocka_unit_test(equal_values_come_back_as_they_are),
        cmocka_unit_test(what_is_no_number_makes_its_group_so),
        cmocka_unit_test(what_is_smaller_than_2_to_the_minus_100_is_zero),
        cmocka_unit_test(a_sample_is_the_same_beside_any_others),
        cmocka_unit_test(every_coordinate_draws_other_numbers),
        cmocka_unit_test(no_two_values_share_a_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
