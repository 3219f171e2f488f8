/* Activations, element by element. Each backward multiplies dy by the slope: sigmoid, tanh, relu6
 * and hardsigmoid have it from their output, gelu, silu and hardswish from their input. At a kink
 * the slope is that of the flat side, as PyTorch's. */
#ifndef DT_LAYERS_ELEMENTWISE_ACTIVATIONS_H
#define DT_LAYERS_ELEMENTWISE_ACTIVATIONS_H

#include "engine/layer.h"

enum { DT_GELU_EXACT, DT_GELU_TANH };

/* y = x P(X <= x) of the standard normal distribution, or x / (1 + e^-2u) with u = sqrt(2 / pi) (x
 * + 0.044715 x^3), which is PyTorch's approximation through tanh. At infinity y takes its limit. */
typedef struct dt_gelu {
    int approximate; /* DT_GELU_EXACT or DT_GELU_TANH */
} dt_gelu;

extern const dt_layer_desc dt_layer_gelu;
extern const dt_layer_desc dt_layer_hardsigmoid; /* y = min(max(x + 3, 0), 6) / 6 */
extern const dt_layer_desc dt_layer_hardswish; /* x times that (Howard et al., MobileNetV3, 2019) */
extern const dt_layer_desc dt_layer_relu6;     /* y = min(max(x, 0), 6) (Howard et al., 2017) */
extern const dt_layer_desc dt_layer_sigmoid;   /* y = 1 / (1 + e^-x) */
extern const dt_layer_desc dt_layer_silu;      /* x times that (Elfwing et al., 2018) */
extern const dt_layer_desc dt_layer_tanh;

#endif
