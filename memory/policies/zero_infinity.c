/* ZeRO-Infinity (Rajbhandari et al., SC 2021). Nothing that outlives a step stays on the device:
 * parameters come for each layer, forward and backward, gradients leave, and the update goes
 * through parameters, gradients and optimizer state in sub-groups, of which the next are read and
 * the last are written while one is computed. How many bytes of them are under way memory.ahead
 * says.
 *
 * Where ours differs: there is one device, so that nothing is cut in shards; a sub-group is a
 * parameter with what belongs to it, or a slice of them (memory.slice); large layers are cut into
 * tiles by the network ([model] tiles and head_tiles), as that changes the order of sums, which no
 * policy may. The paper's user chooses between processor and NVMe for each kind of tensor; `auto`
 * chooses for each tensor: the host as far as its budget has room, weights first, as they move most
 * often. Activations are another policy's affair: zero_infinity,chen_sqrt is the paper's
 * checkpointing. */
#include "engine/base/numbers.h"
#include "memory/policy.h"
#include "memory/pools/pool.h"

static const char *const places[] = {
    [DT_AT_DEVICE] = "device", [DT_TIER_HOST] = "host", [DT_TIER_DISK] = "disk", "auto", NULL};
enum { AUTO = DT_TIER_DISK + 1 };

typedef struct zero_infinity_opts {
    int parameters, gradients, states;
} zero_infinity_opts;

#define AT(f) offsetof(zero_infinity_opts, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"parameters", DT_OPT_ENUM, AT(parameters), "auto", 0, 0, places, NULL, "where parameters live; auto: on the host as far as memory.host_budget has space, else, and without a host_budget, on the disk"},
    {"gradients",  DT_OPT_ENUM, AT(gradients),  "auto", 0, 0, places, NULL, "where gradients live; auto: as parameters, in the space that those leave"},
    {"states",     DT_OPT_ENUM, AT(states),     "auto", 0, 0, places, NULL, "where the optimizer's state lives; auto: as parameters, in the space that parameters and gradients leave"},
    {NULL, DT_OPT_BOOL, 0, NULL, 0, 0, NULL, NULL, NULL}};
/* clang-format on */

static dt_tier place(int asked, const dt_home *h, uint64_t *host)
{
    uint64_t bytes;
    if (asked != AUTO)
        return (dt_tier)asked;
    if (!dt_round_up(h->bytes, dt_tier_align(DT_TIER_HOST), &bytes) || bytes > *host)
        return DT_TIER_DISK;
    *host -= bytes;
    return DT_TIER_HOST;
}

static dt_tier home(const void *with, dt_device_kind device, const dt_home *h, uint64_t *host)
{
    (void)device;
    const zero_infinity_opts *o = with;
    return h->role == DT_ROLE_WEIGHTS     ? place(o->parameters, h, host)
           : h->role == DT_ROLE_GRADIENTS ? place(o->gradients, h, host)
           : h->role == DT_ROLE_OPTIMIZER ? place(o->states, h, host)
                                          : DT_AT_DEVICE;
}

static bool fills_host(const void *with)
{
    const zero_infinity_opts *o = with;
    return o->parameters == AUTO || o->gradients == AUTO || o->states == AUTO;
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
    .fills_host = fills_host,
};
