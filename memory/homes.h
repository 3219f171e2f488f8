/* Where persistent tensors live, by name. A parameter is called as in files of weights,
 * "conv1.weight"; what training keeps beside it has a word behind that: "conv1.weight.gradient",
 * "conv1.weight.moments" (the optimizer's state, each of two), and for running statistics
 * "bn1.running_mean.pending". */
#ifndef DT_MEMORY_HOMES_H
#define DT_MEMORY_HOMES_H

#include "engine/map.h"

/* All persistent tensors whose name the glob matches live there; of several the last rule holds. */
typedef struct dt_home_rule {
    const char *glob; /* borrowed */
    dt_tier tier;
} dt_home_rule;

typedef struct dt_home_rules {
    size_t n, cap;
    dt_home_rule *rule;
} dt_home_rules;

dt_status dti_home_rules_add(
    dt_home_rules *r, const char *glob, dt_tier tier, dt_err *err) DT_NODISCARD;
void dti_home_rules_deinit(dt_home_rules *r); /* a zeroed one is fine */

enum { DT_HOME_NAME_BYTES = DT_TENSOR_NAME_BYTES + 16 };
/* What a tensor of the map is called here. Returns @to. */
const char *dt_home_name(const dt_home *h, char to[DT_HOME_NAME_BYTES]);

/* What the persistent tensors are called that some training of the network has. Release with
 * dt_free(names->of); a zeroed one has none. */
typedef struct dti_home_names {
    size_t n;
    char (*of)[DT_HOME_NAME_BYTES];
} dti_home_names;
dt_status dti_home_names_of(const dt_graph *g, dti_home_names *names, dt_err *err) DT_NODISCARD;
bool dti_home_known(const dti_home_names *names, const char *glob); /* it matches one of them */

/* In @tier, by entry of the map, what the rules say; others stay as they are there. */
void dt_home_rules_apply(const dt_home_rules *r, const dt_map *m, dt_tier *tier);

#endif
