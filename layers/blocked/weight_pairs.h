/* A convolution's weight brought to bf16 and to the layout of the library's products of pairs, or
 * transposed for those of its input's gradient: what its own reorder does, at the speed of memory
 * and by the team (layers/cpu/tasks.h). Values are rounded to the nearest, ties to even. */
#ifndef DT_LAYERS_BLOCKED_WEIGHT_PAIRS_H
#define DT_LAYERS_BLOCKED_WEIGHT_PAIRS_H

#include "engine/dtype.h"
#include "engine/base/compiler.h"

/**
 * struct dti_weight_pairs - from fp32 to bf16 [panels][taps][in / 32][16][columns][2], where
 * columns of the last panel beyond out are zero.
 * @hwio: it was [taps][in][out], else [out][in] and of one tap
 * @transposed: from [in][out] to bf16 [out][in] instead, without columns
 */
typedef struct dti_weight_pairs {
    int64_t out, in, taps, columns;
    bool hwio, transposed;
} dti_weight_pairs;

/* Whether this processor and this kernel can: out and columns are multiples of 16, and in of 32. */
bool dti_weight_pairs_can(const dti_weight_pairs *w);

void dti_weight_pairs_run(const dti_weight_pairs *w, const float *from, dt_bf16 *to);

#endif
