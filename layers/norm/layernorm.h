/* Layer normalisation: the channels of each position get mean 0 and variance 1, then a scale and a
 * shift each. */
#ifndef DT_LAYERS_NORM_LAYERNORM_H
#define DT_LAYERS_NORM_LAYERNORM_H

#include "engine/layer.h"

/* @eps: added to the variance. x {n, h, w, c} gives y of that shape. Parameters: weight [c], bias
 * [c]. */
typedef struct dt_layernorm {
    double eps;
} dt_layernorm;

extern const dt_layer_desc dt_layer_layernorm;

#endif
