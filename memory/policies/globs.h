/* Lists of globs over the names of layers, as options of policies hold them. */
#ifndef DT_MEMORY_POLICIES_GLOBS_H
#define DT_MEMORY_POLICIES_GLOBS_H

#include "engine/graph.h"

/* The number of the first glob that a layer matches, by its name or by that of the layer fused into
 * it, from 1 on; 0: none does, or there is no layer (NULL). Commas stand between globs, and spaces
 * beside them count for nothing. A list of none may be NULL. */
int32_t dti_globs_match(const char *globs, const dt_node *layer);

/* DT_E_CONFIG when a glob matches no layer of the network: names it and the option, KEY of
 * [policy.POLICY]. */
dt_status dti_globs_check(const char *globs, const dt_graph *g, const char *policy, const char *key,
    dt_err *err) DT_NODISCARD;

#endif
