/* Gist's rewriting, shared by the policy without loss and the one with. */
#ifndef DT_MEMORY_POLICIES_GIST_PASS_H
#define DT_MEMORY_POLICIES_GIST_PASS_H

#include "memory/policy.h"

/**
 * struct dti_gist_opts - what is encoded.
 * @sparse: codec of values that are often zero and that backward needs
 * @dense:  codec of all others; NULL: they stay
 * @density: share of values not zero to make room for, where @env knows none
 */
typedef struct dti_gist_opts {
    const dt_pass_env *env;
    const dt_codec *sparse, *dense;
    double density;
} dti_gist_opts;

dt_status dti_gist_pass(dt_program *p, const dti_gist_opts *o, dt_err *err) DT_NODISCARD;

#endif
