/* All layers and ops by name. */
#include "layers/registry.h"

#include <string.h>

#define DT_LAYER(name) extern const dt_layer_desc dt_layer_##name;
#include "layers/layers.def"
#include "layers/ops.def"
#undef DT_LAYER

#define DT_LAYER(name) &dt_layer_##name,
static const dt_layer_desc *const layers[] = {
#include "layers/layers.def"
};
static const dt_layer_desc *const ops[] = {
#include "layers/ops.def"
};
#undef DT_LAYER

const dt_layer_desc *const *dt_layer_all(size_t *n)
{
    *n = DT_COUNT(layers);
    return layers;
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
    const dt_layer_desc *found = find(layers, DT_COUNT(layers), name);
    return found != NULL ? found : find(ops, DT_COUNT(ops), name);
}
