/* Layers by name: ours, then those from outside. */
#include "layers/registry.h"

#include <dnntrain/layer.h>

#include <stdatomic.h>
#include <string.h>

#define DT_LAYER(name) extern const dt_layer_desc dt_layer_##name;
#include "layers/layers.def"
#include "layers/ops.def"
#undef DT_LAYER

#define DT_LAYER(name) +1
enum {
    OURS = 0
#include "layers/layers.def"
};
#undef DT_LAYER

#define DT_LAYER(name) &dt_layer_##name,
static const dt_layer_desc *layers[OURS + DT_OUTSIDE_LAYERS] = {
#include "layers/layers.def"
};
static const dt_layer_desc *const ops[] = {
#include "layers/ops.def"
};
#undef DT_LAYER
static atomic_size_t n_layers = OURS; /* an entry is there before it is counted, and stays */

const dt_layer_desc *const *dt_layer_all(size_t *n)
{
    *n = n_layers;
    return layers;
}

void dti_layer_add(const dt_layer_desc *d)
{
    const size_t n = n_layers;
    DT_ASSERT(n < DT_COUNT(layers));
    layers[n] = d;
    n_layers = n + 1;
}

static const dt_layer_desc *find(const dt_layer_desc *const *all, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

const dt_layer_desc *dt_layer_find(const char *name)
{
    const dt_layer_desc *found = find(layers, n_layers, name);
    return found != NULL ? found : find(ops, DT_COUNT(ops), name);
}
