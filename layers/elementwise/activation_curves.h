/* What the activations do to one element, on any device. */
#ifndef DT_LAYERS_ELEMENTWISE_ACTIVATION_CURVES_H
#define DT_LAYERS_ELEMENTWISE_ACTIVATION_CURVES_H

#include "layers/elementwise/curves.h"

/* Which function; a constant wherever it becomes part of a loop. */
typedef enum dti_curve {
    DTI_SIGMOID,
    DTI_TANH,
    DTI_GELU,
    DTI_GELU_TANH,
    DTI_SILU,
    DTI_RELU6,
    DTI_HARDSIGMOID,
    DTI_HARDSWISH
} dti_curve;

/* The limit at -infinity is reached, as 0 times a finite number, well above these. */
enum { DTI_GELU_LEAST = -15, DTI_GELU_TANH_MOST = 12, DTI_SILU_LEAST = -104 };

/* Cut to [low, high]. */
DT_INLINE float dti_cut(float x, float low, float high)
{
    const float v = dti_select(x < low, low, x);
    return dti_select(v > high, high, v);
}

/* 1 between low and high, else 0; a NaN stays. */
DT_INLINE float dti_within(float v, float low, float high)
{
    return dti_select(v <= low, 0.0f, dti_select(v >= high, 0.0f, 1.0f + (v - v)));
}

/* Of those made of straight pieces. */
DT_INLINE float dti_straight_value(dti_curve f, float x)
{
    if (f == DTI_RELU6)
        return dti_cut(x, 0.0f, 6.0f);
    const float ramp = dti_cut(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f);
    return f == DTI_HARDSIGMOID ? ramp : dti_select(x < -3.0f, -3.0f, x) * ramp;
}

/* From y for relu6 and hardsigmoid, from x for hardswish. */
DT_INLINE float dti_straight_slope(dti_curve f, float v)
{
    if (f == DTI_RELU6)
        return dti_within(v, 0.0f, 6.0f);
    if (f == DTI_HARDSIGMOID)
        return dti_within(v, 0.0f, 1.0f) * (1.0f / 6.0f);
    const float middle = v * (1.0f / 3.0f) + 0.5f;
    return dti_select(v <= -3.0f, 0.0f, dti_select(v >= 3.0f, 1.0f, middle));
}

/* Logistic of 2u and the derivative of 2u. Past +-12 the curve is 0 or 1 to the last bit, and
 * powers of x stay in range. */
DT_INLINE void dti_gelu_approximate(float x, float *cut, float *share, float *slope)
{
    const float v = dti_cut(x, -DTI_GELU_TANH_MOST, DTI_GELU_TANH_MOST), z = v * v;
    *cut = v;
    *share = dti_curve_sigmoid(v * (1.5957691216f + 0.0713548163f * z));
    *slope = 1.5957691216f + 0.2140644488f * z;
}

DT_INLINE float dti_curve_value(dti_curve f, float x)
{
    if (f == DTI_SIGMOID)
        return dti_curve_sigmoid(x);
    if (f == DTI_TANH)
        return dti_curve_tanh(x);
    if (f == DTI_GELU)
        return dti_select(x < DTI_GELU_LEAST, DTI_GELU_LEAST, x) * dti_curve_normal(x).below;
    if (f == DTI_SILU)
        return dti_select(x < DTI_SILU_LEAST, DTI_SILU_LEAST, x) * dti_curve_sigmoid(x);
    if (f != DTI_GELU_TANH)
        return dti_straight_value(f, x);
    float cut, share, slope;
    dti_gelu_approximate(x, &cut, &share, &slope);
    return dti_select(x < -DTI_GELU_TANH_MOST, -0.0f, x) * share;
}

/* From y for sigmoid, tanh, relu6 and hardsigmoid, from x for gelu, silu and hardswish. */
DT_INLINE float dti_curve_slope(dti_curve f, float v)
{
    if (f == DTI_SIGMOID)
        return v * (1.0f - v);
    if (f == DTI_TANH)
        return (1.0f - v) * (1.0f + v);
    if (f == DTI_GELU) {
        const dti_normal n = dti_curve_normal(v);
        return n.below + dti_cut(v, DTI_GELU_LEAST, -DTI_GELU_LEAST) * n.density;
    }
    if (f == DTI_SILU) {
        const float s = dti_curve_sigmoid(v);
        return s + dti_cut(v, DTI_SILU_LEAST, -DTI_SILU_LEAST) * s * (1.0f - s);
    }
    if (f != DTI_GELU_TANH)
        return dti_straight_slope(f, v);
    float cut, share, slope;
    dti_gelu_approximate(v, &cut, &share, &slope);
    return share + cut * slope * share * (1.0f - share);
}

#endif
