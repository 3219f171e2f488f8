/* Layer normalisation over the channels of every position. */
#include "layers/norm/layernorm.h"

#include "layers/cpu/cpu.h"
#include "layers/norm/norm.h"

/* clang-format off */
static const dt_opt options[] = {
    {"eps", DT_OPT_F64, offsetof(dt_layernorm, eps), "1e-5", 1e-12, 1, NULL, NULL, "added to the variance"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_layernorm *o = opts;
    (void)n_x;
    DT_CHECK(dti_norm_eps("layernorm", o->eps, err));
    dti_norm_infer(&x[0], x[0].h * x[0].w, info);
    return DT_OK;
}

const dt_layer_desc dt_layer_layernorm = {
    .name = "layernorm",
    .summary = "layer normalisation over the channels of a position",
    .opts = options,
    .opts_bytes = sizeof(dt_layernorm),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_NORM_FORMS(2),
    .n_alt = 1,
    .alt = {{"x_statistics", DT_BIT(DT_X) | DT_BITS(DT_S, 2)}},
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_layernorm_cpu,
};
