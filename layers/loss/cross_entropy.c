/* Softmax and negative log-likelihood, the end of a network. */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

static dt_status cross_entropy_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x, (void)err;
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = {x[0].n, 1, 1, 1},
        .n_stash = 1,
        .stash = {{.name = "prob", .sample_bytes = (size_t)dt_shape_sample(&x[0]) * sizeof(float)}},
        .forward_flops = 5 * elements,
        .backward_flops = {2 * elements},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_cross_entropy = {
    .name = "cross_entropy",
    .summary = "softmax and negative log-likelihood, mean over the step's samples and their "
               "positions or pixels, those that count",
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_LABELS),
                .writes = DT_BIT(DT_S),
                .updates = DT_BIT(DT_METRICS)},
            [DT_EVAL] = {.suffix = "e",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_LABELS),
                .updates = DT_BIT(DT_METRICS)},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_LABELS),
                .writes = DT_BIT(DT_DX),
                .saved = true,
                .n_over = 1,
                .over = {{DT_DX, DT_S}}},
        },
    .n_alt = 1,
    .alt = {{"prob", DT_BIT(DT_S)}},
    .reads_flat = true,
    .loss = true,
    .infer = cross_entropy_infer,
    .cpu = &dt_cross_entropy_cpu,
};
