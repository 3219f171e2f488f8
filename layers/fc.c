#include "layers/fc.h"

#include <inttypes.h>
#include <math.h>

#include "layers/cpu/cpu.h"

enum { MOST_OUT = 1 << 20 };

static const dt_opt options[] = {
    {"out", DT_OPT_I64, offsetof(dt_fc, out), NULL, 1, MOST_OUT, NULL, NULL, "outputs"},
    {"bias", DT_OPT_BOOL, offsetof(dt_fc, bias), "on", 0, 0, NULL, NULL,
        "add a value to each output"},
    {0},
};

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_fc *o = opts;
    (void)n_x;
    if (o->out < 1 || o->out > MOST_OUT)
        return DT_FAIL(
            err, DT_E_CONFIG, "fc: out = %" PRId64 " must be 1 to %d", o->out, (int)MOST_OUT);
    const int64_t in = dt_shape_sample(x);
    const double bound = 1.0 / sqrt((double)in);
    info->y = (dt_shape){1, 1, 1, o->out};
    info->param[0] = (dt_param_info){
        .name = "weight", .rank = 2, .d = {o->out, in}, .init = DT_INIT_UNIFORM, .scale = bound};
    info->param[1] = (dt_param_info){
        .name = "bias", .rank = 1, .d = {o->out}, .init = DT_INIT_UNIFORM, .scale = bound};
    info->n_param = o->bias ? 2 : 1;
    info->n_stash = 0;
    info->forward_flops = 2.0 * (double)in * (double)o->out;
    info->backward_flops[0] = info->backward_flops[1] = info->forward_flops;
    return DT_OK;
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
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_D) | DT_BIT(DT_P + 1),
                .writes = DT_BIT(DT_Y)},
            [DT_BACKWARD] = {.suffix = "bw",
                .reads = DT_BIT(DT_DY),
                .writes = DT_BIT(DT_DP) | DT_BIT(DT_DP + 1),
                .saved = true},
            [DT_BACKWARD2] = {.suffix = "bd",
                .reads = DT_BIT(DT_DY) | DT_BIT(DT_D + 1),
                .writes = DT_BIT(DT_DX)},
            [DT_DERIVE_F] = {.suffix = "wF", .reads = DT_BIT(DT_P), .writes = DT_BIT(DT_D)},
            [DT_DERIVE_B] = {.suffix = "wB", .reads = DT_BIT(DT_P), .writes = DT_BIT(DT_D + 1)},
            [DT_RESTORE] = {.suffix = "gR", .reads = DT_BIT(DT_S), .writes = DT_BIT(DT_DP)},
        },
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_fc_cpu,
};
