/* Upsampling of a map by a whole factor. */
#include "layers/shape/upsample.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

enum { MOST_FACTOR = 64 };

/* clang-format off */
static const dt_opt opts[] = {
    {"factor", DT_OPT_I64, offsetof(dt_upsample, factor), "2",  1, MOST_FACTOR, NULL, NULL, "factor by which height and width grow"},
    {NULL,     DT_OPT_I64, 0,                             NULL, 0, 0,           NULL, NULL, NULL},
};
/* clang-format on */

static dt_status upsample_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const int64_t factor = ((const dt_upsample *)o)->factor;
    if (factor < 1 || factor > MOST_FACTOR)
        return DT_FAIL(err, DT_E_CONFIG, "upsample: factor %" PRId64 "; it must be 1 to %d", factor,
            (int)MOST_FACTOR);
    if (x->h > INT64_MAX / factor || x->w > INT64_MAX / factor)
        return DT_FAIL(err, DT_E_CONFIG,
            "upsample: %" PRId64 "x%" PRId64 " times %" PRId64 " is too large", x->h, x->w, factor);
    *info = (dt_layer_info){
        .y = {x->n, x->h * factor, x->w * factor, x->c},
        .backward_flops = {(double)dt_shape_sample(x) * (double)(factor * factor)},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_upsample = {
    .name = "upsample",
    .summary = "every pixel several times (nearest neighbour)",
    .opts = opts,
    .opts_bytes = sizeof(dt_upsample),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .infer = upsample_infer,
    .cpu = &dt_upsample_cpu,
};
