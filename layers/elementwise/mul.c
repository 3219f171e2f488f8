/* The product of two values, or of a map and a factor a channel. */
#include "layers/elementwise/mul.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x;
    const bool factor = x[1].h == 1 && x[1].w == 1 && x[1].c == x[0].c;
    if (!factor && !dt_shape_same(&x[0], &x[1]))
        return DT_FAIL(err, DT_E_CONFIG,
            "mul: input 2 must have the shape of input 1, %" PRId64 "x%" PRId64 "x%" PRId64
            ", or be one pixel of as many channels, but is %" PRId64 "x%" PRId64 "x%" PRId64,
            x[0].h, x[0].w, x[0].c, x[1].h, x[1].w, x[1].c);
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .forward_flops = elements,
        .backward_flops = {3 * elements}, /* two products, and the sum of one over a map */
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_mul = {
    .name = "mul",
    .summary = "product of two values of one shape, or of a map and one pixel",
    .min_in = 2,
    .max_in = 2,
    .form = DTI_IN_PLACE_FORMS(0),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .reads_flat = true,
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_mul_cpu,
};
