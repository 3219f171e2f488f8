/* Dropout: each element is zero with probability rate, else scaled by 1 / (1 - rate). Nothing is
 * stored: the mask is a function of seed, step, layer, sample's index in the step and element, and
 * backward draws it again. Element e of sample s takes word e % 4 of dt_random(seed,
 * DT_RANDOM_DROPOUT, layer, step, s * ceil(elements / 4) + e / 4) and is kept if dt_unit of it is
 * at least rate. */
#ifndef DT_LAYERS_ELEMENTWISE_DROPOUT_H
#define DT_LAYERS_ELEMENTWISE_DROPOUT_H

#include "engine/layer.h"

typedef struct dt_dropout {
    double rate;
} dt_dropout;

extern const dt_layer_desc dt_layer_dropout;

#endif
