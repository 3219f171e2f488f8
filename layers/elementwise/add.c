/* The sum of values, alone and with the ReLU behind it. */
#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/plain.h"

static dt_status add_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts;
    for (int i = 1; i < n_x; i++)
        if (!dt_shape_same(&x[0], &x[i]))
            return DT_FAIL(err, DT_E_CONFIG,
                "add: inputs must have one shape, but input 1 is %" PRId64 "x%" PRId64 "x%" PRId64
                " and input %d is %" PRId64 "x%" PRId64 "x%" PRId64,
                x[0].h, x[0].w, x[0].c, i + 1, x[i].h, x[i].w, x[i].c);
    *info = (dt_layer_info){
        .y = x[0],
        .forward_flops = (double)dt_shape_sample(&x[0]) * (n_x - 1),
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_add = {
    .name = "add",
    .summary = "sum of values of one shape",
    .min_in = 2,
    .max_in = DT_MAX_IN,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X),
                .writes = DT_BIT(DT_Y),
                .split = true,
                .n_over = 2,
                .over = {{DT_Y, DT_X}, {DT_Y, DT_X + 1}}},
        },
    .shares_dy = true,
    .reads_flat = true,
    .repeatable = true,
    .fuse = {&dt_layer_relu, &dt_layer_add_relu},
    .infer = add_infer,
    .cpu = &dt_add_cpu,
};

static dt_status add_relu_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    DT_CHECK(add_infer(opts, x, n_x, info, err));
    const int64_t elements = dt_shape_sample(&x[0]);
    info->n_stash = 1;
    info->stash[0] = (dt_stash_info){.name = "mask", .sample_bytes = (size_t)((elements + 7) / 8)};
    info->forward_flops += (double)elements;
    info->backward_flops[0] = (double)elements;
    return DT_OK;
}

const dt_layer_desc dt_layer_add_relu = {
    .name = "add_relu",
    .summary = "add, then relu, as one",
    .min_in = 2,
    .max_in = DT_MAX_IN,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X),
                .writes = DT_BIT(DT_Y) | DT_BIT(DT_S),
                .split = true,
                .n_over = 2,
                .over = {{DT_Y, DT_X}, {DT_Y, DT_X + 1}}},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY),
                .writes = DT_BIT(DT_DX),
                .saved = true,
                .split = true,
                .n_over = 1,
                .over = {{DT_DX, DT_DY}}},
        },
    .n_alt = 2,
    .alt = {{"y", DT_BIT(DT_Y)}, {"mask", DT_BIT(DT_S)}},
    .shares_dy = true,
    .reads_sign = true,
    .reads_flat = true,
    .repeatable = true,
    .infer = add_relu_infer,
    .cpu = &dt_add_relu_cpu,
};
