/* Walking a list of globs. */
#include "memory/policies/globs.h"

#include "engine/base/text.h"
#include "engine/graph_names.h"

int32_t dti_globs_match(const char *globs, const dt_node *layer)
{
    char glob[DT_GLOB_BYTES];
    for (int32_t n = 1; globs != NULL && layer != NULL; n++) {
        globs = dt_next_glob(globs, glob, sizeof glob);
        if (glob[0] == '\0')
            return 0;
        if (dt_layer_meant(glob, layer))
            return n;
    }
    return 0;
}

dt_status dti_globs_check(
    const char *globs, const dt_graph *g, const char *policy, const char *key, dt_err *err)
{
    char glob[DT_GLOB_BYTES], text[DT_NO_LAYER_BYTES];
    while (globs != NULL && *globs != '\0') {
        bool any = false;
        globs = dt_next_glob(globs, glob, sizeof glob);
        for (size_t i = 0; i < g->n_node && !any; i++)
            any = dt_layer_meant(glob, &g->node[i]);
        if (glob[0] != '\0' && !any)
            return DT_FAIL(err, DT_E_CONFIG, "[policy.%s] %s: %s", policy, key,
                dt_no_layer(g, glob, dt_nearest_layer(g, glob), text));
    }
    return DT_OK;
}
