/* What the kernels for the gradient of a convolution's weight are asked for: a sum over all pixels,
 * for every tap, of products of x and dy. */
#ifndef DT_LAYERS_BLOCKED_WEIGHT_GRADIENT_H
#define DT_LAYERS_BLOCKED_WEIGHT_GRADIENT_H

#include "engine/base/compiler.h"

/* Activations are NHWC, in bf16 or fp32; one group, no dilation; @p @q: height and width of dy */
typedef struct dti_weight_gradient {
    int64_t n, c, h, w, out, p, q, kernel, stride, pad;
    bool bf16;
} dti_weight_gradient;

#endif
