/* Zeros around a map. */
#include "layers/shape/zero_pad.h"

#include <inttypes.h>

#include "engine/config/options.h"
#include "layers/cpu/cpu.h"
#include "layers/forms.h"

enum { MOST_PAD = 4096, MOST_SIDE = 1 << 24 };

#define AT(f) offsetof(dti_zero_pad, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"pad",  DT_OPT_SIDES, AT(pad),  "1",  0, MOST_PAD, NULL, "pixels", "rows and columns of zeros on each side; 1x2 where they differ"},
    {"more", DT_OPT_SIDES, AT(more), "0",  0, MOST_PAD, NULL, "pixels", "further rows at the bottom and columns on the right"},
    {NULL,   DT_OPT_I64,   0,        NULL, 0, 0,        NULL, NULL,     NULL},
};
/* clang-format on */

static dt_status zero_pad_infer(
    const void *opts_of, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dti_zero_pad *o = opts_of;
    if (!dt_sides_within(o->pad, 0, MOST_PAD) || !dt_sides_within(o->more, 0, MOST_PAD))
        return DT_FAIL(err, DT_E_CONFIG, "zero_pad: pad %s, more %s; each side is 0 to %d",
            dt_sides_print(o->pad).s, dt_sides_print(o->more).s, (int)MOST_PAD);
    if (x->h > MOST_SIDE || x->w > MOST_SIDE)
        return DT_FAIL(err, DT_E_CONFIG,
            "zero_pad: a map of %" PRId64 "x%" PRId64 "; at most %d a side", x->h, x->w,
            (int)MOST_SIDE);
    *info = (dt_layer_info){
        .y = {x->n, x->h + 2 * dt_sides_h(o->pad) + dt_sides_h(o->more),
            x->w + 2 * dt_sides_w(o->pad) + dt_sides_w(o->more), x->c},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_zero_pad = {
    .name = "zero_pad",
    .summary = "zeros around a map",
    .opts = opts,
    .opts_bytes = sizeof(dti_zero_pad),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .infer = zero_pad_infer,
    .cpu = &dt_zero_pad_cpu,
};
