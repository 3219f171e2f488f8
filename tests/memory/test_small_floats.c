/* Floats of 8 and 16 bits: what each code means, and how values are rounded. */
#include <math.h>

#include "engine/base/philox.h"
#include "tests/fixture/codec_check.h"

/* What code stands for, by the definition of such a number. */
static uint32_t meaning(uint32_t code, const codec_float_format *f)
{
    const uint32_t m = code & ((1u << f->mantissa) - 1);
    const uint32_t e = code >> f->mantissa & ((1u << f->exponent) - 1);
    const uint32_t sign = (code >> (f->exponent + f->mantissa)) << 31;
    const int bias = (1 << (f->exponent - 1)) - 1;
    if (e == 0)
        return sign;
    if (e == (1u << f->exponent) - 1)
        return sign | 0x7F800000u | m << (23 - f->mantissa);
    return sign | codec_bits((float)ldexp(1.0 + (double)m / (1 << f->mantissa), (int)e - bias));
}

static void codes_of(const dt_codec *c, const codec_float_format *f)
{
    const uint32_t bits = 1 + (uint32_t)f->exponent + (uint32_t)f->mantissa;
    enum { MOST = 1 << 16 };
    static uint32_t packed[MOST / 2], again[MOST / 2], back[MOST], twice[MOST];
    const size_t n = (size_t)1 << bits, per = (size_t)f->per_word, n_word = (n + per - 1) / per;
    dt_err err = {0};
    size_t used;
    memset(packed, 0, sizeof packed);
    for (uint32_t code = 0; code < n; code++)
        packed[code / per] |= code << (code % per * bits);
    assert_ok(c->decode(packed, 4 * n_word, back, n, &err), &err);
    for (uint32_t code = 0; code < n; code++)
        if (back[code] != meaning(code, f))
            fail_msg("%s: code %x is %08x", c->name, code, back[code]);
    assert_true(c->encode(back, n, again, 4 * n_word, &used));
    for (uint32_t code = 0; code < n; code++) {
        const uint32_t got = again[code / per] >> (code % per * bits) & (uint32_t)(n - 1);
        const bool nan = isnan(codec_float(back[code]));
        const bool denormal = codec_float(back[code]) == 0.0f;
        const uint32_t sign = code & (uint32_t)(n / 2);
        const uint32_t quiet = (uint32_t)(n / 2) - (1u << (f->mantissa - 1));
        if (got != (nan ? sign | quiet : denormal ? sign : code))
            fail_msg("%s: code %x became %x", c->name, code, got);
    }
    assert_ok(
        c->decode(again, 4 * n_word, twice, n, &err), &err); /* idempotent, but for payloads */
    for (uint32_t code = 0; code < n; code++)
        assert_true(twice[code] == back[code] || isnan(codec_float(back[code])));
}

/* Notes on Gist, fidelity test 3: all 2^8, 2^10 and 2^16 codes. */
static void every_code_of_a_small_float_means_what_it_should(void **state)
{
    (void)state;
    for (size_t i = 0; i < DTI_SMALLS; i++)
        codes_of(dti_codec_find(codec_formats[i].name), &codec_formats[i]);
}

/* The same test: error at most half a step inside the normal range, 2^-11, 2^-5 and 2^-4. */
static void small_floats_round_within_half_a_step(void **state)
{
    (void)state;
    enum { COUNT = 1 << 14 };
    static uint32_t x[COUNT], packed[COUNT], back[COUNT];
    static const double bound[DTI_SMALLS] = {0x1p-11, 0x1p-5, 0x1p-4};
    for (size_t k = 0; k < DTI_SMALLS; k++) {
        const dt_codec *c = dti_codec_find(codec_formats[k].name);
        double worst = 0;
        size_t used;
        for (size_t i = 0; i < COUNT; i++)
            x[i] = codec_bits(
                (float)ldexp(1.0 + (double)dt_unit(codec_draw(7, i)), (int)(i % 13) - 6));
        assert_true(c->encode(x, COUNT, packed, sizeof packed, &used));
        assert_int_equal(c->decode(packed, used, back, COUNT, NULL), DT_OK);
        for (size_t i = 0; i < COUNT; i++) {
            const double want = (double)codec_float(x[i]), got = (double)codec_float(back[i]);
            worst = fmax(worst, fabs(got - want) / want);
            assert_true(got > 0.0);
        }
        assert_true(worst <= bound[k]);
        assert_true(worst > 0.9 * bound[k] / (1 + bound[k]));
    }
}

static void golden_small_floats(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float x, y;
    } golden[] = {
        {"fp16", 1.0f, 1.0f},
        {"fp16", 65504.0f, 65504.0f},
        {"fp16", 1e30f, 65504.0f},
        {"fp16", -65520.0f, -65504.0f},
        {"fp16", 0x1p-14f, 0x1p-14f},
        {"fp16", 0x1p-15f, 0.0f},
        {"fp16", 1.0f + 0x1p-11f, 1.0f},
        {"fp16", 1.0f + 3 * 0x1p-11f, 1.0f + 0x1p-9f},
        {"fp16", 0x1.ffffp-15f, 0x1p-14f},
        {"fp10", 1.0f + 0x1p-5f, 1.0f},
        {"fp10", 1.0f + 3 * 0x1p-5f, 1.125f},
        {"fp10", 65504.0f, 63488.0f},
        {"fp10", 0x1.ep-15f, 0.0f},
        {"fp8", 0.3f, 0.3125f},
        {"fp8", 240.0f, 240.0f},
        {"fp8", 241.0f, 240.0f},
        {"fp8", -1e9f, -240.0f},
        {"fp8", 0x1p-6f, 0x1p-6f},
        {"fp8", 0x1p-7f, 0.0f},
        {"fp8", 1.0625f, 1.0f},
        {"fp8", 1.1875f, 1.25f},
    };
    for (size_t i = 0; i < DT_COUNT(golden); i++) {
        const dt_codec *c = dti_codec_find(golden[i].name);
        const uint32_t want = codec_bits(golden[i].y), x = codec_bits(golden[i].x);
        uint32_t packed, back;
        size_t used;
        assert_true(c->encode(&x, 1, &packed, 4, &used));
        assert_int_equal(used, 4);
        assert_int_equal(c->decode(&packed, 4, &back, 1, NULL), DT_OK);
        if (back != want)
            fail_msg("%s: line %zu gives %08x, not %08x", c->name, i, back, want);
    }
}

static void small_floats_lie_from_the_lowest_bit(void **state)
{
    (void)state;
    const float x[4] = {1.0f, -2.0f, 0.5f, 1.5f};
    static const struct {
        const char *name;
        uint32_t word[2];
        size_t bytes;
    } golden[] = {{"fp16", {0xC0003C00u, 0x3E003800u}, 8},
        {"fp10", {0x0F0u | 0x300u << 10 | 0x0E0u << 20, 0x0F8u}, 8}, {"fp8", {0x3C30C038u, 0}, 4}};
    for (size_t i = 0; i < DT_COUNT(golden); i++) {
        uint32_t got[2] = {0, 0};
        size_t used;
        assert_true(dti_codec_find(golden[i].name)->encode(x, 4, got, sizeof got, &used));
        assert_int_equal(used, golden[i].bytes);
        assert_memory_equal(got, golden[i].word, used);
    }
}

DT_TEST_GROUP(small_floats)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_a_small_float_means_what_it_should),
        cmocka_unit_test(small_floats_round_within_half_a_step),
        cmocka_unit_test(golden_small_floats),
        cmocka_unit_test(small_floats_lie_from_the_lowest_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
