/* The transposed convolution: its options, shapes and ops. */
#include "layers/weighted/conv_transpose.h"

#include <inttypes.h>
#include <math.h>

#include "layers/weighted/conv.h"
#include "layers/cpu/cpu.h"
#include "layers/weighted/weighted.h"

enum { MOST_CHANNELS = 1 << 20, MOST_PIXELS = 4096, MOST_SIDE = 1 << 24 };

#define AT(f) offsetof(dt_conv_transpose, f)
static const dt_opt options[] = {
    {"out", DT_OPT_I64, AT(out), NULL, 1, MOST_CHANNELS, NULL, "channels", "output channels"},
    {"kernel", DT_OPT_SIDES, AT(kernel), NULL, 1, MOST_PIXELS, NULL, "pixels",
        "height and width of the kernel; 1x7 if they differ, also for stride, pad and more"},
    {"stride", DT_OPT_SIDES, AT(stride), "1", 1, MOST_PIXELS, NULL, "pixels",
        "distance in the output between what neighbouring input pixels add"},
    {"pad", DT_OPT_SIDES, AT(pad), "0", 0, MOST_PIXELS, NULL, "pixels",
        "cut from each side of the output"},
    {"more", DT_OPT_SIDES, AT(more), "0", 0, MOST_PIXELS, NULL, "pixels",
        "extra rows and columns at the end of the output; less than stride"},
    {"groups", DT_OPT_I64, AT(groups), "1", 1, MOST_CHANNELS, NULL, NULL,
        "independent parts; must divide input and output channels"},
    {"bias", DT_OPT_BOOL, AT(bias), "on", 0, 0, NULL, NULL, "add a value to each output channel"},
    {0},
};

static dt_status check(const dt_conv_transpose *o, const dt_shape *x, dt_err *err)
{
    if (o->out < 1 || o->out > MOST_CHANNELS || !dt_sides_within(o->kernel, 1, MOST_PIXELS) ||
        !dt_sides_within(o->stride, 1, MOST_PIXELS) || !dt_sides_within(o->pad, 0, MOST_PIXELS))
        return DT_FAIL(err, DT_E_CONFIG,
            "conv_transpose: out %" PRId64
            ", kernel %s, stride %s, pad %s: each must be at least 1 (pad 0), out at most %d, "
            "others %d",
            o->out, dt_sides_print(o->kernel).s, dt_sides_print(o->stride).s,
            dt_sides_print(o->pad).s, (int)MOST_CHANNELS, (int)MOST_PIXELS);
    if (dt_sides_h(o->more) >= dt_sides_h(o->stride) ||
        dt_sides_w(o->more) >= dt_sides_w(o->stride))
        return DT_FAIL(err, DT_E_CONFIG, "conv_transpose: more %s must be less than stride %s",
            dt_sides_print(o->more).s, dt_sides_print(o->stride).s);
    if (o->groups < 1 || x->c % o->groups != 0 || o->out % o->groups != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "conv_transpose: groups = %" PRId64 " must divide the %" PRId64
            " input channels and out = %" PRId64,
            o->groups, x->c, o->out);
    return DT_OK;
}

/* Pixels of the output's side: sizes that pass are small enough for the arithmetic. */
static dt_status side(
    int64_t x, int64_t kernel, int64_t stride, int64_t pad, int64_t more, int64_t *y, dt_err *err)
{
    if (x > MOST_SIDE)
        return DT_FAIL(err, DT_E_CONFIG, "conv_transpose: a side of %" PRId64 " pixels; at most %d",
            x, (int)MOST_SIDE);
    *y = (x - 1) * stride - 2 * pad + kernel + more;
    if (*y < 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "conv_transpose: pad %" PRId64 " cuts off all of the output's %" PRId64
            " pixels; make it smaller",
            pad, *y + 2 * pad);
    return DT_OK;
}

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_conv_transpose *o = opts;
    (void)n_x;
    DT_CHECK(check(o, x, err));
    const int64_t high = dt_sides_h(o->kernel), wide = dt_sides_w(o->kernel);
    const int64_t each = o->out / o->groups;
    const double taps = (double)(high * wide) * (double)each;
    *info = (dt_layer_info){.y = {1, 0, 0, o->out}};
    DT_CHECK(side(x->h, high, dt_sides_h(o->stride), dt_sides_h(o->pad), dt_sides_h(o->more),
        &info->y.h, err));
    DT_CHECK(side(x->w, wide, dt_sides_w(o->stride), dt_sides_w(o->pad), dt_sides_w(o->more),
        &info->y.w, err));
    /* A result is a sum over so many values. */
    const double summed = (double)(x->c / o->groups) * (double)(high * wide) /
                          (double)(dt_sides_h(o->stride) * dt_sides_w(o->stride));
    info->param[0] = (dt_param_info){.name = "weight",
        .rank = 4,
        .d = {x->c, each, high, wide},
        .init = DT_INIT_NORMAL,
        .scale = sqrt(2.0 / (summed > 1 ? summed : 1))};
    info->param[1] = (dt_param_info){.name = "bias", .rank = 1, .d = {o->out}};
    info->n_param = o->bias ? 2 : 1;
    info->forward_flops = 2.0 * taps * (double)dt_shape_sample(x);
    info->backward_flops[0] = info->backward_flops[1] = info->forward_flops;
    info->work = dti_conv_work(o->kernel, o->groups, o->out);
    return DT_OK;
}

const dt_layer_desc dt_layer_conv_transpose = {
    .name = "conv_transpose",
    .summary = "transposed convolution, which makes maps larger; its weight begins normal by the "
               "values that a result sums, its bias at 0",
    .opts = options,
    .opts_bytes = sizeof(dt_conv_transpose),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_WEIGHTED_FORMS(true),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_conv_transpose_cpu,
};
