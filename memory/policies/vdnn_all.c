/* vDNN_all (Rhu et al., MICRO 2016, section III): the inputs of all layers of the feature extractor
 * wait on the host between forward and backward: the smallest peak, and the most copies. How, and
 * where ours differs, is told in vdnn_pass.c. */
#include "memory/policies/vdnn_pass.h"

static dt_status vdnn_all(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const dti_vdnn_opts v = {.env = env, .all = true, .join = dti_vdnn_joins_layers(env)};
    return dti_vdnn_pass(p, &v, err);
}

const dt_policy dt_policy_vdnn_all = {
    .name = "vdnn_all",
    .summary = "all that layers before the classifier leave for backward waits on the host",
    .exact = true,
    .opts = dti_vdnn_config,
    .opts_bytes = sizeof(dti_vdnn_section),
    .pass = vdnn_all,
};
