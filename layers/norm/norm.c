/* What norms whose statistics are of one sample share: parameters, statistics and work. */
#include "layers/norm/norm.h"

dt_status dti_norm_eps(const char *layer, double eps, dt_err *err)
{
    if (!(eps >= 1e-12 && eps <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "%s: eps = %g must be 1e-12 to 1", layer, eps);
    return DT_OK;
}

void dti_norm_infer(const dt_shape *x, int64_t statistics, dt_layer_info *info)
{
    const size_t bytes = (size_t)statistics * sizeof(float);
    const double elements = (double)dt_shape_sample(x);
    *info = (dt_layer_info){
        .y = *x,
        .n_param = 2,
        .param = {{.name = "weight", .rank = 1, .d = {x->c}, .init = DT_INIT_ONE},
            {.name = "bias", .rank = 1, .d = {x->c}, .init = DT_INIT_ZERO}},
        .n_stash = 2,
        .stash = {{.name = "mean", .sample_bytes = bytes}, {.name = "istd", .sample_bytes = bytes}},
        .forward_flops = 7 * elements,
        .backward_flops = {12 * elements},
    };
}
