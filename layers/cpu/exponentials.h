/* The sums that a softmax is made of, over a row of scores: exponentials in single precision, sums
 * in double, in lanes that are fixed by the element, so that any instruction set gives the same
 * bits. */
#ifndef DT_LAYERS_CPU_EXPONENTIALS_H
#define DT_LAYERS_CPU_EXPONENTIALS_H

#include "layers/elementwise/curves.h"
#include "layers/value.h"

enum { DTI_EXP_LANES = 16, DTI_EXP_CHUNK = 512 };

DT_INLINE float dti_greatest(const void *x, int64_t n, dt_dtype t)
{
    float most = -INFINITY; /* a NaN is left to the sums */
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        const float v = dti_load(x, i, t);
        most = v > most ? v : most;
    }
    return most;
}

/* Of at most DTI_EXP_CHUNK. */
DT_INLINE double dti_exponentials_chunk(
    const void *x, int64_t n, float most, dt_dtype t, float *e, double *below)
{
    double sum[DTI_EXP_LANES] = {0}, rest[DTI_EXP_LANES] = {0}, all = 0;
    *below = 0;
    int64_t i = 0;
    for (; i + DTI_EXP_LANES <= n; i += DTI_EXP_LANES)
#pragma omp simd
        for (int k = 0; k < DTI_EXP_LANES; k++) {
            const float d = dti_load(x, i + k, t) - most;
            e[i + k] = dti_curve_exp(d);
            sum[k] += (double)e[i + k];
            rest[k] += (double)d;
        }
    for (; i < n; i++) {
        const float d = dti_load(x, i, t) - most;
        e[i] = dti_curve_exp(d);
        sum[i % DTI_EXP_LANES] += (double)e[i];
        rest[i % DTI_EXP_LANES] += (double)d;
    }
    for (int k = 0; k < DTI_EXP_LANES; k++) {
        all += sum[k];
        *below += rest[k];
    }
    return all;
}

/* The sum of exp(x - most) over n values, which go to e, unless that is NULL; *below: the sum of
 * x - most. */
DT_INLINE double dti_exponentials(
    const void *x, int64_t n, float most, dt_dtype t, float *e, double *below)
{
    double sum = 0;
    *below = 0;
    for (int64_t at = 0; at < n; at += DTI_EXP_CHUNK) {
        const int64_t m = n - at < DTI_EXP_CHUNK ? n - at : DTI_EXP_CHUNK;
        float unused[DTI_EXP_CHUNK];
        double less;
        sum += dti_exponentials_chunk(
            dti_from(x, at, t), m, most, t, e != NULL ? e + at : unused, &less);
        *below += less;
    }
    return sum;
}

#endif
