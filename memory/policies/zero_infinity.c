/* ZeRO-Infinity (Rajbhandari et al., SC 2021). Nothing that outlives a step stays on the device:
 * parameters come for each layer, forward and backward, gradients leave, and the update goes
 * through parameters, gradients and optimizer state in sub-groups, of which the next are read and
 * the last are written while one is computed. How many bytes of them are under way memory.ahead
 * says.
 *
 * Where ours differs: there is one device, so that nothing is cut in shards; a sub-group is a
 * parameter with what belongs to it, or a slice of them (memory.slice); large layers are not cut
 * into tiles, which would change the order of sums. Activations are another policy's affair:
 * zero_infinity,chen_sqrt is the paper's checkpointing. */
#include "memory/policy.h"

static const char *const places[] = {
    [DT_AT_DEVICE] = "device", [DT_TIER_HOST] = "host", [DT_TIER_DISK] = "disk", NULL};

typedef struct zero_infinity_opts {
    int parameters, gradients, states;
} zero_infinity_opts;

#define AT(f) offsetof(zero_infinity_opts, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"parameters", DT_OPT_ENUM, AT(parameters), "disk", 0, 0, places, NULL, "where parameters live"},
    {"gradients",  DT_OPT_ENUM, AT(gradients),  "disk", 0, 0, places, NULL, "where gradients live"},
    {"states",     DT_OPT_ENUM, AT(states),     "disk", 0, 0, places, NULL, "where the optimizer's state lives"},
    {NULL, DT_OPT_BOOL, 0, NULL, 0, 0, NULL, NULL, NULL}};
/* clang-format on */

static dt_tier home(const void *with, const dt_home *h)
{
    const zero_infinity_opts *o = with;
    return (dt_tier)(h->role == DT_ROLE_WEIGHTS     ? o->parameters
                     : h->role == DT_ROLE_GRADIENTS ? o->gradients
                     : h->role == DT_ROLE_OPTIMIZER ? o->states
                                                    : DT_AT_DEVICE);
}

static dt_status zero_infinity(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    (void)p, (void)env, (void)err; /* it says where tensors live, and nothing of values */
    return DT_OK;
}

const dt_policy dt_policy_zero_infinity = {
    .name = "zero_infinity",
    .summary = "parameters, gradients and optimizer state on the disk (ZeRO-Infinity 2021)",
    .exact = true,
    .to_disk = true,
    .opts = opts,
    .opts_bytes = sizeof(zero_infinity_opts),
    .pass = zero_infinity,
    .home = home,
};
