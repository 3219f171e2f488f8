/* Dropout, whose mask is drawn again in backward. */
#include "layers/elementwise/dropout.h"

#include "layers/cpu/cpu.h"

/* clang-format off */
static const dt_opt opts[] = {
    {"rate", DT_OPT_F64, offsetof(dt_dropout, rate), "0.5", 0, 1, NULL, NULL, "probability of zero"},
    {NULL,   DT_OPT_I64, 0,                          NULL,  0, 0, NULL, NULL, NULL},
};
/* clang-format on */

static dt_status dropout_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dt_dropout *d = o;
    if (!(d->rate >= 0 && d->rate <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "dropout: rate %g; it must be in [0, 1]", d->rate);
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .forward_flops = elements,
        .backward_flops = {elements},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_dropout = {
    .name = "dropout",
    .summary = "zero elements at random while training",
    .opts = opts,
    .opts_bytes = sizeof(dt_dropout),
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X),
                .writes = DT_BIT(DT_Y),
                .split = true,
                .n_over = 1,
                .over = {{DT_Y, DT_X}}},
            [DT_EVAL] = {.suffix = "e",
                .reads = DT_BIT(DT_X),
                .writes = DT_BIT(DT_Y),
                .split = true,
                .n_over = 1,
                .over = {{DT_Y, DT_X}}},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY),
                .writes = DT_BIT(DT_DX),
                .split = true,
                .n_over = 1,
                .over = {{DT_DX, DT_DY}}},
        },
    .keeps_sign = true,
    .reads_flat = true,
    .repeatable = true,
    .infer = dropout_infer,
    .cpu = &dt_dropout_cpu,
};
