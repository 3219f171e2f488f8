/* Leaky ReLU (Maas et al., 2013): y = x above zero, slope times x elsewhere. */
#ifndef DT_LAYERS_ELEMENTWISE_LEAKY_RELU_H
#define DT_LAYERS_ELEMENTWISE_LEAKY_RELU_H

#include "engine/layer.h"

/* y has the sign of x, so backward reads y. A slope of zero makes it the ReLU. */
typedef struct dt_leaky_relu {
    double slope;
} dt_leaky_relu;

extern const dt_layer_desc dt_layer_leaky_relu;

#endif
