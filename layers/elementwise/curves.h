/* Smooth functions for vector loops: exponential, logistic, hyperbolic tangent, normal distribution
 * and powers, a few units in the last place off. They consist of additions, multiplications,
 * divisions and selections alone, so any instruction set gives the same bits. A NaN gives a NaN, an
 * infinity the limit. Polynomials are minimax fits of our own over the ranges named. */
#ifndef DT_LAYERS_ELEMENTWISE_CURVES_H
#define DT_LAYERS_ELEMENTWISE_CURVES_H

#include <math.h>
#include <string.h>

#include "layers/cpu/tasks.h"

DT_INLINE float dti_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

DT_INLINE uint32_t dti_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* A choice by bits: compilers turn ?: into branches, and loops with branches into no vectors. */
DT_INLINE float dti_select(bool first, float a, float b)
{
    const uint32_t mask = 0u - (uint32_t)first;
    return dti_float((dti_bits(a) & mask) | (dti_bits(b) & ~mask));
}

/* Added to a number of magnitude below 2^22, leaves its nearest integer in the low bits. */
#define DTI_ROUNDER 0x1.8p23f

/* e^r for |r| <= 0.45. */
DT_INLINE float dti_small_exp(float r)
{
    const float r2 = r * r, p0 = 0.4999999341f + r * 0.1666652011f;
    const float p = p0 + r2 * ((0.04166839358f + r * 0.008368780485f) + r2 * 0.001381450698f);
    return 1.0f + (r + r2 * p);
}

/* 2^n e^r for n = rounded - DTI_ROUNDER in [-151, 129] and |r| <= 0.347, a little over ln 2 / 2.
 * The power is multiplied in two halves, so that overflow and gradual underflow come out right. */
DT_INLINE float dti_scaled_exp(float rounded, float r)
{
    const uint32_t n = dti_bits(rounded) - dti_bits(DTI_ROUNDER);
    const uint32_t low = ((n + 256u) >> 1) - 128u, high = n - low;
    return dti_small_exp(r) * dti_float((low + 127u) << 23) * dti_float((high + 127u) << 23);
}

/* x less the multiple n of ln 2 that is nearest to it, n = *rounded - DTI_ROUNDER. */
DT_INLINE float dti_exp_rest(float x, float *rounded)
{
    *rounded = x * 0x1.715476p0f + DTI_ROUNDER;
    const float n = *rounded - DTI_ROUNDER;
    return x - n * 0x1.63p-1f - n * -0x1.bd0106p-13f; /* ln 2 in two parts */
}

DT_INLINE float dti_curve_exp(float x)
{
    float rounded;
    x = dti_select(x > 89.0f, 89.0f, x);
    x = dti_select(x < -104.0f, -104.0f, x);
    const float r = dti_exp_rest(x, &rounded);
    return dti_scaled_exp(rounded, r);
}

/* 2^n e^r for n = rounded - DTI_ROUNDER in [-127, 0]; 0 at -127, where it is no normal number. */
DT_INLINE float dti_falling_exp(float rounded, float r)
{
    const uint32_t power = dti_bits(rounded) - dti_bits(DTI_ROUNDER) + 127u;
    return dti_small_exp(r) * dti_float(power << 23);
}

/* 1 / (1 + e^-x), small results with full relative precision; 0 where it is no normal number. */
DT_INLINE float dti_curve_sigmoid(float x)
{
    float rounded;
    const float ax = fabsf(x), a = dti_select(ax > 88.1f, 88.1f, ax); /* 127 ln 2 and a little */
    const float r = dti_exp_rest(-a, &rounded), e = dti_falling_exp(rounded, r);
    const float above = 1.0f / (1.0f + e), below = e * above;
    return dti_select(x < 0.0f, below, above);
}

DT_INLINE float dti_curve_tanh(float x)
{
    const float a = fabsf(x), z = a * a;
    const float p =
        -0.3333331804f +
        z * (0.1333260165f + z * (-0.05385385449f + z * (0.02107774474f + z * -0.006282454997f)));
    const float small = a + a * z * p; /* fitted up to 0.55 */
    const float large = 1.0f - 2.0f / (1.0f + dti_curve_exp(2.0f * a));
    const float value = dti_select(a < 0.55f, small, large);
    return dti_float(dti_bits(value) | (dti_bits(x) & 0x80000000u));
}

/* The standard normal distribution at x: share below x, and density. */
typedef struct dti_normal {
    float below, density;
} dti_normal;

/* e^(-a^2/2), 0 where it is no normal number; a in [0, DTI_NORMAL_MOST]. a^2 is taken in two parts:
 * its rounding would be magnified by the exponential. */
#define DTI_NORMAL_MOST 13.28f
DT_INLINE float dti_bell(float a)
{
    float rounded;
    const float high = dti_float(dti_bits(a) & 0xFFFFF000u);
    const float r = dti_exp_rest(-0.5f * (high * high), &rounded);
    return dti_falling_exp(rounded, r - 0.5f * ((a - high) * (a + high)));
}

/* The tail beyond a is that times a polynomial in 3 / (3 + a), fitted up to 15. */
DT_INLINE dti_normal dti_curve_normal(float x)
{
    const float ax = fabsf(x), a = dti_select(ax > DTI_NORMAL_MOST, DTI_NORMAL_MOST, ax);
    const float e = dti_bell(a);
    const float t = 3.0f / (3.0f + a);
    const float t2 = t * t, t4 = t2 * t2;
    const float p0 = 4.980912599e-6f + t * 0.1328410775f, p2 = 0.1346761288f + t * 0.1064986606f;
    const float p4 = 0.1394237574f + t * -0.09431356394f, p6 = 0.2738113591f + t * -0.3166516808f;
    const float p8 = 0.1506796035f + t * -0.02697031762f;
    const float p = (p0 + t2 * p2) + t4 * ((p4 + t2 * p6) + t4 * p8);
    const float tail = e * p, rest = 1.0f - tail;
    return (dti_normal){.below = dti_select(x < 0.0f, tail, rest), .density = e * 0.3989422804f};
}

/* x^y for x > 0 and y within +-10; 0 for infinite x and y < 0. */
DT_INLINE float dti_curve_pow(float x, float y)
{
    /* x = 2^k m with m in [sqrt 1/2, sqrt 2); log2 m by the series of atanh */
    const uint32_t above = dti_bits(x) - 0x3F3504F3u + 0x40000000u;
    const uint32_t k = (above >> 23) - 128u;
    const float m = dti_float(dti_bits(x) - (k << 23)), whole = y * (float)(int32_t)k;
    const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
    const float p = 0.3333338989f + z * (0.1998853927f + z * 0.149426033f);
    const float part = y * ((s + s * z * p) * 2.8853900818f);
    float sum = whole + part;
    sum = dti_select(sum > 129.0f, 129.0f, sum);
    sum = dti_select(sum < -151.0f, -151.0f, sum);
    const float rounded = sum + DTI_ROUNDER, n = rounded - DTI_ROUNDER;
    float rest = whole - n + part;
    rest = dti_select(rest > 0.5004f, 0.5004f, rest); /* only where the sum was cut */
    rest = dti_select(rest < -0.5004f, -0.5004f, rest);
    const float value = dti_scaled_exp(rounded, rest * 0x1.62e43p-1f);
    const float end = dti_select(y < 0.0f, 1.0f / x, x); /* infinite and NaN x */
    return dti_select(x < INFINITY, value, end);
}

#endif
