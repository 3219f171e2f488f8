/* The mean along an axis. */
#include "layers/pool/mean.h"

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

static const char *const axes[] = {"height", "width", "space", "channels", NULL};
/* clang-format off */
static const dt_opt options[] = {
    {"over", DT_OPT_ENUM, offsetof(dti_mean, over), "space", 0, 0, axes, NULL, "what to average over: height (a sequence's positions), width, space (both) or channels"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x, (void)err;
    const int over = ((const dti_mean *)opts)->over;
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){.y = x[0], .forward_flops = elements, .backward_flops = {elements}};
    if (over == DTI_MEAN_CHANNELS)
        info->y.c = 1;
    if (over == DTI_MEAN_HEIGHT || over == DTI_MEAN_SPACE)
        info->y.h = 1;
    if (over == DTI_MEAN_WIDTH || over == DTI_MEAN_SPACE)
        info->y.w = 1;
    return DT_OK;
}

const dt_layer_desc dt_layer_mean = {
    .name = "mean",
    .summary = "mean over height, width, both or channels",
    .opts = options,
    .opts_bytes = sizeof(dti_mean),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_mean_cpu,
};
