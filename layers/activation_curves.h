/* What the activations do to one element, on any device. */
#ifndef DT_LAYERS_ACTIVATION_CURVES_H
#define DT_LAYERS_ACTIVATION_CURVES_H

#include "layers/curves.h"

/* Which function; a constant wherever it becomes part of a loop. */
typedef enum dti_curve { DTI_SIGMOID, DTI_TANH, DTI_GELU, DTI_GELU_TANH } dti_curve;

/* The limit at -infinity is reached, as 0 times a finite number, well above these. */
enum { DTI_GELU_LEAST = -15, DTI_GELU_TANH_MOST = 12 };

/* Logistic of 2u and the derivative of 2u. Past +-12 the curve is 0 or 1 to the last bit, and
 * powers of x stay in range. */
DT_INLINE void dti_gelu_approximate(float x, float *cut, float *share, float *slope)
{
    const float low = dti_select(x < -DTI_GELU_TANH_MOST, -DTI_GELU_TANH_MOST, x);
    const float v = dti_select(low > DTI_GELU_TANH_MOST, DTI_GELU_TANH_MOST, low), z = v * v;
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
    float cut, share, slope;
    dti_gelu_approximate(x, &cut, &share, &slope);
    return dti_select(x < -DTI_GELU_TANH_MOST, -0.0f, x) * share;
}

/* From y for sigmoid and tanh, from x for gelu. */
DT_INLINE float dti_curve_slope(dti_curve f, float v)
{
    if (f == DTI_SIGMOID)
        return v * (1.0f - v);
    if (f == DTI_TANH)
        return (1.0f - v) * (1.0f + v);
    if (f == DTI_GELU) {
        const dt_normal n = dti_curve_normal(v);
        const float low = dti_select(v < DTI_GELU_LEAST, DTI_GELU_LEAST, v);
        return n.below + dti_select(low > -DTI_GELU_LEAST, -DTI_GELU_LEAST, low) * n.density;
    }
    float cut, share, slope;
    dti_gelu_approximate(v, &cut, &share, &slope);
    return share + cut * slope * share * (1.0f - share);
}

#endif
