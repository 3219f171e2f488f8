/* The transforms of F(2x2, 3x3), by instruction set. */
#ifndef DT_LAYERS_BLOCKED_WINOGRAD_TRANSFORMS_H
#define DT_LAYERS_BLOCKED_WINOGRAD_TRANSFORMS_H

#include "engine/base/compiler.h"

/* Each works on n channels, a multiple of 16, of one tile; see winograd_kernel.inc. */
typedef struct dti_transforms {
    void (*pixels)(const float *const x[16], int64_t n, float *to, int64_t step);
    void (*results)(const float *m, int64_t step, const float *bias, int64_t n, float *const y[4]);
    void (*slopes)(const float *const dy[4], int64_t n, float *to, int64_t step);
    void (*taps)(const float *const g[9], int64_t n, float *to, int64_t step);
    void (*gradients)(
        const float *u, int64_t step, int64_t parts, int64_t apart, int64_t n, float *const g[9]);
    void (*add_rows)(const float *x, int64_t rows, int64_t n, float *sum);
} dti_transforms;

const dti_transforms *dti_transforms_best(void);

#endif
