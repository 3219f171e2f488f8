/* Walking a list of globs. */
#include "memory/policies/globs.h"

#include <string.h>

#include "engine/graph_names.h"

typedef struct one {
    char text[2 * DT_NAME_BYTES];
} one;

/* The next of a list, which moves on; false at its end. */
static bool next(const char **list, one *glob)
{
    if (*list == NULL)
        return false;
    while (**list == ' ' || **list == ',')
        ++*list;
    const size_t bytes = strcspn(*list, ",");
    size_t used = bytes;
    while (used > 0 && (*list)[used - 1] == ' ')
        used--;
    if (used == 0)
        return false;
    used = used < sizeof glob->text ? used : sizeof glob->text - 1;
    memcpy(glob->text, *list, used);
    glob->text[used] = '\0';
    *list += bytes;
    return true;
}

int32_t dti_globs_match(const char *globs, const dt_node *layer)
{
    one glob;
    for (int32_t n = 1; layer != NULL && next(&globs, &glob); n++)
        if (dt_layer_meant(glob.text, layer))
            return n;
    return 0;
}

dt_status dti_globs_check(
    const char *globs, const dt_graph *g, const char *policy, const char *key, dt_err *err)
{
    one glob;
    char text[DT_NO_LAYER_BYTES];
    while (next(&globs, &glob)) {
        bool any = false;
        for (size_t i = 0; i < g->n_node && !any; i++)
            any = dt_layer_meant(glob.text, &g->node[i]);
        if (!any)
            return DT_FAIL(err, DT_E_CONFIG, "[policy.%s] %s: %s", policy, key,
                dt_no_layer(g, glob.text, dt_nearest_layer(g, glob.text), text));
    }
    return DT_OK;
}
