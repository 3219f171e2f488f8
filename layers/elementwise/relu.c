/* ReLU: backward reads the output or a mask of a bit a value. */
#include "layers/cpu/cpu.h"
#include "layers/forms.h"
#include "layers/plain.h"

static dt_status relu_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x, (void)err;
    const int64_t elements = dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .n_stash = 1,
        .stash = {{.name = "mask", .sample_bytes = (size_t)((elements + 7) / 8)}},
        .forward_flops = (double)elements,
        .backward_flops = {(double)elements},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_relu = {
    .name = "relu",
    .summary = "y = max(x, 0)",
    .min_in = 1,
    .max_in = 1,
    .form = DTI_IN_PLACE_FORMS(DT_BIT(DT_S)),
    .n_alt = 2,
    .alt = {{"y", DT_BIT(DT_Y)}, {"mask", DT_BIT(DT_S)}},
    .reads_sign = true,
    .reads_flat = true,
    .repeatable = true,
    .infer = relu_infer,
    .cpu = &dt_relu_cpu,
};
