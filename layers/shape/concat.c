/* Concatenation of maps along their channels. */
#include "layers/shape/concat.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

static dt_status concat_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts;
    *info = (dt_layer_info){.y = x[0]};
    for (int i = 1; i < n_x; i++) {
        if (x[i].h != x[0].h || x[i].w != x[0].w)
            return DT_FAIL(err, DT_E_CONFIG,
                "concat: inputs must have one height and width, but input 1 is %" PRId64 "x%" PRId64
                "x%" PRId64 " and input %d is %" PRId64 "x%" PRId64 "x%" PRId64,
                x[0].h, x[0].w, x[0].c, i + 1, x[i].h, x[i].w, x[i].c);
        info->y.c += x[i].c; /* no value is anywhere near a sixteenth of the largest number */
    }
    return DT_OK;
}

const dt_layer_desc dt_layer_concat = {
    .name = "concat",
    .summary = "values of one height and width, channel after channel",
    .min_in = 2,
    .max_in = DT_MAX_IN,
    .form = DTI_LINEAR_FORMS,
    .reads_flat = true,
    .repeatable = true,
    .holds_inputs = true,
    .infer = concat_infer,
    .cpu = &dt_concat_cpu,
};
