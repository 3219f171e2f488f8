/* Activations by a curve: the logistic function, tanh, GELU, SiLU and MobileNet's straight ones. */
#include "layers/elementwise/activations.h"

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

/* Of any of them, for n = 1. */
static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x, (void)err;
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .forward_flops = 20 * elements, /* an exponential and what surrounds it */
        .backward_flops = {3 * elements},
    };
    return DT_OK;
}

/* A layer without options: what it is, and the port from which backward has the slope. */
#define CURVE(curve, of, from, port)                                                               \
    const dt_layer_desc dt_layer_##curve = {                                                       \
        .name = #curve,                                                                            \
        .summary = (of),                                                                           \
        .min_in = 1,                                                                               \
        .max_in = 1,                                                                               \
        .form = DTI_IN_PLACE_FORMS(0),                                                             \
        .n_alt = 1,                                                                                \
        .alt = {{(from), DT_BIT(port)}},                                                           \
        .reads_flat = true,                                                                        \
        .repeatable = true,                                                                        \
        .infer = infer,                                                                            \
        .cpu = &dt_##curve##_cpu,                                                                  \
    }

CURVE(hardsigmoid, "y = min(max(x + 3, 0), 6) / 6", "y", DT_Y);
CURVE(hardswish, "y = x min(max(x + 3, 0), 6) / 6", "x", DT_X);
CURVE(relu6, "y = min(max(x, 0), 6)", "y", DT_Y);
CURVE(sigmoid, "y = 1 / (1 + e^-x)", "y", DT_Y);
CURVE(silu, "y = x / (1 + e^-x)", "x", DT_X);
CURVE(tanh, "hyperbolic tangent", "y", DT_Y);

static const char *const approximations[] = {"none", "tanh", NULL};
/* clang-format off */
static const dt_opt gelu_opts[] = {
    {"approximate", DT_OPT_ENUM, offsetof(dt_gelu, approximate), "none", 0, 0, approximations, NULL, "none: exact, by the error function; tanh: the approximation through tanh"},
    {NULL,          DT_OPT_I64,  0,                              NULL,   0, 0, NULL, NULL, NULL},
};
/* clang-format on */

static dt_status gelu_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    DT_CHECK(infer(o, x, n_x, info, err));
    info->backward_flops[0] = info->forward_flops; /* it starts from x again */
    return DT_OK;
}

const dt_layer_desc dt_layer_gelu = {
    .name = "gelu",
    .summary = "x * Phi(x), Phi the cumulative distribution function of the normal distribution",
    .opts = gelu_opts,
    .opts_bytes = sizeof(dt_gelu),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_IN_PLACE_FORMS(0),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .reads_flat = true,
    .repeatable = true,
    .infer = gelu_infer,
    .cpu = &dt_gelu_cpu,
};
