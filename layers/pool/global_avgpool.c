/* The mean of each channel of a map. */
#include "layers/cpu/cpu.h"
#include "layers/forms.h"
#include "layers/plain.h"

static dt_status global_avgpool_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x, (void)err;
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = {x[0].n, 1, 1, x[0].c},
        .forward_flops = elements,
        .backward_flops = {elements},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_global_avgpool = {
    .name = "global_avgpool",
    .summary = "mean over height and width",
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .mixes_positions = true,
    .infer = global_avgpool_infer,
    .cpu = &dt_global_avgpool_cpu,
};
