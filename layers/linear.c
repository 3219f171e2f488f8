#include "layers/linear.h"

#include <inttypes.h>
#include <math.h>

#include "layers/cpu/cpu.h"

enum { MOST_OUT = 1 << 20 };

/* clang-format off */
#define AT(f) offsetof(dt_linear, f)
static const dt_opt options[] = {
    {"out",    DT_OPT_I64,  AT(out),    NULL,  1, MOST_OUT, NULL, NULL, "outputs of a position"},
    {"bias",   DT_OPT_BOOL, AT(bias),   "on",  0, 0,        NULL, NULL, "add a value to each output"},
    {"in_out", DT_OPT_BOOL, AT(in_out), "off", 0, 0,        NULL, NULL, "the weight is [in, out] in files, as GPT-2's are"},
    {"sigma",  DT_OPT_F64,  AT(sigma),  "0",   0, 1e3,      NULL, NULL, "standard deviation of the first weights; 0: uniform, as PyTorch's Linear"},
    {0},
};
#undef AT
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_linear *o = opts;
    (void)n_x;
    if (o->out < 1 || o->out > MOST_OUT)
        return DT_FAIL(
            err, DT_E_CONFIG, "linear: out = %" PRId64 " must be 1 to %d", o->out, (int)MOST_OUT);
    if (!(o->sigma >= 0 && o->sigma <= 1e3))
        return DT_FAIL(err, DT_E_CONFIG, "linear: sigma = %g must be 0 to 1000", o->sigma);
    const int64_t in = x[0].c;
    const bool normal = o->sigma > 0;
    const double bound = 1.0 / sqrt((double)in);
    info->y = (dt_shape){1, x[0].h, x[0].w, o->out};
    info->param[0] = (dt_param_info){.name = "weight",
        .rank = 2,
        .d = {o->in_out ? in : o->out, o->in_out ? o->out : in},
        .init = normal ? DT_INIT_NORMAL : DT_INIT_UNIFORM,
        .scale = normal ? o->sigma : bound};
    info->param[1] = (dt_param_info){.name = "bias",
        .rank = 1,
        .d = {o->out},
        .init = normal ? DT_INIT_ZERO : DT_INIT_UNIFORM,
        .scale = bound};
    info->n_param = o->bias ? 2 : 1;
    info->n_stash = 0;
    info->forward_flops = 2.0 * (double)(x[0].h * x[0].w) * (double)in * (double)o->out;
    info->backward_flops[0] = info->backward_flops[1] = info->forward_flops;
    return DT_OK;
}

/* As with fc, the library's sums depend on the number of rows, so no form may be split. */
const dt_layer_desc dt_layer_linear = {
    .name = "linear",
    .summary = "linear layer over the channels of every position",
    .opts = options,
    .opts_bytes = sizeof(dt_linear),
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
    .may_share = true,
    .infer = infer,
    .cpu = &dt_linear_cpu,
};
