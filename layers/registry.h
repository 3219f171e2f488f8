/* All layers by name. layers/layers.def holds a line a layer; ops that belong to no layer (sum,
 * commit, optimizers) stand in a list of their own, so that a network cannot name them. */
#ifndef DT_LAYERS_REGISTRY_H
#define DT_LAYERS_REGISTRY_H

#include "engine/layer.h"

const dt_layer_desc *const *dt_layer_all(size_t *n);  /* what a network may use, by name */
const dt_layer_desc *dt_layer_find(const char *name); /* layers and plain ops; NULL if unknown */
void dti_layer_add(const dt_layer_desc *d);           /* from outside; the table has space */

#endif
