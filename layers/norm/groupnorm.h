/* Group normalisation (Wu and He, 2018): the channels of a sample in groups, each of which gets
 * mean 0 and variance 1 over all its pixels; then a scale and a shift a channel. */
#ifndef DT_LAYERS_NORM_GROUPNORM_H
#define DT_LAYERS_NORM_GROUPNORM_H

#include "engine/layer.h"

/* @groups: of as many channels each; @eps: added to the variance. x {n, h, w, c} gives y of that
 * shape. Parameters: weight [c], bias [c]. */
typedef struct dti_groupnorm {
    int64_t groups;
    double eps;
} dti_groupnorm;

extern const dt_layer_desc dt_layer_groupnorm;

#endif
