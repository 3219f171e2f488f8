/* The exponential for vectors: to about 1e-7 of the result, without a branch or a table. */
#ifndef DT_LAYERS_CPU_EXP_H
#define DT_LAYERS_CPU_EXP_H

#include <string.h>

#include "layers/cpu/tasks.h"

/* exp(x) for x up to 88: 0 below -87, where floats would lose their precision; NaN for NaN. The
 * polynomial is Cephes' of expf. */
DT_INLINE float dti_exp(float x)
{
    const float whole = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    const float t = x * 1.44269504089f + whole;
    const float n = t - whole;
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 127) << 23; /* 2^n: n is in the low bits of t */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < -87.0f ? 0.0f : p * scale;
}

#endif
