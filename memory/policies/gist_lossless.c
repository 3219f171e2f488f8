/* Gist without loss (Jain et al., ISCA 2018, table I): Binarize and SSDC. One bit stands for a
 * value of a ReLU that only its sign is asked of, four for the place of a maximum, and a sparse
 * matrix for values that a convolution reads again. How, and where ours differs, is told in
 * gist_pass.c. */
#include "memory/policies/gist_pass.h"

typedef struct options {
    double density;
} options;

/* clang-format off */
static const dt_opt opts[] = {
    {"density", DT_OPT_F64, offsetof(options, density), "1",  0, 1, NULL, NULL, "share of nonzero values to reserve space for, where memory.profile does not say; at 1 nothing is stored as a sparse matrix"},
    {NULL,      DT_OPT_I64, 0,                          NULL, 0, 0, NULL, NULL, NULL},
};
/* clang-format on */

static dt_status gist_lossless(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dti_gist_opts g = {.env = env, .sparse = dti_codec_find("csr"), .density = o->density};
    return dti_gist_pass(p, &g, err);
}

const dt_policy dt_policy_gist_lossless = {
    .name = "gist_lossless",
    .summary = "bits for ReLU, places for max-pools, sparse matrices for convolutions (Gist 2018)",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = gist_lossless,
};
