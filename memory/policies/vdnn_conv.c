/* vDNN_conv (Rhu et al., MICRO 2016, section III): the inputs of convolutions wait on the host
 * between forward and backward; convolutions take long enough to hide the copies. How, and where
 * ours differs, is told in vdnn_pass.c. */
#include "memory/policies/vdnn_pass.h"

/* clang-format off */
static const dt_opt opts[] = {
    DTI_VDNN_JOIN,
    {NULL, DT_OPT_I64, 0, NULL, 0, 0, NULL, NULL, NULL},
};
/* clang-format on */

static dt_status vdnn_conv(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const dti_vdnn_opts v = {
        .env = env, .moves = DTI_VDNN_CONV, .join = dti_vdnn_joins_layers(env)};
    return dti_vdnn_pass(p, &v, err);
}

const dt_policy dt_policy_vdnn_conv = {
    .name = "vdnn_conv",
    .summary = "inputs of convolutions wait on the host between forward and backward",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(dti_vdnn_section),
    .pass = vdnn_conv,
};
