#include "tests/codec_check.h"

#include <math.h>

#include "engine/base/philox.h"

enum { SEED = 20 };

/* Zeros, denormals, the borders of the normal numbers and of each small format, infinities, quiet
 * and signalling NaN with payloads. */
const uint32_t codec_edges[CODEC_EDGES] = {0x00000000, 0x80000000, 0x00000001, 0x80000001,
    0x007FFFFF, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
    0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF812345, 0x7FFFFFFF, 0x38800000, 0x387FE000,
    0x387FF000, 0x387FFFFF, 0x38000000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x47780000, 0x477C0000,
    0x43700000, 0x43780000, 0x437FFFFF, 0x3C800000, 0x3C7FFFFF, 0x3C000000, 0x3F801000, 0x3F803000,
    0x3F840000, 0x3F8C0000, 0x3F880000, 0x3F980000};

uint32_t codec_draw(uint32_t a, uint64_t i)
{
    return dt_random(SEED, DT_RANDOM_TEST, a, 0, i).v[0];
}

void codec_fill(uint32_t *x, size_t count, double density, uint32_t key)
{
    for (size_t i = 0; i < count; i++) {
        const dt_u32x4 r = dt_random(SEED, DT_RANDOM_TEST, key, 1, i);
        const bool edge = r.v[1] % 8 == 0;
        x[i] = (double)dt_unit(r.v[0]) >= density ? 0
               : edge                             ? codec_edges[r.v[2] % CODEC_EDGES]
                                                  : r.v[3];
    }
}

const codec_float_format codec_formats[DT_SMALLS] = {
    {"fp16", 5, 10, 2, 65504.0, 0x1p-14},
    {"fp10", 5, 4, 3, 63488.0, 0x1p-14},
    {"fp8", 4, 3, 4, 240.0, 0x1p-6},
};

float codec_float(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

uint32_t codec_bits(float f)
{
    uint32_t w;
    memcpy(&w, &f, 4);
    return w;
}

/* The float that w comes back as: rounded by the C library in double, where nothing is lost. */
static uint32_t rounded(uint32_t w, const codec_float_format *f)
{
    const double x = (double)codec_float(w), sign = w >> 31 != 0 ? -1.0 : 1.0;
    if (isnan(x))
        return (w & 0x80000000u) | 0x7FC00000u;
    if (isinf(x))
        return w;
    if (x == 0.0)
        return w & 0x80000000u;
    int e;
    (void)frexp(x, &e);
    const double step = ldexp(1.0, e - 1 - f->mantissa);
    double y = nearbyint(fabs(x) / step) * step;
    y = y < f->smallest ? 0.0 : y > f->largest ? f->largest : y;
    return codec_bits((float)(sign * y));
}

const codec_float_format *codec_format(const dt_codec *c)
{
    for (size_t i = 0; i < DT_SMALLS; i++) {
        const size_t n = strlen(c->name), m = strlen(codec_formats[i].name);
        if (n >= m && strcmp(c->name + n - m, codec_formats[i].name) == 0)
            return &codec_formats[i];
    }
    return NULL;
}

uint8_t *codec_guarded(size_t bytes)
{
    uint8_t *p = dt_alloc(bytes + 2 * CODEC_GUARD, 1);
    assert_non_null(p);
    memset(p, 0xA5, bytes + 2 * CODEC_GUARD);
    return p;
}

void codec_assert_guards(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < CODEC_GUARD; i++)
        if (p[i] != 0xA5 || p[CODEC_GUARD + bytes + i] != 0xA5)
            fail_msg("a byte was written outside %zu", bytes);
}

uint32_t *codec_words(const uint32_t *x, size_t n)
{
    uint32_t *p = dt_alloc(n, 4);
    assert_non_null(p);
    if (n > 0)
        memcpy(p, x, 4 * n);
    return p;
}

void codec_round_trip(const dt_codec *c, const uint32_t *from, size_t n, double density)
{
    dt_err err = {0};
    uint32_t *x = codec_words(from, n);
    const size_t capacity = c->capacity(n, density);
    uint8_t *packed = codec_guarded(capacity), *back = codec_guarded(4 * n);
    size_t used = SIZE_MAX;
    assert_true(c->encode(x, n, packed + CODEC_GUARD, capacity, &used));
    assert_in_range(used, 0, capacity);
    codec_assert_guards(packed, capacity);
    assert_ok(c->decode(packed + CODEC_GUARD, used, back + CODEC_GUARD, n, &err), &err);
    codec_assert_guards(back, 4 * n);
    const codec_float_format *f = codec_format(c);
    for (size_t i = 0; i < n; i++) {
        uint32_t y;
        memcpy(&y, back + CODEC_GUARD + 4 * i, 4);
        if (c->exact ? y != x[i] : y != rounded(x[i], f))
            fail_msg("%s, %zu of %zu: %08x became %08x", c->name, i, n, x[i], y);
    }
    dt_free(back);
    dt_free(packed);
    dt_free(x);
}

double codec_density(const uint32_t *x, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += x[i] != 0;
    return n > 0 ? (double)k / (double)n : 0.0;
}

void codec_for_each(void (*check)(const dt_codec *c))
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++)
        check(all[i]);
}
