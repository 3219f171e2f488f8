/* Group normalisation. */
#include "layers/norm/groupnorm.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/norm/norm.h"

#define AT(f) offsetof(dti_groupnorm, f)
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
    const dti_groupnorm *o = opts;
    (void)n_x;
    if (o->groups < 1 || x[0].c % o->groups != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "groupnorm: %" PRId64 " channels are no %" PRId64
            " groups; take a number that divides them",
            x[0].c, o->groups);
    DT_CHECK(dti_norm_eps("groupnorm", o->eps, err));
    dti_norm_infer(&x[0], o->groups, info);
    return DT_OK;
}

const dt_layer_desc dt_layer_groupnorm = {
    .name = "groupnorm",
    .summary = "normalisation of groups of channels over a sample's pixels",
    .opts = options,
    .opts_bytes = sizeof(dti_groupnorm),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_NORM_FORMS(2),
    .n_alt = 1,
    .alt = {{"x_statistics", DT_BIT(DT_X) | DT_BITS(DT_S, 2)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_groupnorm_cpu,
};
