/* The CPU device's kernels, a table for each layer and each op of update; layers that are computed
 * alike share a file. Flatten has none: it is no op. */
#ifndef DT_LAYERS_CPU_CPU_H
#define DT_LAYERS_CPU_CPU_H

#include "engine/kernels.h"

#define DT_LAYER(name) extern const dt_kernels dt_##name##_cpu;
#include "layers/layers.def"
#include "layers/ops.def"
#undef DT_LAYER

/* Shape of the layer's first input, n = 1. */
static inline dt_shape dti_call_x(const dt_call *c)
{
    return dt_graph_shape(c->graph, c->node->in[0]);
}

/* A value of the gradient of parameter i: it is written, or added where the call wants that. */
static inline void dti_gradient_give(
    const dt_call *c, const dt_args *a, int i, int64_t at, float value)
{
    float *to = (float *)a->port[DT_DP + i] + at;
    *to = (c->add >> (unsigned)i & 1) != 0 ? *to + value : value;
}

#endif
