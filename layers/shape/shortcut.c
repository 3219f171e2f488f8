/* A shortcut that takes pixels a stride apart and pads channels with zeros. */
#include "layers/shape/shortcut.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

#define AT(f) offsetof(dt_shortcut, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"out",    DT_OPT_I64, AT(out),    NULL, 1, 1 << 20, NULL, "channels", "output channels; at least as many as the input has"},
    {"stride", DT_OPT_I64, AT(stride), "1",  1, 1 << 16, NULL, "pixels",   "distance between the pixels that are taken"},
    {0},
};
/* clang-format on */

static dt_status shortcut_infer(
    const void *v, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dt_shortcut *o = v;
    if (o->out < x->c)
        return DT_FAIL(err, DT_E_CONFIG,
            "shortcut: out = %" PRId64 " is below the %" PRId64
            " channels of the input; a shortcut only adds channels",
            o->out, x->c);
    if (o->stride < 1)
        return DT_FAIL(err, DT_E_CONFIG, "shortcut: stride = %" PRId64 "; at least 1", o->stride);
    /* Written so that a stride near the largest number does not overflow. */
    *info = (dt_layer_info){
        .y = {x->n, (x->h - 1) / o->stride + 1, (x->w - 1) / o->stride + 1, o->out}};
    return DT_OK;
}

const dt_layer_desc dt_layer_shortcut = {
    .name = "shortcut",
    .summary = "subsampled input with channels of zeros around it, for residual networks",
    .opts = opts,
    .opts_bytes = sizeof(dt_shortcut),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .infer = shortcut_infer,
    .cpu = &dt_shortcut_cpu,
};
