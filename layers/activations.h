/* Smooth activations, element by element. Each backward multiplies dy by the slope: sigmoid and
 * tanh have it from their output, gelu from its input. */
#ifndef DT_LAYERS_ACTIVATIONS_H
#define DT_LAYERS_ACTIVATIONS_H

#include "engine/layer.h"

enum { DT_GELU_EXACT, DT_GELU_TANH };

/* y = x P(X <= x) of the standard normal distribution, or x / (1 + e^-2u) with u = sqrt(2 / pi) (x
 * + 0.044715 x^3), which is PyTorch's approximation through tanh. At infinity y takes its limit. */
typedef struct dt_gelu {
    int approximate; /* DT_GELU_EXACT or DT_GELU_TANH */
} dt_gelu;

extern const dt_layer_desc dt_layer_gelu;
extern const dt_layer_desc dt_layer_sigmoid; /* y = 1 / (1 + e^-x) */
extern const dt_layer_desc dt_layer_tanh;

#endif
