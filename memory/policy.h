/* A policy is a pass from program to program. One file each in memory/policies/, ending in a
 * descriptor; memory/policies/policies.def holds a line a policy. */
#ifndef DT_MEMORY_POLICY_H
#define DT_MEMORY_POLICY_H

#include "engine/config/config.h"
#include "engine/config/run_options.h"
#include "memory/density.h"
#include "memory/pass.h"
#include "memory/pools/pool.h"

/**
 * struct dt_pass_env - what a pass knows besides the program.
 * @opts:          of its section [policy.NAME]
 * @device_budget: bytes of the arena; 0: none
 * @pool:          places what the run's plans hold; NULL: greedy
 * @density:       how many values are not zero, as measured; NULL: not known
 * @dense:         plan for the step whose packed values did not fit: nothing may depend on values
 */
typedef struct dt_pass_env {
    const void *opts;
    uint64_t device_budget;
    const dt_pool_desc *pool;
    const dt_densities *density;
    bool dense;
} dt_pass_env;

/* The density to make room for: 1 for a dense plan, what was measured of the tensor, or @otherwise.
 */
double dt_pass_density(const dt_pass_env *e, const dt_tensor *t, double otherwise);

/* dt_encode with the room that the tensor's density, or @otherwise, asks for. In a dense plan what
 * would have been packed moves to the host instead: such a step is rare and may take its time, but
 * not more of the device. *packed is DT_NONE then. */
dt_status dt_pass_encode(dt_program *p, const dt_pass_env *e, const dt_gap *g,
    const dt_codec *codec, double otherwise, int32_t *packed, dt_err *err) DT_NODISCARD;

/* What a ladder may come to: other policies, and how the algorithms of ops are chosen. */
typedef struct dt_rung {
    const char *policy;
    dt_algorithm_choice algorithms;
} dt_rung;

/**
 * struct dt_policy - a policy.
 * @name @summary: as in the INI file and in `dnntrain list policies`
 * @exact: moves, repeats or encodes without changing a bit of what is trained
 * @opts @opts_bytes: its own options, section [policy.NAME]; NULL and 0 for none
 * @pass:  rewrites a program that trains or evaluates; never called for update programs
 * @rung @n_rung: of a ladder: a run takes the first that fits its budgets; pass is then the last
 * one's
 */
typedef struct dt_policy {
    const char *name, *summary;
    bool exact;
    const dt_opt *opts;
    size_t opts_bytes;
    dt_status (*pass)(dt_program *p, const dt_pass_env *env, dt_err *err);
    const dt_rung *rung;
    size_t n_rung;
} dt_policy;

const dt_policy *const *dt_policy_all(size_t *n);
const dt_policy *dt_policy_find(const char *name); /* NULL if unknown */
void dti_policy_add(const dt_policy *p);           /* from outside; it has room */

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

/* All passes in turn; of @env (NULL: nothing known) each gets its own opts. */
dt_status dt_policies_apply(
    const dt_policies *s, dt_program *p, const dt_pass_env *env, dt_err *err) DT_NODISCARD;
/* The first of a comma-separated list that is a ladder; NULL: none is. */
const dt_policy *dt_policies_ladder(const char *list);
bool dt_policies_exact(const dt_policies *s); /* all of them */

#endif
