/* Nearest-neighbour upsampling: every pixel becomes factor x factor equal pixels, as PyTorch's
 * Upsample(scale_factor = factor). Backward sums the gradients of those. */
#ifndef DT_LAYERS_SHAPE_UPSAMPLE_H
#define DT_LAYERS_SHAPE_UPSAMPLE_H

#include "engine/layer.h"

typedef struct dt_upsample {
    int64_t factor;
} dt_upsample;

extern const dt_layer_desc dt_layer_upsample;

#endif
