#include "layers/batchnorm_rows.h"

#include "layers/value.h"

/* Rows come four at a time where there are four: then the sums are loaded and stored less often,
 * and what is a constant here lets the compiler unroll. */
DT_INLINE void add_rows(
    const void *x, int64_t at, int64_t channels, int rows, int n, float *sum, dt_dtype t)
{
#pragma omp simd
    for (int c = 0; c < n; c++) {
        float s = dt_load(x, at + c, t);
        for (int r = 1; r < rows; r++)
            s += dt_load(x, at + r * channels + c, t);
        sum[c] += s;
    }
}

DT_INLINE void add_distances(const void *x, int64_t at, int64_t channels, int rows, int n,
    const float *middle, float *sum, float *squares, dt_dtype t)
{
#pragma omp simd
    for (int c = 0; c < n; c++) {
        float s = 0, q = 0;
        for (int r = 0; r < rows; r++) {
            const float d = dt_load(x, at + r * channels + c, t) - middle[c];
            s += d;
            q += d * d;
        }
        sum[c] += s;
        squares[c] += q;
    }
}

/* Where distances are taken from: near the mean, so that a large mean costs no accuracy. Behind as
 * many rows again their mean will do: were it far off, then so is the mean of the block, and what
 * rounding loses is small beside the distance of the two. */
DT_INLINE void find_middle(const void *x, int64_t rows, int64_t channels, int n, int64_t before,
    const double *mean, float *middle, dt_dtype t)
{
    if (before >= rows) {
        for (int c = 0; c < n; c++)
            middle[c] = (float)mean[c];
        return;
    }
    for (int c = 0; c < n; c++)
        middle[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        add_rows(x, r * channels, channels, 4, n, middle, t);
    for (; r < rows; r++)
        add_rows(x, r * channels, channels, 1, n, middle, t);
    for (int c = 0; c < n; c++)
        middle[c] *= 1.0f / (float)rows;
}

/* Two sets of rows become one as Chan, Golub and LeVeque do it (1983). */
DT_INLINE void join(const void *x, int64_t rows, int64_t channels, int n, int64_t before,
    double *mean, double *m2, dt_dtype t)
{
    float middle[DTI_TILE], sum[DTI_TILE], squares[DTI_TILE];
    find_middle(x, rows, channels, n, before, mean, middle, t);
    for (int c = 0; c < n; c++)
        sum[c] = squares[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        add_distances(x, r * channels, channels, 4, n, middle, sum, squares, t);
    for (; r < rows; r++)
        add_distances(x, r * channels, channels, 1, n, middle, sum, squares, t);
    const double here = (double)rows, all = here + (double)before;
    const double over = 1 / here, toward = here / all, apart = (double)before * here / all;
#pragma omp simd
    for (int c = 0; c < n; c++) {
        const double s = (double)sum[c], delta = (double)middle[c] + s * over - mean[c];
        m2[c] += (double)squares[c] - s * s * over + delta * delta * apart;
        mean[c] += delta * toward;
    }
}

DT_INLINE void normalise(const void *x, void *y, int64_t rows, int64_t channels, int n,
    const dti_norm *p, bool relu, dt_dtype t)
{
    const float *mean = p->mean, *scale = p->scale, *bias = p->bias;
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int c = 0; c < n; c++) {
            const int64_t at = r * channels + c;
            const float v = (dt_load(x, at, t) - mean[c]) * scale[c] + bias[c];
            dt_store(y, at, t, relu ? dt_rectify(v) : v);
        }
}

DT_INLINE void add_products(const void *x, const void *dy, int64_t at, int64_t channels, int rows,
    int n, const dti_norm *p, float *sum, float *products, bool relu, dt_dtype t)
{
    const float *mean = p->mean, *scale = p->scale, *bias = p->bias;
#pragma omp simd
    for (int c = 0; c < n; c++) {
        float s = 0, q = 0;
        for (int r = 0; r < rows; r++) {
            const float apart = dt_load(x, at + r * channels + c, t) - mean[c];
            const float given = dt_load(dy, at + r * channels + c, t);
            const float d = relu && apart * scale[c] + bias[c] <= 0.0f ? 0.0f : given;
            s += d;
            q += d * apart;
        }
        sum[c] += s;
        products[c] += q;
    }
}

DT_INLINE void sum_up(const void *x, const void *dy, int64_t rows, int64_t channels, int n,
    const dti_norm *p, double *dbias, double *dweight, bool relu, dt_dtype t)
{
    float sum[DTI_TILE], products[DTI_TILE];
    for (int c = 0; c < n; c++)
        sum[c] = products[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        add_products(x, dy, r * channels, channels, 4, n, p, sum, products, relu, t);
    for (; r < rows; r++)
        add_products(x, dy, r * channels, channels, 1, n, p, sum, products, relu, t);
#pragma omp simd
    for (int c = 0; c < n; c++) {
        dbias[c] += (double)sum[c];
        dweight[c] += (double)products[c];
    }
}

DT_INLINE void differentiate(const void *x, const void *dy, void *dx, int64_t rows,
    int64_t channels, int n, const dti_norm *p, const float *shift, const float *slope, bool relu,
    dt_dtype t)
{
    const float *mean = p->mean, *scale = p->scale, *bias = p->bias;
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int c = 0; c < n; c++) {
            const int64_t at = r * channels + c;
            const float apart = dt_load(x, at, t) - mean[c], given = dt_load(dy, at, t);
            const float d = relu && apart * scale[c] + bias[c] <= 0.0f ? 0.0f : given;
            dt_store(dx, at, t, scale[c] * (d - shift[c] - apart * slope[c]));
        }
}

#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void join_##name(const void *x, int64_t rows, int64_t channels, int n,        \
        int64_t before, double *mean, double *m2)                                                  \
    {                                                                                              \
        join(x, rows, channels, n, before, mean, m2, t);                                           \
    }
#define FOR_KIND(name, relu, t)                                                                    \
    DT_CLONES static void normalise_##name(                                                        \
        const void *x, void *y, int64_t rows, int64_t channels, int n, const dti_norm *p)          \
    {                                                                                              \
        normalise(x, y, rows, channels, n, p, relu, t);                                            \
    }                                                                                              \
    DT_CLONES static void sum_##name(const void *x, const void *dy, int64_t rows,                  \
        int64_t channels, int n, const dti_norm *p, double *dbias, double *dweight)                \
    {                                                                                              \
        sum_up(x, dy, rows, channels, n, p, dbias, dweight, relu, t);                              \
    }                                                                                              \
    DT_CLONES static void differentiate_##name(const void *x, const void *dy, void *dx,            \
        int64_t rows, int64_t channels, int n, const dti_norm *p, const float *shift,              \
        const float *slope)                                                                        \
    {                                                                                              \
        differentiate(x, dy, dx, rows, channels, n, p, shift, slope, relu, t);                     \
    }

FOR_TYPE(f32, DT_F32)
FOR_TYPE(bf16, DT_BF16)
FOR_KIND(f32, false, DT_F32)
FOR_KIND(bf16, false, DT_BF16)
FOR_KIND(relu_f32, true, DT_F32)
FOR_KIND(relu_bf16, true, DT_BF16)

#define ROWS(kind, type)                                                                           \
    {                                                                                              \
        join_##type, normalise_##kind, sum_##kind, differentiate_##kind                            \
    }

const dti_batchnorm_rows dti_batchnorm_rows_of[2][DT_DTYPES] = {
    {[DT_F32] = ROWS(f32, f32), [DT_BF16] = ROWS(bf16, bf16)},
    {[DT_F32] = ROWS(relu_f32, f32), [DT_BF16] = ROWS(relu_bf16, bf16)},
};
