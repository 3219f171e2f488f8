/* A policy is a pass from program to program. One file each in memory/policies/, ending in a
 * descriptor; memory/policies/policies.def holds a line a policy. */
#ifndef DT_MEMORY_POLICY_H
#define DT_MEMORY_POLICY_H

#include "memory/pass.h"

/**
 * struct dt_policy - a policy.
 * @name @summary: as in the INI file and in `dnntrain list policies`
 * @exact: moves, repeats or encodes without changing a bit of what is trained
 * @pass:  rewrites a program that trains or evaluates; never called for update programs
 */
typedef struct dt_policy {
    const char *name, *summary;
    bool exact;
    dt_status (*pass)(dt_program *p, dt_err *err);
} dt_policy;

const dt_policy *const *dt_policy_all(size_t *n);
const dt_policy *dt_policy_find(const char *name); /* NULL if unknown */

/* DT_E_CONFIG when the comma-separated list names an unknown policy: it, the nearest, and all. */
dt_status dt_policies_check(const char *list, dt_err *err) DT_NODISCARD;

/* Run the policies of a comma-separated list, in order. */
dt_status dt_policies_apply(dt_program *p, const char *list, dt_err *err) DT_NODISCARD;

#endif
