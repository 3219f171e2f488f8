/* Max unpooling: forward notes positions in bytes, which are all that backward reads. */
#include "layers/pool/max_unpool.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"
#include "layers/pool/maxpool.h"
#include "layers/pool/pool.h"

enum { MOST_STRIDE = 1024, MOST_SIDE = 1 << 24 };

#define AT(f) offsetof(dt_max_unpool, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"kernel", DT_OPT_SIDES, AT(kernel), NULL, 1, DTI_MAXPOOL_MOST,     NULL, "pixels", "height and width of the pool's window; 1x7 where they differ"},
    {"stride", DT_OPT_SIDES, AT(stride), "0",  0, MOST_STRIDE,          NULL, "pixels", "step between the pool's windows, at least kernel; 0: as kernel"},
    {"pad",    DT_OPT_SIDES, AT(pad),    "0",  0, DTI_MAXPOOL_MOST / 2, NULL, "pixels", "border of the pool; at most half of kernel"},
    {"more",   DT_OPT_SIDES, AT(more),   "0",  0, MOST_STRIDE,          NULL, "pixels", "rows and columns behind the pool's last window; less than stride"},
    {NULL,     DT_OPT_I64,   0,          NULL, 0, 0,                    NULL, NULL,     NULL},
};
/* clang-format on */

/* Pixels along one side, of @windows windows. */
static dt_status side(
    const dti_window_side *p, int64_t windows, int64_t more, int64_t *pixels, dt_err *err)
{
    if (p->kernel < 1 || p->kernel > DTI_MAXPOOL_MOST || p->stride < p->kernel ||
        p->stride > MOST_STRIDE || p->pad < 0 || p->pad > p->kernel / 2 || more < 0 ||
        more >= p->stride)
        return DT_FAIL(err, DT_E_CONFIG,
            "max_unpool: kernel %" PRId64 ", stride %" PRId64 ", pad %" PRId64 ", more %" PRId64
            ": kernel is 1 to %d, stride at least kernel, pad at most half of it, more less than "
            "stride",
            p->kernel, p->stride, p->pad, more, (int)DTI_MAXPOOL_MOST);
    if (windows > MOST_SIDE)
        return DT_FAIL(err, DT_E_CONFIG, "max_unpool: a side of %" PRId64 " pixels; at most %d",
            windows, (int)MOST_SIDE);
    *pixels = (windows - 1) * p->stride + p->kernel - 2 * p->pad + more;
    if (*pixels < 1)
        return DT_FAIL(err, DT_E_CONFIG, "max_unpool: pad %" PRId64 " leaves no pixel", p->pad);
    return DT_OK;
}

static dt_status infer(const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dt_max_unpool *u = o;
    const dti_windows p = dti_windows_of(u->kernel, u->stride, u->pad, false);
    dt_shape y = x[0];
    if (!dt_shape_same(&x[0], &x[1]))
        return DT_FAIL(err, DT_E_CONFIG,
            "max_unpool: values and positions must have one shape, but are %" PRId64 "x%" PRId64
            "x%" PRId64 " and %" PRId64 "x%" PRId64 "x%" PRId64,
            x[0].h, x[0].w, x[0].c, x[1].h, x[1].w, x[1].c);
    DT_CHECK(side(&p.h, x[0].h, dt_sides_h(u->more), &y.h, err));
    DT_CHECK(side(&p.w, x[0].w, dt_sides_w(u->more), &y.w, err));
    *info = (dt_layer_info){
        .y = y,
        .n_stash = 1,
        .stash = {{.name = "index", .sample_bytes = (size_t)dt_shape_sample(&x[0])}},
        .forward_flops = (double)y.h * (double)y.w * (double)y.c,
        .backward_flops = {(double)dt_shape_sample(&x[0])},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_max_unpool = {
    .name = "max_unpool",
    .summary = "values where maxima were, and zeros; takes values, and a maxpool_index",
    .opts = opts,
    .opts_bytes = sizeof(dt_max_unpool),
    .min_in = 2,
    .max_in = 2,
    .form = DTI_SAVED_FORMS(DT_BIT(DT_S)),
    .n_alt = 1,
    .alt = {{"index", DT_BIT(DT_S)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_max_unpool_cpu,
};
