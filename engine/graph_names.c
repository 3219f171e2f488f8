/* Layers by what a configuration calls them, and what is said of names that none has. */
#include "engine/graph_names.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "engine/config/nearest.h"

bool dt_layer_meant(const char *glob, size_t n, const dt_node *layer)
{
    return dti_glob_n(glob, n, layer->name) ||
           (layer->with[0] != '\0' && dti_glob_n(glob, n, layer->with));
}

const char *dt_nearest_layer(const dt_graph *g, const char *glob)
{
    const char **names = dt_alloc(g->n_node + 1, sizeof *names);
    for (size_t i = 0; names != NULL && i < g->n_node; i++)
        names[i] = g->node[i].name;
    const char *near = names != NULL ? dt_nearest(glob, names) : NULL;
    dt_free(names);
    return near;
}

const char *dt_no_layer(
    const dt_graph *g, const char *glob, const char *near, char to[DT_NO_LAYER_BYTES])
{
    if (near != NULL)
        snprintf(
            to, DT_NO_LAYER_BYTES, "'%.100s' matches no layer, did you mean '%s'?", glob, near);
    else
        snprintf(to, DT_NO_LAYER_BYTES,
            "'%.100s' matches no layer; the %zu layers are '%s' to '%s'", glob, g->n_node,
            g->node[0].name, g->node[g->n_node - 1].name);
    return to;
}

const char *dt_no_layer_of(
    const dt_graph *g, const char *glob, size_t n, char to[DT_NO_LAYER_BYTES])
{
    char text[DT_NAME_BYTES + 8] = ""; /* nothing is near what is longer, and no more is shown */
    memcpy(text, glob, n < sizeof text ? n : sizeof text - 1);
    return dt_no_layer(g, text, dt_nearest_layer(g, text), to);
}
