/* What the losses of values make of one element, on any device. */
#ifndef DT_LAYERS_LOSS_VALUE_LOSS_CURVES_H
#define DT_LAYERS_LOSS_VALUE_LOSS_CURVES_H

#include "engine/label.h"
#include "layers/elementwise/curves.h"

/* Which loss; a constant wherever it becomes part of a loop. */
typedef enum dti_value_loss { DTI_BCE, DTI_L1, DTI_MSE, DTI_SMOOTH_L1 } dti_value_loss;

/* log(1 + e) for e in [0, 1], by the series of atanh. */
DT_INLINE float dti_log_of_one_and(float e)
{
    const float s = e / (2.0f + e), z = s * s;
    const float p = 0.1111111111f + z * (0.0909090909f + z * (0.0769230769f + z * 0.0666666667f));
    const float series = 0.3333333333f + z * (0.2f + z * (0.1428571429f + z * p));
    return 2.0f * (s + s * (z * series));
}

/* Of an output @x and a label that counts; @beta: of smooth_l1. */
DT_INLINE float dti_value_loss_of(dti_value_loss f, float x, float label, float beta)
{
    if (f == DTI_BCE) {
        const float above = dti_select(x < 0.0f, 0.0f, x);
        return (above - x * label) + dti_log_of_one_and(dti_curve_exp(-fabsf(x)));
    }
    const float d = x - label, a = fabsf(d);
    if (f == DTI_MSE)
        return d * d;
    return f == DTI_L1 ? a : dti_select(a < beta, 0.5f * d * d / beta, a - 0.5f * beta);
}

/* Its derivative by x. A NaN stays. */
DT_INLINE float dti_value_loss_slope(dti_value_loss f, float x, float label, float beta)
{
    if (f == DTI_BCE)
        return dti_curve_sigmoid(x) - label;
    const float d = x - label;
    if (f == DTI_MSE)
        return 2.0f * d;
    const float sign = dti_select(d > 0.0f, 1.0f, dti_select(d < 0.0f, -1.0f, d));
    return f == DTI_L1 ? sign : dti_select(fabsf(d) < beta, d / beta, sign);
}

#endif
