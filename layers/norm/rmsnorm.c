/* Root mean square normalisation over the channels of every position. */
#include "layers/norm/rmsnorm.h"

#include "layers/cpu/cpu.h"
#include "layers/norm/norm.h"

/* clang-format off */
static const dt_opt options[] = {
    {"eps", DT_OPT_F64, offsetof(dti_rmsnorm, eps), "1e-6", 1e-12, 1, NULL, NULL, "added to the mean square"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dti_rmsnorm *o = opts;
    (void)n_x;
    DT_CHECK(dti_norm_eps("rmsnorm", o->eps, err));
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .n_param = 1,
        .param = {{.name = "weight", .rank = 1, .d = {x[0].c}, .init = DT_INIT_ONE}},
        .n_stash = 1,
        .stash = {{.name = "irms", .sample_bytes = (size_t)(x[0].h * x[0].w) * sizeof(float)}},
        .forward_flops = 4 * elements,
        .backward_flops = {8 * elements},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_rmsnorm = {
    .name = "rmsnorm",
    .summary = "division by the root mean square of a position's channels",
    .opts = options,
    .opts_bytes = sizeof(dti_rmsnorm),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_NORM_FORMS(1),
    .n_alt = 1,
    .alt = {{"x_statistics", DT_BIT(DT_X) | DT_BITS(DT_S, 1)}},
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_rmsnorm_cpu,
};
