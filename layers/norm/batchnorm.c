/* Batch normalisation, alone and with the ReLU behind it. */
#include "layers/norm/batchnorm.h"

#include "layers/cpu/cpu.h"
#include "layers/plain.h"

#define AT(f) offsetof(dt_batchnorm, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"eps",      DT_OPT_F64, AT(eps),      "1e-5", 1e-12, 1, NULL, NULL, "added to the variance"},
    {"momentum", DT_OPT_F64, AT(momentum), "0.1",  0,     1, NULL, NULL, "weight of a batch in the running statistics"},
    {"zero_init", DT_OPT_BOOL, AT(zero_init), "off", 0,   0, NULL, NULL, "start the weight at 0, as for the last batchnorm of a residual branch"},
    {NULL,       DT_OPT_I64, 0,            NULL,   0,     0, NULL, NULL, NULL},
};
/* clang-format on */

static dt_status batchnorm_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dt_batchnorm *b = o;
    if (!(b->eps > 0 && b->eps <= 1) || !(b->momentum >= 0 && b->momentum <= 1))
        return DT_FAIL(err, DT_E_CONFIG,
            "batchnorm: eps %g, momentum %g; eps must be in (0, 1], momentum in [0, 1]", b->eps,
            b->momentum);
    const int64_t c = x[0].c;
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .n_param = 4,
        .n_stash = 2,
        .param =
            {
                {.name = "weight",
                    .rank = 1,
                    .d = {c},
                    .init = b->zero_init ? DT_INIT_ZERO : DT_INIT_ONE},
                {.name = "bias", .rank = 1, .d = {c}, .init = DT_INIT_ZERO},
                {.name = "running_mean", .buffer = true, .rank = 1, .d = {c}},
                {.name = "running_var", .buffer = true, .rank = 1, .d = {c}, .init = DT_INIT_ONE},
            },
        .stash = {{.name = "mean", .fixed_bytes = (size_t)c * sizeof(float)},
            {.name = "istd", .fixed_bytes = (size_t)c * sizeof(float)}},
        .forward_flops = 8 * elements,
        .backward_flops = {9 * elements},
    };
    return DT_OK;
}

/* The same, and the ReLU's mask. */
static dt_status batchnorm_relu_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    DT_CHECK(batchnorm_infer(o, x, n_x, info, err));
    info->n_stash = 3;
    info->stash[2] =
        (dt_stash_info){.name = "mask", .sample_bytes = (size_t)((dt_shape_sample(&x[0]) + 7) / 8)};
    return DT_OK;
}

#define STATS (DT_BIT(DT_S) | DT_BIT(DT_S + 1))
#define MASK DT_BIT(DT_S + 2)

/* What both layers are. Backward of the one behind which a ReLU follows finds that ReLU's input
 * again, so it reads the bias too, but nothing that forward wrote besides the statistics; or it
 * reads a mask, where x may have been rounded since. */
#define NORMALISES(backward_params, mask)                                                          \
    .opts = opts, .opts_bytes = sizeof(dt_batchnorm), .min_in = 1, .max_in = 1,                    \
    .form =                                                                                        \
        {                                                                                          \
            [DT_FORWARD] = {.suffix = "f",                                                         \
                .reads = DT_BIT(DT_X) | DT_BITS(DT_P, 4),                                          \
                .writes = DT_BIT(DT_Y) | STATS | (mask) | DT_BITS(DT_Q + 2, 2)},                   \
            [DT_RECOMPUTE] = {.suffix = "f",                                                       \
                .reads = DT_BIT(DT_X) | DT_BITS(DT_P, 2) | STATS,                                  \
                .writes = DT_BIT(DT_Y),                                                            \
                .n_over = 1,                                                                       \
                .over = {{DT_Y, DT_X}}},                                                           \
            [DT_EVAL] = {.suffix = "e",                                                            \
                .reads = DT_BIT(DT_X) | DT_BITS(DT_P, 4),                                          \
                .writes = DT_BIT(DT_Y),                                                            \
                .split = true,                                                                     \
                .n_over = 1,                                                                       \
                .over = {{DT_Y, DT_X}}},                                                           \
            [DT_BACKWARD] = {.suffix = "b",                                                        \
                .reads = DT_BIT(DT_DY) | (backward_params),                                        \
                .writes = DT_BIT(DT_DX) | DT_BITS(DT_DP, 2),                                       \
                .saved = true,                                                                     \
                .n_over = 1,                                                                       \
                .over = {{DT_DX, DT_DY}}},                                                         \
    },                                                                                             \
    .repeatable = true, .batch_statistics = true

const dt_layer_desc dt_layer_batchnorm = {
    .name = "batchnorm",
    .summary = "normalise each channel over the batch, then scale and shift",
    NORMALISES(DT_BIT(DT_P), 0),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X) | STATS}},
    .infer = batchnorm_infer,
    .fuse = {&dt_layer_relu, &dt_layer_batchnorm_relu},
    .cpu = &dt_batchnorm_cpu,
};

const dt_layer_desc dt_layer_batchnorm_relu = {
    .name = "batchnorm_relu",
    .summary = "batchnorm, then relu, as one",
    NORMALISES(DT_BITS(DT_P, 2), MASK),
    .n_alt = 2,
    .alt = {{"x", DT_BIT(DT_X) | STATS}, {"x, mask", DT_BIT(DT_X) | STATS | MASK}},
    .masked = 1,
    .infer = batchnorm_relu_infer,
    .cpu = &dt_batchnorm_relu_cpu,
};
