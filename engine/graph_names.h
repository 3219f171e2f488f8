/* Layers by what a configuration calls them. */
#ifndef DT_ENGINE_GRAPH_NAMES_H
#define DT_ENGINE_GRAPH_NAMES_H

#include "engine/graph.h"

/* Whether a glob of @n bytes means a layer: by its name, or by that of the layer that is fused into
 * it. */
bool dt_layer_meant(const char *glob, size_t n, const dt_node *layer);

/* The layer whose name is nearest to one that no layer has; NULL: none is near. */
const char *dt_nearest_layer(const dt_graph *g, const char *glob);

/* "'layr1' matches no layer, did you mean 'layer1'?" Without @near: which layers there are. */
enum { DT_NO_LAYER_BYTES = 4 * DT_NAME_BYTES + 64 };
const char *dt_no_layer(
    const dt_graph *g, const char *glob, const char *near, char to[DT_NO_LAYER_BYTES]);
/* The same of a glob of @n bytes, with the nearest. */
const char *dt_no_layer_of(
    const dt_graph *g, const char *glob, size_t n, char to[DT_NO_LAYER_BYTES]);

#endif
