/* The convolution: its options, shapes and ops. */
#include "layers/weighted/conv.h"

#include <inttypes.h>
#include <math.h>

#include "layers/cpu/cpu.h"
#include "layers/weighted/weighted.h"

enum { MOST_CHANNELS = 1 << 20, MOST_PIXELS = 4096 };

#define AT(f) offsetof(dt_conv, f)
static const dt_opt options[] = {
    {"out", DT_OPT_I64, AT(out), NULL, 1, MOST_CHANNELS, NULL, "channels", "output channels"},
    {"kernel", DT_OPT_SIDES, AT(kernel), NULL, 1, MOST_PIXELS, NULL, "pixels",
        "height and width of the kernel; 1x7 if they differ, also for stride and pad"},
    {"stride", DT_OPT_SIDES, AT(stride), "1", 1, MOST_PIXELS, NULL, "pixels",
        "step between outputs"},
    {"pad", DT_OPT_SIDES, AT(pad), "0", 0, MOST_PIXELS, NULL, "pixels", "zeros on each side"},
    {"dilation", DT_OPT_I64, AT(dilation), "1", 1, MOST_PIXELS, NULL, "pixels",
        "distance of neighbouring elements of the kernel; 1 is a dense kernel"},
    {"groups", DT_OPT_I64, AT(groups), "1", 1, MOST_CHANNELS, NULL, NULL,
        "independent parts; must divide input and output channels"},
    {"bias", DT_OPT_BOOL, AT(bias), "on", 0, 0, NULL, NULL, "add a value to each output channel"},
    {0},
};

/* Options may come from a network builder as well as from a file, so ranges are checked here too.
 */
static dt_status check(const dt_conv *o, const dt_shape *x, dt_err *err)
{
    if (o->out < 1 || o->out > MOST_CHANNELS || !dt_sides_within(o->kernel, 1, MOST_PIXELS) ||
        !dt_sides_within(o->stride, 1, MOST_PIXELS) || !dt_sides_within(o->pad, 0, MOST_PIXELS) ||
        o->dilation < 1 || o->dilation > MOST_PIXELS)
        return DT_FAIL(err, DT_E_CONFIG,
            "conv: out %" PRId64 ", kernel %s, stride %s, pad %s, dilation %" PRId64
            ": each must be at least 1 (pad 0), out at most %d, others %d",
            o->out, dt_sides_print(o->kernel).s, dt_sides_print(o->stride).s,
            dt_sides_print(o->pad).s, o->dilation, (int)MOST_CHANNELS, (int)MOST_PIXELS);
    if (o->groups < 1 || x->c % o->groups != 0 || o->out % o->groups != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "conv: groups = %" PRId64 " must divide the %" PRId64
            " input channels and out = %" PRId64,
            o->groups, x->c, o->out);
    return DT_OK;
}

/* Outputs along a side of @size pixels, padding included. */
static int64_t outputs(int64_t size, int64_t reach, int64_t stride)
{
    return (size - reach) / stride + 1;
}

dt_work dti_conv_work(int64_t kernel, int64_t groups, int64_t out)
{
    if (groups > 1 && groups == out)
        return DT_WORK_CONV_DEPTHWISE;
    return kernel == dt_sides(1, 1) ? DT_WORK_CONV_POINTWISE : DT_WORK_CONV;
}

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_conv *o = opts;
    (void)n_x;
    DT_CHECK(check(o, x, err));
    const int64_t high = dt_sides_h(o->kernel), wide = dt_sides_w(o->kernel);
    const int64_t down = o->dilation * (high - 1) + 1, right = o->dilation * (wide - 1) + 1;
    const int64_t h = x->h + 2 * dt_sides_h(o->pad), w = x->w + 2 * dt_sides_w(o->pad);
    if (down > h || right > w)
        return DT_FAIL(err, DT_E_CONFIG,
            "conv: a kernel reaching over %s pixels does not fit into %" PRId64 "x%" PRId64
            " (padding included); make kernel or dilation smaller, or pad larger",
            dt_sides_print(dt_sides(down, right)).s, h, w);
    info->y = (dt_shape){1, outputs(h, down, dt_sides_h(o->stride)),
        outputs(w, right, dt_sides_w(o->stride)), o->out};
    const int64_t depth = x->c / o->groups;
    const double fan_out = (double)(high * wide) * (double)o->out;
    info->param[0] = (dt_param_info){.name = "weight",
        .rank = 4,
        .d = {o->out, depth, high, wide},
        .init = DT_INIT_NORMAL,
        .scale = sqrt(2.0 / fan_out)};
    info->param[1] = (dt_param_info){.name = "bias", .rank = 1, .d = {o->out}};
    info->n_param = o->bias ? 2 : 1;
    info->n_stash = 0;
    info->forward_flops = 2.0 * fan_out * (double)depth * (double)info->y.h * (double)info->y.w;
    info->backward_flops[0] = info->backward_flops[1] = info->forward_flops;
    info->work = dti_conv_work(o->kernel, o->groups, o->out);
    return DT_OK;
}

const dt_layer_desc dt_layer_conv = {
    .name = "conv",
    .summary = "two-dimensional convolution; its weight begins normal by He's fan out, its bias at "
               "0, as torchvision's",
    .opts = options,
    .opts_bytes = sizeof(dt_conv),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_WEIGHTED_FORMS(true),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_conv_cpu,
};
