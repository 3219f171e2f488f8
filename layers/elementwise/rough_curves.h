/* Curves whose values are rounded to bf16: 2e-4 off at most, a tenth of what rounding moves them
 * by, in half the operations of layers/elementwise/curves.h. A NaN gives a NaN, an infinity the
 * limit. Polynomials are minimax fits of our own over the ranges named. */
#ifndef DT_LAYERS_ELEMENTWISE_ROUGH_CURVES_H
#define DT_LAYERS_ELEMENTWISE_ROUGH_CURVES_H

#include "engine/dtype.h"
#include "layers/elementwise/activation_curves.h"

/* e^x for |x| <= 87.33, by 2^n 2^f with |f| <= 0.5. */
#define DTI_ROUGH_EXP_MOST 87.33f
DT_INLINE float dti_rough_exp(float x)
{
    const float t = x * 0x1.715476p0f, rounded = t + DTI_ROUNDER, f = t - (rounded - DTI_ROUNDER);
    const float p =
        (0.9999277592f + f * 0.6932614446f) + f * f * (0.2426159381f + f * 0.0551710352f);
    return p * dti_float((dti_bits(rounded) - dti_bits(DTI_ROUNDER) + 127u) << 23);
}

/* What lies below x, and the density there. The tail beyond a is that times a polynomial in
 * 3.5 / (3.5 + a), fitted up to 13.3. */
#define DTI_ROUGH_NORMAL_MOST 13.2f
DT_INLINE dti_normal dti_rough_normal(float x)
{
    const float ax = fabsf(x),
                a = dti_select(ax > DTI_ROUGH_NORMAL_MOST, DTI_ROUGH_NORMAL_MOST, ax);
    const float e = dti_rough_exp(a * a * -0.5f), t = 3.5f / (3.5f + a), t2 = t * t;
    const float p = (0.0011284529f + t * 0.0987988338f) +
                    t2 * ((0.1915092331f + t * -0.0816580206f) + t2 * 0.2902036607f);
    const float tail = e * p;
    return (dti_normal){
        .below = dti_select(x < 0.0f, tail, 1.0f - tail), .density = e * 0.3989422804f};
}

/* As dti_gelu_approximate(); the cut keeps the exponential in range, both ways. */
#define DTI_ROUGH_GELU_TANH_MOST 10.0f
DT_INLINE void dti_rough_gelu_approximate(float x, float *cut, float *share, float *slope)
{
    const float v = dti_cut(x, -DTI_ROUGH_GELU_TANH_MOST, DTI_ROUGH_GELU_TANH_MOST), z = v * v;
    *cut = v;
    *share = 1.0f / (1.0f + dti_rough_exp(-v * (1.5957691216f + 0.0713548163f * z)));
    *slope = 1.5957691216f + 0.2140644488f * z;
}

DT_INLINE float dti_rough_sigmoid(float x)
{
    return 1.0f / (1.0f + dti_rough_exp(-dti_cut(x, -DTI_ROUGH_EXP_MOST, DTI_ROUGH_EXP_MOST)));
}

/* Of curves that an exponential makes: gelu, gelu_tanh and silu. */
DT_INLINE float dti_rough_value(dti_curve f, float x)
{
    if (f == DTI_GELU)
        return dti_select(x < DTI_GELU_LEAST, DTI_GELU_LEAST, x) * dti_rough_normal(x).below;
    if (f == DTI_SILU)
        return dti_select(x < -DTI_ROUGH_EXP_MOST, -0.0f, x) * dti_rough_sigmoid(x);
    float cut, share, slope;
    dti_rough_gelu_approximate(x, &cut, &share, &slope);
    return dti_select(x < -DTI_ROUGH_GELU_TANH_MOST, -0.0f, x) * share;
}

DT_INLINE float dti_rough_slope(dti_curve f, float x)
{
    if (f == DTI_GELU) {
        const dti_normal n = dti_rough_normal(x);
        return n.below + dti_cut(x, DTI_GELU_LEAST, -DTI_GELU_LEAST) * n.density;
    }
    if (f == DTI_SILU) {
        const float s = dti_rough_sigmoid(x);
        return s + dti_cut(x, -DTI_ROUGH_EXP_MOST, DTI_ROUGH_EXP_MOST) * s * (1.0f - s);
    }
    float cut, share, slope;
    dti_rough_gelu_approximate(x, &cut, &share, &slope);
    return share + cut * slope * share * (1.0f - share);
}

/* By the type of the values, on any device. */
DT_INLINE bool dti_may_be_rough(dti_curve f, dt_dtype t)
{
    return t == DT_BF16 && (f == DTI_GELU || f == DTI_GELU_TANH || f == DTI_SILU);
}

DT_INLINE float dti_typed_value(dti_curve f, dt_dtype t, float x)
{
    return dti_may_be_rough(f, t) ? dti_rough_value(f, x) : dti_curve_value(f, x);
}

DT_INLINE float dti_typed_slope(dti_curve f, dt_dtype t, float v)
{
    return dti_may_be_rough(f, t) ? dti_rough_slope(f, v) : dti_curve_slope(f, v);
}

#endif
