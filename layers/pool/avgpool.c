/* Average pooling. */
#include "layers/pool/avgpool.h"

#include "layers/cpu/cpu.h"
#include "layers/forms.h"
#include "layers/pool/pool.h"

#define AT(f) offsetof(dt_avgpool, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"kernel",      DT_OPT_SIDES, AT(kernel),     NULL,  1, 1024, NULL, "pixels", "height and width of the window; 1x7 where they differ"},
    {"stride",      DT_OPT_SIDES, AT(stride),     "0",   0, 1024, NULL, "pixels", "step between windows; 0: as kernel"},
    {"pad",         DT_OPT_SIDES, AT(pad),        "0",   0, 512,  NULL, "pixels", "border of zeros; at most half of kernel"},
    {"ceil",        DT_OPT_BOOL, AT(ceil),        "off", 0, 0,    NULL, NULL,     "round the output size up"},
    {"include_pad", DT_OPT_BOOL, AT(include_pad), "on",  0, 0,    NULL, NULL,     "count padding in the divisor"},
    {NULL,          DT_OPT_I64,  0,               NULL,  0, 0,    NULL, NULL,     NULL},
};
/* clang-format on */

static dt_status avgpool_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dt_avgpool *a = o;
    const dti_windows p = dti_windows_of(a->kernel, a->stride, a->pad, a->ceil);
    dt_shape y;
    DT_CHECK(dti_windows_infer(&p, "avgpool", x, &y, err));
    const double adds = (double)dt_shape_sample(&y) * (double)(p.h.kernel * p.w.kernel);
    *info = (dt_layer_info){.y = y, .forward_flops = adds, .backward_flops = {adds}};
    return DT_OK;
}

const dt_layer_desc dt_layer_avgpool = {
    .name = "avgpool",
    .summary = "mean over windows",
    .opts = opts,
    .opts_bytes = sizeof(dt_avgpool),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .mixes_positions = true,
    .infer = avgpool_infer,
    .cpu = &dt_avgpool_cpu,
};
