/* Max pooling: backward reads input and output, or an index of each window. */
#include "layers/pool/maxpool.h"

#include "layers/cpu/cpu.h"
#include "layers/forms.h"
#include "layers/pool/pool.h"

#define AT(f) offsetof(dt_maxpool, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"kernel", DT_OPT_SIDES, AT(kernel), NULL,  1, DTI_MAXPOOL_MOST,     NULL, "pixels", "height and width of the window; 1x7 where they differ"},
    {"stride", DT_OPT_SIDES, AT(stride), "0",   0, 1024,           NULL, "pixels", "step between windows; 0: as kernel"},
    {"pad",    DT_OPT_SIDES, AT(pad),    "0",   0, DTI_MAXPOOL_MOST / 2, NULL, "pixels", "border that is never the maximum; at most half of kernel"},
    {"ceil",   DT_OPT_BOOL, AT(ceil),   "off", 0, 0,              NULL, NULL,     "round the output size up"},
    {NULL,     DT_OPT_I64,  0,          NULL,  0, 0,              NULL, NULL,     NULL},
};
/* clang-format on */

static dt_status maxpool_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dt_maxpool *m = o;
    const dti_windows p = dti_windows_of(m->kernel, m->stride, m->pad, m->ceil);
    dt_shape y;
    if (p.h.kernel > DTI_MAXPOOL_MOST || p.w.kernel > DTI_MAXPOOL_MOST)
        return DT_FAIL(err, DT_E_CONFIG, "maxpool: kernel %s; at most %d",
            dt_sides_print(m->kernel).s, DTI_MAXPOOL_MOST);
    DT_CHECK(dti_windows_infer(&p, "maxpool", x, &y, err));
    const size_t outputs = (size_t)dt_shape_sample(&y);
    const double compares = (double)outputs * (double)(p.h.kernel * p.w.kernel);
    *info = (dt_layer_info){
        .y = y,
        .n_stash = 1,
        .stash = {{.name = "index",
            .sample_bytes = dti_maxpool_packed(m) ? (outputs + 1) / 2 : outputs}},
        .forward_flops = compares,
        .backward_flops = {compares},
    };
    return DT_OK;
}

static dt_status index_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    DT_CHECK(maxpool_infer(o, x, n_x, info, err));
    info->n_stash = 0;
    info->backward_flops[0] = 0;
    return DT_OK;
}

const dt_layer_desc dt_layer_maxpool_index = {
    .name = "maxpool_index",
    .summary = "where in its window each maximum lies, for max_unpool; without a gradient",
    .opts = opts,
    .opts_bytes = sizeof(dt_maxpool),
    .min_in = 1,
    .max_in = 1,
    .form = {[DT_FORWARD] =
                 {.suffix = "f", .reads = DT_BIT(DT_X), .writes = DT_BIT(DT_Y), .split = true}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = index_infer,
    .cpu = &dt_maxpool_index_cpu,
};

const dt_layer_desc dt_layer_maxpool = {
    .name = "maxpool",
    .summary = "maximum over windows",
    .opts = opts,
    .opts_bytes = sizeof(dt_maxpool),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_SAVED_FORMS(DT_BIT(DT_S)),
    .n_alt = 2,
    .alt = {{"xy", DT_BIT(DT_X) | DT_BIT(DT_Y)}, {"index", DT_BIT(DT_S)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = maxpool_infer,
    .cpu = &dt_maxpool_cpu,
};
