/* vDNN_dyn (Rhu et al., MICRO 2016, section III-C): of the ways to run a network, from the fastest
 * to the one that takes the least, the first that fits. Their first trial, whether the least fits
 * at all, is our last: what it needs is told when nothing fits. Where they take the algorithms
 * greedily one by one, ours fits them to the plan (memory/fit.h). */
#include "memory/policies/vdnn_pass.h"

static const dt_rung ladder[] = {
    {"keep_all", DT_ALGORITHMS_FAST},
    {"vdnn_conv", DT_ALGORITHMS_FAST},
    {"vdnn_all", DT_ALGORITHMS_FAST},
    {"vdnn_conv", DT_ALGORITHMS_FIT},
    {"vdnn_all", DT_ALGORITHMS_FIT},
};

static dt_status vdnn_dyn(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    return dti_vdnn_pass(p, &(dti_vdnn_opts){.env = env, .moves = DTI_VDNN_ALL}, err);
}

const dt_policy dt_policy_vdnn_dyn = {
    .name = "vdnn_dyn",
    .summary =
        "the first of keep_all, vdnn_conv and vdnn_all that fits, by fast algorithms if they do",
    .exact = true,
    .pass = vdnn_dyn,
    .rung = ladder,
    .n_rung = DT_COUNT(ladder),
};
