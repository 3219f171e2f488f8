/* Axes in another order. */
#include "layers/shape/permute.h"

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

static const char *const orders[] = {"hcw", "whc", "wch", "chw", "cwh", NULL};
/* clang-format off */
static const dt_opt options[] = {
    {"order", DT_OPT_ENUM, offsetof(dti_permute, order), NULL, 0, 0, orders, NULL, "which axes of the input are height, width and channels of the output"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x, (void)err;
    const dti_permute_walk y = dti_permute_walk_of(x[0], ((const dti_permute *)opts)->order, false);
    *info = (dt_layer_info){.y = {x[0].n, y.side[0], y.side[1], y.side[2]}};
    return DT_OK;
}

const dt_layer_desc dt_layer_permute = {
    .name = "permute",
    .summary = "height, width and channels in another order",
    .opts = options,
    .opts_bytes = sizeof(dti_permute),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_LINEAR_FORMS,
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_permute_cpu,
};
