/* Joins the channels of 2 to 16 values of one height and width, in the order of the inputs.
 * Backward cuts dy apart; it reads nothing of forward. */
#ifndef DT_LAYERS_SHAPE_CONCAT_H
#define DT_LAYERS_SHAPE_CONCAT_H

#include "engine/layer.h"

extern const dt_layer_desc dt_layer_concat;

#endif
