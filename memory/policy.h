/* A policy is a pass from program to program. One file each in memory/policies/, ending in a
 * descriptor; memory/policies/policies.def holds a line a policy. */
#ifndef DT_MEMORY_POLICY_H
#define DT_MEMORY_POLICY_H

#include "engine/config.h"
#include "memory/pass.h"

/**
 * struct dt_policy - a policy.
 * @name @summary: as in the INI file and in `dnntrain list policies`
 * @exact: moves, repeats or encodes without changing a bit of what is trained
 * @opts @opts_bytes: its own options, section [policy.NAME]; NULL and 0 for none
 * @pass:  rewrites a program that trains or evaluates; never called for update programs
 */
typedef struct dt_policy {
    const char *name, *summary;
    bool exact;
    const dt_opt *opts;
    size_t opts_bytes;
    dt_status (*pass)(dt_program *p, const void *opts, dt_err *err);
} dt_policy;

const dt_policy *const *dt_policy_all(size_t *n);
const dt_policy *dt_policy_find(const char *name); /* NULL if unknown */

/* The policies of a run with their options, in the order of their passes. */
enum { DT_MAX_POLICIES = 16 };
typedef struct dt_policies {
    size_t n;
    struct {
        const dt_policy *policy;
        void *opts;
    } pass[DT_MAX_POLICIES];
} dt_policies;

/* Look up a comma-separated list and bind [policy.NAME] of @c (NULL: defaults). DT_E_CONFIG names
 * an unknown policy, the nearest, and all; or a wrong option. Release with dt_policies_close even
 * after a failure. */
dt_status dt_policies_open(
    dt_policies *out, const char *list, dt_config *c, dt_err *err) DT_NODISCARD;
void dt_policies_close(dt_policies *s);

dt_status dt_policies_apply(const dt_policies *s, dt_program *p, dt_err *err) DT_NODISCARD;
bool dt_policies_exact(const dt_policies *s); /* all of them */

#endif
