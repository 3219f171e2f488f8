/* The fully connected layer: its options, shapes and ops. */
#include "layers/weighted/fc.h"

#include "layers/cpu/cpu.h"
#include "layers/weighted/weighted.h"

static const dt_opt options[] = {
    {"out", DT_OPT_I64, offsetof(dt_fc, out), NULL, 1, DTI_MOST_OUT, NULL, NULL, "outputs"},
    {"bias", DT_OPT_BOOL, offsetof(dt_fc, bias), "on", 0, 0, NULL, NULL,
        "add a value to each output"},
    {0},
};

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_fc *o = opts;
    (void)n_x;
    info->y = (dt_shape){1, 1, 1, o->out};
    return dti_rows_infer("fc", 1, dt_shape_sample(x), o->out, o->bias, info, err);
}

/* The library divides the sum over the inputs by the number of samples and threads, so no form of
 * this layer may be split over the batch. */
const dt_layer_desc dt_layer_fc = {
    .name = "fc",
    .summary = "fully connected layer",
    .opts = options,
    .opts_bytes = sizeof(dt_fc),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_WEIGHTED_FORMS(false),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .reads_flat = true,
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_fc_cpu,
};
