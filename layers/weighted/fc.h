/* Fully connected layer: y = weight x + bias, with everything of a sample as one vector. */
#ifndef DT_LAYERS_WEIGHTED_FC_H
#define DT_LAYERS_WEIGHTED_FC_H

#include "engine/kernels.h"

/**
 * struct dt_fc - options.
 * @out:  outputs
 * @bias: whether a value is added to each output
 *
 * x {n, h, w, c} gives y {n, 1, 1, out}. Parameters: weight [out, c * h * w], whose columns are in
 * the order c, h, w that PyTorch's flatten gives, although x is stored h, w, c; bias [out].
 */
typedef struct dt_fc {
    int64_t out;
    bool bias;
} dt_fc;

extern const dt_layer_desc dt_layer_fc;

/* The image behind the vector: a flatten in between has no op and leaves the bytes as they were. */
static inline dt_shape dti_fc_image(const dt_call *c)
{
    int32_t v = c->node->in[0];
    while (v != DT_GRAPH_INPUT && c->graph->node[v].desc->identity)
        v = c->graph->node[v].in[0];
    return dt_graph_shape(c->graph, v);
}

#endif
