/* The linear layer: its options, shapes and ops. */
#include "layers/weighted/linear.h"

#include "layers/cpu/cpu.h"
#include "layers/weighted/weighted.h"

/* clang-format off */
#define AT(f) offsetof(dt_linear, f)
static const dt_opt options[] = {
    {"out",    DT_OPT_I64,  AT(out),    NULL,  1, DTI_MOST_OUT, NULL, NULL, "outputs of a position"},
    {"bias",   DT_OPT_BOOL, AT(bias),   "on",  0, 0,            NULL, NULL, "add a value to each output"},
    {"in_out", DT_OPT_BOOL, AT(in_out), "off", 0, 0,            NULL, NULL, "files hold the weight as [in, out], as GPT-2's do"},
    {"sigma",  DT_OPT_F64,  AT(sigma),  "0",   0, 1e3,          NULL, NULL, "standard deviation of the initial weights; 0: uniform, as in PyTorch's Linear"},
    {0},
};
#undef AT
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_linear *o = opts;
    (void)n_x;
    DT_CHECK(dti_rows_infer("linear", x->h * x->w, x->c, o->out, o->bias, info, err));
    if (!(o->sigma >= 0 && o->sigma <= 1e3))
        return DT_FAIL(err, DT_E_CONFIG, "linear: sigma = %g must be 0 to 1000", o->sigma);
    info->y = (dt_shape){1, x->h, x->w, o->out};
    if (o->in_out) {
        info->param[0].d[0] = x->c;
        info->param[0].d[1] = o->out;
        info->param[0].along = 1;
    }
    if (o->sigma > 0) {
        info->param[0].init = DT_INIT_NORMAL;
        info->param[0].scale = o->sigma;
        info->param[1].init = DT_INIT_ZERO;
    }
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
    .form = DTI_WEIGHTED_FORMS(false),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .repeatable = true,
    .may_share = true,
    .infer = infer,
    .cpu = &dt_linear_cpu,
};
