/* vDNN_all (Rhu et al., MICRO 2016, section III): the inputs of all layers of the feature extractor
 * wait on the host between forward and backward: the smallest peak, and the most copies. How, and
 * where ours differs, is told in vdnn_pass.c. */
#include "memory/policies/vdnn_pass.h"

enum { ALL, INPUTS };
static const char *const values[] = {[ALL] = "all", [INPUTS] = "inputs", NULL};

/* clang-format off */
static const dt_opt opts[] = {
    DTI_VDNN_JOIN,
    {"values", DT_OPT_ENUM, offsetof(dti_vdnn_section, values), "all", 0, 0, values, NULL, "what moves: all: whatever the layers leave for backward; inputs: inputs of convolutions and pools alone, as in the paper"},
    {NULL,     DT_OPT_I64,  0,                                  NULL,  0, 0, NULL,   NULL, NULL},
};
/* clang-format on */

static dt_status vdnn_all(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const dti_vdnn_section *c = env->opts;
    const dti_vdnn_opts v = {.env = env,
        .moves = c->values == ALL ? DTI_VDNN_ALL : DTI_VDNN_INPUTS,
        .join = dti_vdnn_joins_layers(env)};
    return dti_vdnn_pass(p, &v, err);
}

const dt_policy dt_policy_vdnn_all = {
    .name = "vdnn_all",
    .summary = "all that layers before the classifier leave for backward waits on the host",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(dti_vdnn_section),
    .pass = vdnn_all,
};
