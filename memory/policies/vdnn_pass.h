/* vDNN's moves, for the policies that are vDNN and those that add to it. */
#ifndef DT_MEMORY_POLICIES_VDNN_PASS_H
#define DT_MEMORY_POLICIES_VDNN_PASS_H

#include "memory/policy.h"

/**
 * struct dt_vdnn_opts - which moves, and how.
 * @all:   vdnn_all; otherwise vdnn_conv
 * @codec: packs fp32 values on the way; NULL: none does
 * @density: share of values not zero to make room for, where @env knows none
 * @every: pack what moves even where nothing says that it has zeros
 */
typedef struct dt_vdnn_opts {
    const dt_pass_env *env;
    bool all;
    const dt_codec *codec;
    double density;
    bool every;
} dt_vdnn_opts;

dt_status dti_vdnn_pass(dt_program *p, const dt_vdnn_opts *o, dt_err *err) DT_NODISCARD;

#endif
