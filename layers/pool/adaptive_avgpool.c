/* Average pooling to a given size. */
#include "layers/pool/adaptive_avgpool.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

enum { MOST_OUT = 1024, MOST_SIDE = 1 << 30 };

/* clang-format off */
static const dt_opt opts[] = {
    {"out", DT_OPT_I64, offsetof(dti_adaptive_avgpool, out), NULL, 1, MOST_OUT, NULL, "pixels", "height and width of the output"},
    {NULL,  DT_OPT_I64, 0,                                  NULL, 0, 0,        NULL, NULL,     NULL},
};
/* clang-format on */

static dt_status adaptive_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const int64_t out = ((const dti_adaptive_avgpool *)o)->out;
    if (out < 1 || out > MOST_OUT)
        return DT_FAIL(err, DT_E_CONFIG, "adaptive_avgpool: out = %" PRId64 " must be 1 to %d", out,
            (int)MOST_OUT);
    if (x->h > MOST_SIDE || x->w > MOST_SIDE)
        return DT_FAIL(err, DT_E_CONFIG,
            "adaptive_avgpool: a map of %" PRId64 "x%" PRId64 " is too large; at most %d a side",
            x->h, x->w, (int)MOST_SIDE);
    const double adds = (double)dt_shape_sample(x); /* a little more where windows overlap */
    *info = (dt_layer_info){
        .y = {x->n, out, out, x->c}, .forward_flops = adds, .backward_flops = {adds}};
    return DT_OK;
}

const dt_layer_desc dt_layer_adaptive_avgpool = {
    .name = "adaptive_avgpool",
    .summary = "mean over windows, to an output of a given size",
    .opts = opts,
    .opts_bytes = sizeof(dti_adaptive_avgpool),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .mixes_positions = true,
    .infer = adaptive_infer,
    .cpu = &dt_adaptive_avgpool_cpu,
};
