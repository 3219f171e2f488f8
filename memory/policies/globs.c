/* Walking a list of globs. */
#include "memory/policies/globs.h"

#include "engine/base/text.h"
#include "engine/graph_names.h"

int32_t dti_globs_match(const char *globs, const dt_node *layer)
{
    size_t n;
    int32_t number = 1;
    for (const char *glob; layer != NULL && (glob = dt_next_glob(&globs, &n)) != NULL; number++)
        if (dt_layer_meant(glob, n, layer))
            return number;
    return 0;
}

dt_status dti_globs_check(
    const char *globs, const dt_graph *g, const char *policy, const char *key, dt_err *err)
{
    char text[DT_NO_LAYER_BYTES];
    size_t n;
    for (const char *glob; (glob = dt_next_glob(&globs, &n)) != NULL;) {
        bool any = false;
        for (size_t i = 0; i < g->n_node && !any; i++)
            any = dt_layer_meant(glob, n, &g->node[i]);
        if (!any)
            return DT_FAIL(err, DT_E_CONFIG, "[policy.%s] %s: %s", policy, key,
                dt_no_layer_of(g, glob, n, text));
    }
    return DT_OK;
}
