/* Local response normalisation across channels (Krizhevsky et al. 2012) as PyTorch's
 * LocalResponseNorm defines it: y = x / scale^beta, scale = k + alpha / size * (the sum of x^2 over
 * size channels, from size / 2 before, rounded down, to (size - 1) / 2 behind; none beyond the
 * ends). Other frameworks do not divide alpha by size. Nothing is stored: backward makes the scale
 * again from x. */
#ifndef DT_LAYERS_NORM_LRN_H
#define DT_LAYERS_NORM_LRN_H

#include "engine/layer.h"

enum { DTI_LRN_MOST = 63 }; /* channels in a window */

typedef struct dti_lrn {
    int64_t size;
    double alpha, beta, k;
} dti_lrn;

extern const dt_layer_desc dt_layer_lrn;

#endif
