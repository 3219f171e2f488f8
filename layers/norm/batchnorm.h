/* Batch normalisation per channel, as PyTorch's BatchNorm2d with affine parameters and running
 * statistics. The variance that normalises is the biased one; the running variance takes the
 * unbiased one (of a single value: the biased one, 0). Forward leaves mean and inverse standard
 * deviation, fp32 per channel, from which a recompute makes forward's bits again. */
#ifndef DT_LAYERS_NORM_BATCHNORM_H
#define DT_LAYERS_NORM_BATCHNORM_H

#include "engine/layer.h"

typedef struct dt_batchnorm {
    double eps;
    double momentum; /* weight of the new statistics */
    bool zero_init;  /* the weight starts at 0, so that a residual branch ending here starts as
                        nothing */
} dt_batchnorm;

extern const dt_layer_desc dt_layer_batchnorm;
extern const dt_layer_desc dt_layer_batchnorm_relu; /* y = max(0, batchnorm(x)), same options */

#endif
