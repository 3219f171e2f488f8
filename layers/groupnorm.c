/* Group normalisation. */
#include "layers/groupnorm.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"

#define AT(f) offsetof(dt_groupnorm, f)
/* clang-format off */
static const dt_opt options[] = {
    {"groups", DT_OPT_I64, AT(groups), "32",   1,     1 << 20, NULL, NULL, "groups of channels"},
    {"eps",    DT_OPT_F64, AT(eps),    "1e-5", 1e-12, 1,       NULL, NULL, "added to the variance"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_groupnorm *o = opts;
    (void)n_x;
    if (o->groups < 1 || x[0].c % o->groups != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "groupnorm: %" PRId64 " channels are no %" PRId64
            " groups; take a number that divides them",
            x[0].c, o->groups);
    if (!(o->eps >= 1e-12 && o->eps <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "groupnorm: eps = %g must be 1e-12 to 1", o->eps);
    const size_t statistics = (size_t)o->groups * sizeof(float);
    const double elements = (double)dt_shape_sample(&x[0]);
    *info = (dt_layer_info){
        .y = x[0],
        .n_param = 2,
        .param = {{.name = "weight", .rank = 1, .d = {x[0].c}, .init = DT_INIT_ONE},
            {.name = "bias", .rank = 1, .d = {x[0].c}, .init = DT_INIT_ZERO}},
        .n_stash = 2,
        .stash = {{.name = "mean", .sample_bytes = statistics},
            {.name = "istd", .sample_bytes = statistics}},
        .forward_flops = 7 * elements,
        .backward_flops = {12 * elements},
    };
    return DT_OK;
}

/* The parameters' gradients are sums over samples, so backward may not be split. */
const dt_layer_desc dt_layer_groupnorm = {
    .name = "groupnorm",
    .summary = "normalisation of groups of channels over a sample's pixels",
    .opts = options,
    .opts_bytes = sizeof(dt_groupnorm),
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_P) | DT_BIT(DT_P + 1),
                .writes = DT_BIT(DT_Y) | DT_BIT(DT_S) | DT_BIT(DT_S + 1),
                .split = true,
                .n_over = 1,
                .over = {{DT_Y, DT_X}}},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY) | DT_BIT(DT_P),
                .writes = DT_BIT(DT_DX) | DT_BIT(DT_DP) | DT_BIT(DT_DP + 1),
                .saved = true,
                .n_over = 1,
                .over = {{DT_DX, DT_DY}}},
        },
    .n_alt = 1,
    .alt = {{"x_statistics", DT_BIT(DT_X) | DT_BIT(DT_S) | DT_BIT(DT_S + 1)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_groupnorm_cpu,
};
