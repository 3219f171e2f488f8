/* Keep every value from its first use to its last, and no longer: what a liveness analysis gives.
 * Lowering does that by itself, and puts values in place where layers allow it, so there is nothing
 * to rewrite. The line that all other policies are measured against. */
#include "memory/policy.h"

static dt_status keep_all(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    (void)env;
    (void)p;
    (void)err;
    return DT_OK;
}

const dt_policy dt_policy_keep_all = {
    .name = "keep_all",
    .summary = "every value from its first use to its last; in place where layers allow",
    .exact = true,
    .pass = keep_all,
};
