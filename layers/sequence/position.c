/* A learned vector for each position, added to its channels. */
#include "layers/cpu/cpu.h"
#include "layers/sequence/embedding.h"

/* clang-format off */
static const dt_opt options[] = {
    {"sigma", DT_OPT_F64, offsetof(dt_position, sigma), "1", 0, 1e3, NULL, NULL, "standard deviation of the initial weights"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_position *o = opts;
    (void)n_x, (void)err;
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .n_param = 1,
        .param = {{.name = "weight",
            .rank = 2,
            .d = {x[0].h * x[0].w, x[0].c},
            .init = DT_INIT_NORMAL,
            .scale = o->sigma}},
        .forward_flops = elements,
        .backward_flops = {elements},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_position = {
    .name = "position",
    .summary = "a learned vector added to each position",
    .opts = options,
    .opts_bytes = sizeof(dt_position),
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_P),
                .writes = DT_BIT(DT_Y),
                .split = true,
                .n_over = 1,
                .over = {{DT_Y, DT_X}}},
            [DT_BACKWARD] = {.suffix = "bw", .reads = DT_BIT(DT_DY), .writes = DT_BIT(DT_DP)},
        },
    .shares_dy = true,
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_position_cpu,
};
