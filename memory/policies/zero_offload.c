/* ZeRO-Offload (Ren et al., USENIX ATC 2021). The device keeps the parameters and does forward and
 * backward, whose work grows with the batch; gradients and the optimizer's state live on the host,
 * and so does the update, whose work does not. A gradient leaves as soon as it is whole, and the
 * weights come back from the update.
 *
 * Where ours differs: the paper's device holds parameters in 16 bits and the host a copy in 32, so
 * that 2 bytes a parameter go each way; here parameters are 32 bits wide and there is one of each.
 * On a processor, whose memory the host's is, an update works on gradients and state where they
 * live, and no weight has to be copied; a card fetches both for its update and brings the state
 * back, as it does for any home on the host. The delayed update, which changes results, is not
 * offered. */
#include "memory/policy.h"

static dt_tier home(const void *opts, const dt_home *h)
{
    (void)opts;
    return h->role == DT_ROLE_GRADIENTS || h->role == DT_ROLE_OPTIMIZER ? DT_TIER_HOST
                                                                        : DT_AT_DEVICE;
}

static dt_status zero_offload(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    (void)p, (void)env, (void)err; /* it says where tensors live, and nothing of values */
    return DT_OK;
}

const dt_policy dt_policy_zero_offload = {
    .name = "zero_offload",
    .summary = "gradients, optimizer state and the update on the host (ZeRO-Offload 2021)",
    .exact = true,
    .host_updates = true,
    .pass = zero_offload,
    .home = home,
};
