/* Root mean square normalisation over the channels of every position. */
#include "layers/rmsnorm.h"

#include "layers/cpu/cpu.h"

/* clang-format off */
static const dt_opt options[] = {
    {"eps", DT_OPT_F64, offsetof(dt_rmsnorm, eps), "1e-6", 1e-12, 1, NULL, NULL, "added to the mean square"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_rmsnorm *o = opts;
    (void)n_x;
    if (!(o->eps >= 1e-12 && o->eps <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "rmsnorm: eps = %g must be 1e-12 to 1", o->eps);
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

/* As layernorm's, backward may not be split. */
const dt_layer_desc dt_layer_rmsnorm = {
    .name = "rmsnorm",
    .summary = "division by the root mean square of a position's channels",
    .opts = options,
    .opts_bytes = sizeof(dt_rmsnorm),
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_P),
                .writes = DT_BIT(DT_Y) | DT_BIT(DT_S),
                .split = true,
                .n_over = 1,
                .over = {{DT_Y, DT_X}}},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY) | DT_BIT(DT_P),
                .writes = DT_BIT(DT_DX) | DT_BIT(DT_DP),
                .saved = true,
                .n_over = 1,
                .over = {{DT_DX, DT_DY}}},
        },
    .n_alt = 1,
    .alt = {{"x_statistics", DT_BIT(DT_X) | DT_BIT(DT_S)}},
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_rmsnorm_cpu,
};
