/* Zeros around a map, as PyTorch's ZeroPad2d. Convolutions pad by themselves; Keras' networks have
 * it as a layer, whose output is a value more. */
#ifndef DT_LAYERS_SHAPE_ZERO_PAD_H
#define DT_LAYERS_SHAPE_ZERO_PAD_H

#include "engine/layer.h"

/**
 * struct dti_zero_pad - options.
 * @pad: rows and columns of zeros on each side, as sides (engine/shape.h)
 * @more: further ones at the bottom and on the right, as sides
 *
 * x {n, h, w, c} makes y {n, h + 2 pad + more, w + 2 pad + more, c}.
 */
typedef struct dti_zero_pad {
    int64_t pad, more;
} dti_zero_pad;

extern const dt_layer_desc dt_layer_zero_pad;

#endif
