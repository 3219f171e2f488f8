/* Linear layer over the channels of every position: y = weight x + bias. */
#ifndef DT_LAYERS_WEIGHTED_LINEAR_H
#define DT_LAYERS_WEIGHTED_LINEAR_H

#include "engine/layer.h"

/**
 * struct dt_linear - options.
 * @out:    outputs of a position
 * @bias:   whether a value is added to each output
 * @in_out: the weight is [in, out] in files, as GPT-2's are, and not [out, in]
 * @sigma:  standard deviation of the first weights, with a bias of zero; 0: uniform as PyTorch's
 * Linear
 *
 * x {n, h, w, c} gives y {n, h, w, out}. Parameters: weight [out, c] or [c, out], bias [out]. The
 * weight may be that of an earlier embedding [out, c] (dt_graph_share), without a bias.
 */
typedef struct dt_linear {
    int64_t out;
    bool bias, in_out;
    double sigma;
} dt_linear;

extern const dt_layer_desc dt_layer_linear;

#endif
