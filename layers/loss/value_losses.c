/* Losses of values, the end of a network that learns numbers and not classes. */
#include "layers/loss/value_losses.h"

#include "layers/cpu/cpu.h"

/* Of any of them, for n = 1; bce's exponential and logarithm are what a sample takes most of. */
static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x, (void)err;
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = {x[0].n, 1, 1, 1},
        .forward_flops = 4 * elements,
        .backward_flops = {3 * elements},
    };
    return DT_OK;
}

static dt_status bce_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    DT_CHECK(infer(opts, x, n_x, info, err));
    info->forward_flops *= 10; /* an exponential and a logarithm */
    info->backward_flops[0] *= 7;
    return DT_OK;
}

/* Backward reads what forward has read, and its gradient may take the bytes of that. */
#define VALUE_LOSS_FORMS                                                                           \
    {                                                                                              \
        [DT_FORWARD] = {.suffix = "f",                                                             \
            .reads = DT_BIT(DT_X) | DT_BIT(DT_LABELS),                                             \
            .updates = DT_BIT(DT_METRICS)},                                                        \
        [DT_EVAL] = {.suffix = "e",                                                                \
            .reads = DT_BIT(DT_X) | DT_BIT(DT_LABELS),                                             \
            .updates = DT_BIT(DT_METRICS)},                                                        \
        [DT_BACKWARD] = {.suffix = "b",                                                            \
            .reads = DT_BIT(DT_LABELS),                                                            \
            .writes = DT_BIT(DT_DX),                                                               \
            .saved = true,                                                                         \
            .n_over = 1,                                                                           \
            .over = {{DT_DX, DT_X}}},                                                              \
    }

#define VALUE_LOSS(what, of, kind, how)                                                            \
    .name = #what, .summary = (of), .min_in = 1, .max_in = 1, .form = VALUE_LOSS_FORMS,            \
    .n_alt = 1, .alt = {{"x", DT_BIT(DT_X)}}, .loss = true, .reads_flat = true, .labels = (kind),  \
    .infer = (how), .cpu = &dt_##what##_cpu

const dt_layer_desc dt_layer_bce = {VALUE_LOSS(bce,
    "binary cross entropy of the sigmoid of each element and a label from 0 to 1, mean over the "
    "step's elements, those that count",
    DT_LABEL_PROBABILITY, bce_infer)};

const dt_layer_desc dt_layer_l1 = {VALUE_LOSS(l1,
    "distance of each element from its label, mean over the step's elements, those that count",
    DT_LABEL_VALUE, infer)};

const dt_layer_desc dt_layer_mse = {VALUE_LOSS(mse,
    "square of the distance of each element from its label, mean over the step's elements, those "
    "that count",
    DT_LABEL_VALUE, infer)};

/* clang-format off */
static const dt_opt smooth_l1_opts[] = {
    {"beta", DT_OPT_F64, offsetof(dti_smooth_l1, beta), "1", 1e-6, 1e6, NULL, NULL, "distance below which the loss is a square"},
    {NULL,   DT_OPT_I64, 0,                             NULL, 0, 0, NULL, NULL, NULL},
};
/* clang-format on */

const dt_layer_desc dt_layer_smooth_l1 = {
    VALUE_LOSS(smooth_l1,
        "as l1, but a square where the distance is below beta: the loss of Huber, divided by beta",
        DT_LABEL_VALUE, infer),
    .opts = smooth_l1_opts,
    .opts_bytes = sizeof(dti_smooth_l1),
};
