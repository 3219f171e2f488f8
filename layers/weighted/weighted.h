/* What layers with a weight share: the convolution, fc and linear. */
#ifndef DT_LAYERS_WEIGHTED_WEIGHTED_H
#define DT_LAYERS_WEIGHTED_WEIGHTED_H

#include "engine/kernels.h"
#include "engine/layer.h"

/* Their ops. The weight is read as DT_D forward and as DT_D + 1 in backward-data, in the layouts
 * that the device wants there; its gradient may come in one of its own. @divisible: whether y and
 * dx may be computed a few samples at a time. */
#define DTI_WEIGHTED_FORMS(divisible)                                                              \
    {                                                                                              \
        [DT_FORWARD] = {.suffix = "f",                                                             \
            .reads = DT_BIT(DT_X) | DT_BIT(DT_D) | DT_BIT(DT_P + 1),                               \
            .writes = DT_BIT(DT_Y),                                                                \
            .split = (divisible)},                                                                 \
        [DT_BACKWARD] = {.suffix = "bw",                                                           \
            .reads = DT_BIT(DT_DY),                                                                \
            .writes = DT_BIT(DT_DP) | DT_BIT(DT_DP + 1),                                           \
            .saved = true},                                                                        \
        [DT_BACKWARD2] = {.suffix = "bd",                                                          \
            .reads = DT_BIT(DT_DY) | DT_BIT(DT_D + 1),                                             \
            .writes = DT_BIT(DT_DX),                                                               \
            .split = (divisible)},                                                                 \
        [DT_DERIVE_F] = {.suffix = "wF", .reads = DT_BIT(DT_P), .writes = DT_BIT(DT_D)},           \
        [DT_DERIVE_B] = {.suffix = "wB", .reads = DT_BIT(DT_P), .writes = DT_BIT(DT_D + 1)},       \
        [DT_RESTORE] = {.suffix = "gR", .reads = DT_BIT(DT_S), .writes = DT_BIT(DT_DP)},           \
    }

enum { DTI_MOST_OUT = 1 << 20 };

/**
 * dti_rows_infer() - parameters and work of a product of rows by a weight [out, in].
 * @layer: its name, for errors
 * @rows:  of one sample
 *
 * Both parameters begin uniform, as those of PyTorch's Linear. DT_E_CONFIG when out is not 1 to
 * DTI_MOST_OUT.
 */
dt_status dti_rows_infer(const char *layer, int64_t rows, int64_t in, int64_t out, bool bias,
    dt_layer_info *info, dt_err *err) DT_NODISCARD;

/* From [a][b] to [b][a], a line of a cache after the other. */
static inline void dti_matrix_transpose(const float *from, float *to, int64_t a, int64_t b)
{
    enum { LINE = 16 };
    for (int64_t j = 0; j < b; j += LINE) {
        const int64_t n = b - j < LINE ? b - j : LINE;
        for (int64_t i = 0; i < a; i++)
            for (int64_t k = 0; k < n; k++)
                to[(j + k) * a + i] = from[i * b + j + k];
    }
}

/* On the host: from [n][a][b] to [n][b][a]. */
static inline void dti_weight_transpose(
    const float *from, float *to, int64_t n, int64_t a, int64_t b)
{
#pragma omp parallel for
    for (int64_t k = 0; k < n; k++)
        dti_matrix_transpose(from + k * a * b, to + k * a * b, a, b);
}

/* On the host: rows of [in][out], of which @plain is those alone, into @lives, [out][in], or from
 * there. @in: of all of it. */
static inline void dti_weight_columns_put(
    const float *plain, float *lives, dt_rows rows, int64_t in, int64_t out)
{
#pragma omp parallel for
    for (int64_t o = 0; o < out; o++)
        for (int64_t k = 0; k < rows.n; k++)
            lives[o * in + rows.at + k] = plain[k * out + o];
}

static inline void dti_weight_columns_get(
    const float *lives, float *plain, dt_rows rows, int64_t in, int64_t out)
{
#pragma omp parallel for
    for (int64_t o = 0; o < out; o++)
        for (int64_t k = 0; k < rows.n; k++)
            plain[k * out + o] = lives[o * in + rows.at + k];
}

#endif
