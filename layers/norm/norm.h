/* What layernorm, groupnorm and rmsnorm share: norms whose statistics are of one sample, so that
 * any part of a batch can be normalised alone. */
#ifndef DT_LAYERS_NORM_NORM_H
#define DT_LAYERS_NORM_NORM_H

#include "engine/kernels.h"
#include "engine/layer.h"

/* Their ops. @n: parameters, and as many statistics. The parameters' gradients are sums that are
 * cut by the number of samples, so backward may not be split. */
#define DTI_NORM_FORMS(n)                                                                          \
    {                                                                                              \
        [DT_FORWARD] = {.suffix = "f",                                                             \
            .reads = DT_BIT(DT_X) | DT_BITS(DT_P, n),                                              \
            .writes = DT_BIT(DT_Y) | DT_BITS(DT_S, n),                                             \
            .split = true,                                                                         \
            .n_over = 1,                                                                           \
            .over = {{DT_Y, DT_X}}},                                                               \
        [DT_BACKWARD] = {.suffix = "b",                                                            \
            .reads = DT_BIT(DT_DY) | DT_BIT(DT_P),                                                 \
            .writes = DT_BIT(DT_DX) | DT_BITS(DT_DP, n),                                           \
            .saved = true,                                                                         \
            .n_over = 1,                                                                           \
            .over = {{DT_DX, DT_DY}}},                                                             \
    }

/* DT_E_CONFIG unless @eps, of the layer of that name, is 1e-12 to 1. */
dt_status dti_norm_eps(const char *layer, double eps, dt_err *err) DT_NODISCARD;

/* Of a norm with a scale and a shift a channel, which leaves @statistics means of a sample and as
 * many inverse standard deviations. */
void dti_norm_infer(const dt_shape *x, int64_t statistics, dt_layer_info *info);

#endif
