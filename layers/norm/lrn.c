/* Local response normalisation over neighbouring channels. */
#include "layers/norm/lrn.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

#define AT(f) offsetof(dti_lrn, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"size",  DT_OPT_I64, AT(size),  "5",    1,    DTI_LRN_MOST, NULL, "channels", "channels in a window"},
    {"alpha", DT_OPT_F64, AT(alpha), "1e-4", 0,    1e6,         NULL, NULL,       "weight of the mean square"},
    {"beta",  DT_OPT_F64, AT(beta),  "0.75", 1e-3, 8,           NULL, NULL,       "exponent"},
    {"k",     DT_OPT_F64, AT(k),     "1",    1e-6, 1e6,         NULL, NULL,       "added to the mean square"},
    {NULL,    DT_OPT_I64, 0,         NULL,   0,    0,           NULL, NULL,       NULL},
};
/* clang-format on */

static dt_status lrn_infer(
    const void *o, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)n_x;
    const dti_lrn *l = o;
    if (l->size < 1 || l->size > DTI_LRN_MOST)
        return DT_FAIL(err, DT_E_CONFIG, "lrn: size = %" PRId64 " must be 1 to %d", l->size,
            (int)DTI_LRN_MOST);
    if (!(l->alpha >= 0 && l->alpha <= 1e6) || !(l->beta >= 1e-3 && l->beta <= 8) ||
        !(l->k >= 1e-6 && l->k <= 1e6))
        return DT_FAIL(err, DT_E_CONFIG,
            "lrn: alpha %g, beta %g, k %g; alpha must be 0 to 1e6, beta 0.001 to 8, k 1e-6 to 1e6",
            l->alpha, l->beta, l->k);
    const double elements = (double)dt_shape_sample(x);
    *info = (dt_layer_info){
        .y = *x,
        .forward_flops = elements * (double)(2 * l->size + 30), /* the power counts as 30 */
        .backward_flops = {elements * (double)(3 * l->size + 36)},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_lrn = {
    .name = "lrn",
    .summary = "local response normalisation across channels",
    .opts = opts,
    .opts_bytes = sizeof(dti_lrn),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_IN_PLACE_FORMS(0),
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .repeatable = true,
    .infer = lrn_infer,
    .cpu = &dt_lrn_cpu,
};
