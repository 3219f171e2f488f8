/* ZeRO-Offload (Ren et al., USENIX ATC 2021). The device keeps the parameters and does forward and
 * backward, whose work grows with the batch; gradients and the optimizer's state live on the host,
 * and so does the update, whose work does not. A gradient leaves as soon as it is whole, and the
 * weights come back from the update.
 *
 * Where ours differs: the paper's device holds parameters in 16 bits and the host a copy in 32, so
 * that 2 bytes a parameter go each way; here parameters are 32 bits wide and there is one of each.
 * On a processor, whose memory the host's is, an update works on gradients and state where they
 * live, and no weight has to be copied. For a card parameters live on the host, too (@parameters):
 * there the processor's kernels update them, and they come for forward and backward: behind the
 * step or, where updates are early, each as soon as its gradient has come, beside the card. A card
 * whose parameters stay makes the update itself, and fetches gradients and state for it.
 *
 * The one-step delayed update (section 5.2) is there on request, for what it does to a run's
 * results: from step @warmup on, an update takes the gradients of the step before,
 * w(i+1) = w(i) - u(g(w(i-1))), so that the host could make it while the device computes the next.
 * Here they are made one after the other all the same. Gradients have two places on the host then,
 * of which forward and backward fill one while the update reads the other; those that wait are in
 * checkpoints. The step in which the delay begins makes no update. */
#include "memory/policy.h"

static const char *const places[] = {
    [DT_AT_DEVICE] = "device", [DT_TIER_HOST] = "host", "auto", NULL};
enum { AUTO = DT_TIER_HOST + 1 };

typedef struct options {
    int parameters;
    bool delay;
    int64_t warmup;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"parameters", DT_OPT_ENUM, AT(parameters), "auto", 0, 0, places, NULL, "where parameters live; auto: on the device where a processor computes; for a card on the host, which then updates them"},
    {"delay",  DT_OPT_BOOL, AT(delay),  "off", 0, 0,   NULL, NULL,    "update with the gradients of the step before, which changes results; needs one micro-batch and a processor"},
    {"warmup", DT_OPT_I64,  AT(warmup), "40",  0, 1e15, NULL, "steps", "with delay = on: steps before the delay begins"},
    {NULL, DT_OPT_BOOL, 0, NULL, 0, 0, NULL, NULL, NULL}};
/* clang-format on */

static bool changes(const void *given)
{
    return ((const options *)given)->delay;
}

static int64_t delay(const void *given)
{
    const options *o = given;
    return o->delay ? o->warmup : -1;
}

static dt_tier home(const void *given, dt_device_kind device, const dt_home *h, uint64_t *host)
{
    const options *o = given;
    const bool away = o->parameters == DT_TIER_HOST || (o->parameters == AUTO && device != DT_CPU);
    (void)host; /* all of it, whatever the budget */
    if (h->role == DT_ROLE_WEIGHTS)
        return away ? DT_TIER_HOST : DT_AT_DEVICE;
    return h->role == DT_ROLE_GRADIENTS || h->role == DT_ROLE_OPTIMIZER ? DT_TIER_HOST
                                                                        : DT_AT_DEVICE;
}

static dt_status zero_offload(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    (void)p, (void)env, (void)err; /* it says where tensors live, and nothing of values */
    return DT_OK;
}

static const dti_only_with only_with[] = {
    {"warmup", "delay", "on"},
    {NULL, NULL, NULL},
};

const dt_policy dt_policy_zero_offload = {
    .name = "zero_offload",
    .summary =
        "gradients, optimizer state and the update on the host (ZeRO-Offload 2021); delay = on "
        "changes results",
    .exact = true,
    .host_updates = true,
    .changes = changes,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .only_with = only_with,
    .delay = delay,
    .pass = zero_offload,
    .home = home,
};
