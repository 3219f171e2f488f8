/* vDNN_all (Rhu et al., MICRO 2016, section III): the inputs of all layers of the feature extractor
 * wait on the host between forward and backward: the smallest peak, and the most copies. How, and
 * where ours differs, is told in vdnn_pass.c. */
#include "memory/policies/vdnn_pass.h"

static dt_status vdnn_all(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    return dti_vdnn_pass(p, &(dt_vdnn_opts){.env = env, .all = true}, err);
}

const dt_policy dt_policy_vdnn_all = {
    .name = "vdnn_all",
    .summary = "all that layers before the classifier leave for backward waits on the host",
    .exact = true,
    .pass = vdnn_all,
};
