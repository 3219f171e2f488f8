/* What layers with a weight share: a product of rows by it. */
#include "layers/weighted/weighted.h"

#include <inttypes.h>
#include <math.h>

dt_status dti_rows_infer(const char *layer, int64_t rows, int64_t in, int64_t out, bool bias,
    dt_layer_info *info, dt_err *err)
{
    if (out < 1 || out > DTI_MOST_OUT)
        return DT_FAIL(err, DT_E_CONFIG, "%s: out = %" PRId64 " must be 1 to %d", layer, out,
            (int)DTI_MOST_OUT);
    const double bound = 1.0 / sqrt((double)in);
    info->param[0] = (dt_param_info){
        .name = "weight", .rank = 2, .d = {out, in}, .init = DT_INIT_UNIFORM, .scale = bound};
    info->param[1] = (dt_param_info){
        .name = "bias", .rank = 1, .d = {out}, .init = DT_INIT_UNIFORM, .scale = bound};
    info->n_param = bias ? 2 : 1;
    info->n_stash = 0;
    info->forward_flops = 2.0 * (double)rows * (double)in * (double)out;
    info->backward_flops[0] = info->backward_flops[1] = info->forward_flops;
    return DT_OK;
}
