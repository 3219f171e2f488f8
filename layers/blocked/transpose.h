/* Blocks of a matrix of floats, transposed. */
#ifndef DT_LAYERS_BLOCKED_TRANSPOSE_H
#define DT_LAYERS_BLOCKED_TRANSPOSE_H

#include <string.h>

#include "layers/cpu/lanes.h"

/* Four rows of four floats, from element @i on, times @scale, become four rows at @to, @row
 * apart. */
static inline void dti_transpose_four(
    const float *const x[4], int64_t i, float scale, float *to, int64_t row)
{
    dt_four v[4], t[4];
    for (int k = 0; k < 4; k++)
        memcpy(&v[k], x[k] + i, sizeof v[k]);
    t[0] = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
    t[1] = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    t[2] = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
    t[3] = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    v[0] = scale * __builtin_shufflevector(t[0], t[2], 0, 1, 4, 5);
    v[1] = scale * __builtin_shufflevector(t[0], t[2], 2, 3, 6, 7);
    v[2] = scale * __builtin_shufflevector(t[1], t[3], 0, 1, 4, 5);
    v[3] = scale * __builtin_shufflevector(t[1], t[3], 2, 3, 6, 7);
    for (int k = 0; k < 4; k++)
        memcpy(to + k * row, &v[k], sizeof v[k]);
}

#endif
