/* Options of a policy that another of its options leaves unused. */
#ifndef DT_MEMORY_ONLY_WITH_H
#define DT_MEMORY_ONLY_WITH_H

#include "engine/config/config.h"

/* @key counts only where @with is @value. A list of them ends with a @key of NULL. */
typedef struct dti_only_with {
    const char *key, *with, *value;
} dti_only_with;

/* Values given in [policy.@name] that go unused and are not what they are by default, as a run's
 * own file holds all. DT_E_CONFIG tells the place of the first and what to do. @opts: the policy's,
 * bound; @all: NULL: none. */
dt_status dti_only_with_check(const dt_config *c, const char *name, const dt_opt *opts,
    const dti_only_with *all, dt_err *err) DT_NODISCARD;

#endif
