/* The product of two values, element by element; or of a map and a factor for each of its channels,
 * as squeeze-and-excitation has it (Hu et al. 2018). */
#ifndef DT_LAYERS_ELEMENTWISE_MUL_H
#define DT_LAYERS_ELEMENTWISE_MUL_H

#include "engine/layer.h"

/* y = x0 x1. x1 has the shape {h, w, c} of x0, or is one pixel {1, 1, c}, which stands for all. */
extern const dt_layer_desc dt_layer_mul;

#endif
