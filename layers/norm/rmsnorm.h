/* Root mean square normalisation (Zhang and Sennrich, 2019): the channels of each position divided
 * by the root of the mean of their squares, then a scale each. */
#ifndef DT_LAYERS_NORM_RMSNORM_H
#define DT_LAYERS_NORM_RMSNORM_H

#include "engine/layer.h"

/* @eps: added to the mean square. x {n, h, w, c} gives y of that shape. Parameter: weight [c]. */
typedef struct dti_rmsnorm {
    double eps;
} dti_rmsnorm;

extern const dt_layer_desc dt_layer_rmsnorm;

#endif
