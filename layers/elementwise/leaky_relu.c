/* Leaky ReLU. */
#include "layers/elementwise/leaky_relu.h"

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

/* clang-format off */
static const dt_opt options[] = {
    {"slope", DT_OPT_F64, offsetof(dt_leaky_relu, slope), "0.01", 0, 1, NULL, NULL, "slope below zero"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const double slope = ((const dt_leaky_relu *)opts)->slope;
    const double elements = (double)dt_shape_sample(&x[0]);
    (void)n_x;
    if (!(slope >= 0 && slope <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "leaky_relu: slope = %g must be 0 to 1", slope);
    *info = (dt_layer_info){.y = x[0], .forward_flops = elements, .backward_flops = {elements}};
    return DT_OK;
}

const dt_layer_desc dt_layer_leaky_relu = {
    .name = "leaky_relu",
    .summary = "y = x, or slope times x below zero",
    .opts = options,
    .opts_bytes = sizeof(dt_leaky_relu),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_IN_PLACE_FORMS(0),
    .n_alt = 1,
    .alt = {{"y", DT_BIT(DT_Y)}},
    .reads_flat = true,
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_leaky_relu_cpu,
};
