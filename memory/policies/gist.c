/* Gist with loss (Jain et al., ISCA 2018, table I): gist_lossless, and DPR. Every other value, and
 * those of the sparse matrices, wait for backward in 16, 10 or 8 bits; forward has read them whole
 * before, so losses of the step are those of fp32 and only gradients differ. The paper found the
 * fewest bits that train by trial: fp16 for VGG-16, fp10 for Inception, fp8 for AlexNet. How, and
 * where ours differs, is told in gist_pass.c.
 *
 * Values of bf16 have 16 bits already. So fp16 leaves them as they are, and the policy is then
 * gist_lossless; fewer bits are for fp32 alone. */
#include "memory/policies/gist_pass.h"

typedef struct options {
    double density;
    int dpr;
} options;

static const char *const formats[] = {"fp16", "fp10", "fp8", NULL};
static const char *const sparse[] = {"csr_fp16", "csr_fp10", "csr_fp8"};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"dpr",     DT_OPT_ENUM, AT(dpr),     "fp16", 0, 0, formats, NULL, "format that values are rounded to between forward and backward"},
    {"density", DT_OPT_F64,  AT(density), "1",    0, 1, NULL,    NULL, "share of nonzero values to reserve space for, where memory.profile does not say; sparse matrices are used where they are smaller"},
    {NULL,      DT_OPT_I64,  0,           NULL,   0, 0, NULL,    NULL, NULL},
};
/* clang-format on */

static dt_status gist(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    if (p->graph->dtype != DT_F32 && o->dpr != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "[policy.gist] dpr = %s rounds values of 32 bits, but train.precision is bf16, whose "
            "values have 16; take dpr = fp16, with which bf16 values wait as they are, or "
            "train.precision = fp32",
            formats[o->dpr]);
    if (p->graph->dtype != DT_F32) {
        const dti_gist_opts exact = {
            .env = env, .sparse = dti_codec_find("csr"), .density = o->density};
        return dti_gist_pass(p, &exact, err);
    }
    const dti_gist_opts g = {.env = env,
        .sparse = dti_codec_find(sparse[o->dpr]),
        .dense = dti_codec_find(formats[o->dpr]),
        .density = o->density};
    return dti_gist_pass(p, &g, err);
}

const dt_policy dt_policy_gist = {
    .name = "gist",
    .summary = "gist_lossless; lossy: all other stashed values in 16, 10 or 8 bits",
    .exact = false,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = gist,
};
