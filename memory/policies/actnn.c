/* ActNN (Chen et al., ICML 2021): what backward reads again waits in a few bits a value, rounded at
 * random so that it is right in the mean (memory/codecs/quantize_bits.h). For layers whose gradient
 * goes along with the value, as a convolution's of its weight, the gradient of a step is then right
 * in the mean as well, only noisier (section 3, theorem 1); forward has read the values whole.
 * Where a bit or a place tells all that backward asks of a value, as of a ReLU or a max-pool, that
 * is kept as it is (section 5).
 *
 * Ours differs:
 * - All values have as many bits. Bits of the paper's that are shared out among samples and layers
 * by the norms of their gradients (section 4.2) are not here.
 * - Channels lie side by side, so a group is of several channels at a few pixels. The paper's is of
 *   pixels of one channel.
 * - The lowest level of a group goes down and their distance up when they become bf16, so that no
 *   value is cut off; the paper's are rounded to nearest.
 * - The last group of a sample has the values that are left, and is not filled up.
 * - The input of the network is not kept but fetched again from the batch. */
#include "memory/policy.h"

typedef struct options {
    int bits;
} options;

static const char *const bits[] = {"8", "4", "2", "1", NULL};
static const char *const codecs[] = {"int8", "int4", "int2", "int1"};

/* clang-format off */
static const dt_opt opts[] = {
    {"bits", DT_OPT_ENUM, offsetof(options, bits), "2",  0, 0, bits, NULL, "of a value between forward and backward; 256 values share 32 more"},
    {NULL,   DT_OPT_I64,  0,                       NULL, 0, 0, NULL, NULL, NULL},
};
/* clang-format on */

static dt_status quantize(dt_program *p, int32_t tensor, const dt_codec *codec, dt_err *err)
{
    dti_gap g;
    int32_t packed;
    const dt_tensor *t = &p->tensor[tensor];
    if (!dt_packs(t) || t->node == DT_NONE || !dti_gap_crossing(p, tensor, &g))
        return DT_OK;
    DT_CHECK(dt_reasons_add(&p->reasons, &g.reason, err, "%s: %.48s waits for backward in %s",
        p->policy, t->name, codec->name));
    return dti_encode(p, &g, codec, 1, &packed, err);
}

static dt_status actnn(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dt_codec *codec = dti_codec_find(codecs[o->bits]);
    int32_t reason;
    if (p->loss == DT_NONE)
        return DT_OK;
    if (p->graph->dtype != DT_F32)
        return DT_FAIL(err, DT_E_CONFIG,
            "actnn packs values of 32 bits, but train.precision is %s; set train.precision = fp32",
            dt_dtype_name(p->graph->dtype));
    DT_CHECK(dt_reasons_add(
        &p->reasons, &reason, err, "%s: backward reads signs and places from bits", p->policy));
    DT_CHECK(dti_choose_each(p, dt_sign_free, reason, err));
    for (int32_t t = 0, n = (int32_t)p->n_tensor; t < n; t++)
        DT_CHECK(quantize(p, t, codec, err));
    return dti_fetch_again(p, err);
}

const dt_policy dt_policy_actnn = {
    .name = "actnn",
    .summary = "bits for ReLU, and everything else in 8, 4, 2 bits or 1 until backward: lossy",
    .exact = false,
    .fp32 = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = actnn,
};
