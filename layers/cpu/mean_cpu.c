/* Means along an axis, or of each channel of a map, on the processor. */
#include "layers/pool/mean.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/value.h"
#include "layers/cpu/values.h"

/* Means at a time, and of rows whose values lie side by side; values added in single precision */
enum { TILE = 64, ROWS = 16, BLOCK = 32 };

struct job {
    const dt_args *a;
    dti_mean_view v;
    int64_t rows, tiles; /* v.outer of all samples; of v.inner, or of rows where that is 1 */
};

/* Blocks of values in single precision, blocks in double: the error does not grow with the image.
 * @outer: counted through all samples */
DT_INLINE void mean(const struct job *j, int64_t outer, int64_t c, int n, dt_dtype t)
{
    float buffer[TILE], y[TILE];
    double sum[TILE] = {0};
    for (int64_t at = 0; at < j->v.count; at += BLOCK) {
        float part[TILE] = {0};
        for (int64_t p = at; p < j->v.count && p < at + BLOCK; p++) {
            const int64_t from = (outer * j->v.count + p) * j->v.inner + c;
            const float *x = dti_values_read(t, j->a->port[DT_X], from, buffer, n);
#pragma omp simd
            for (int k = 0; k < n; k++)
                part[k] += x[k];
        }
        for (int k = 0; k < TILE; k++)
            sum[k] += (double)part[k];
    }
    float *to = dti_values_target(t, j->a->port[DT_Y], outer * j->v.inner + c, y);
    for (int k = 0; k < n; k++)
        to[k] = (float)(sum[k] / (double)j->v.count);
    dti_values_write(t, j->a->port[DT_Y], outer * j->v.inner + c, to, n);
}

DT_INLINE void spread(const struct job *j, int64_t outer, int64_t c, int n, dt_dtype t)
{
    float buffer[TILE], part[TILE];
    dt_bf16 rounded[TILE];
    const float *dy = dti_values_read(t, j->a->port[DT_DY], outer * j->v.inner + c, buffer, n);
    for (int k = 0; k < n; k++)
        part[k] = dy[k] / (float)j->v.count;
    dti_values_write(t, rounded, 0, part, n);
    for (int64_t p = 0; p < j->v.count; p++)
        memcpy(dti_to(j->a->port[DT_DX], (outer * j->v.count + p) * j->v.inner + c, t),
            t == DT_BF16 ? (const void *)rounded : part, (size_t)n * dt_dtype_bytes(t));
}

/* Of each of some rows the mean of its values, which lie side by side and are added in the same
 * order as others: several rows together, as each sum has to wait for its last one. */
DT_INLINE void some_row_means(const struct job *j, int64_t row, int rows, dt_dtype t)
{
    float buffer[ROWS][BLOCK];
    const float *x[ROWS];
    double sum[ROWS] = {0};
    for (int64_t at = 0; at < j->v.count; at += BLOCK) {
        const int n = j->v.count - at < BLOCK ? (int)(j->v.count - at) : BLOCK;
        float part[ROWS] = {0};
        for (int r = 0; r < ROWS; r++) /* what is too much is the last row again */
            x[r] = dti_values_read(t, j->a->port[DT_X],
                (row + (r < rows ? r : rows - 1)) * j->v.count + at, buffer[r], n);
        for (int p = 0; p < n; p++)
            for (int r = 0; r < ROWS; r++)
                part[r] += x[r][p];
        for (int r = 0; r < ROWS; r++)
            sum[r] += (double)part[r];
    }
    for (int r = 0; r < rows; r++)
        dti_store(j->a->port[DT_Y], row + r, t, (float)(sum[r] / (double)j->v.count));
}

DT_INLINE void row_means(const struct job *j, dti_span s, dt_dtype t)
{
    for (int64_t row = s.begin; row < s.end; row += ROWS)
        some_row_means(j, row, s.end - row < ROWS ? (int)(s.end - row) : ROWS, t);
}

DT_INLINE void spread_rows(const struct job *j, dti_span s, dt_dtype t)
{
    const int64_t count = j->v.count;
    for (int64_t row = s.begin; row < s.end; row++) {
        const float part = dti_load(j->a->port[DT_DY], row, t) / (float)count;
        void *to = dti_to(j->a->port[DT_DX], row * count, t);
#pragma omp simd
        for (int64_t k = 0; k < count; k++)
            dti_store(to, k, t, part);
    }
}

/* Tasks are some neighbouring means. */
#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void forward_rows_##name(const void *job, int64_t i)                          \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        row_means(j, dti_span_of(j->rows, TILE, i), t);                                            \
    }                                                                                              \
    DT_CLONES static void backward_rows_##name(const void *job, int64_t i)                         \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        spread_rows(j, dti_span_of(j->rows, TILE, i), t);                                          \
    }                                                                                              \
    DT_CLONES static void forward_##name(const void *job, int64_t i)                               \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        const int64_t c = i % j->tiles * TILE, left = j->v.inner - c;                              \
        mean(j, i / j->tiles, c, left < TILE ? (int)left : TILE, t);                               \
    }                                                                                              \
    DT_CLONES static void backward_##name(const void *job, int64_t i)                              \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        const int64_t c = i % j->tiles * TILE, left = j->v.inner - c;                              \
        spread(j, i / j->tiles, c, left < TILE ? (int)left : TILE, t);                             \
    }

FOR_TYPE(f32, DT_F32)
FOR_TYPE(bf16, DT_BF16)

static void run(const dt_call *c, const dt_args *a, int over)
{
    static dti_task *const task[2][2][2] = {/* by type, whether rows, whether backward */
        {{forward_f32, backward_f32}, {forward_rows_f32, backward_rows_f32}},
        {{forward_bf16, backward_bf16}, {forward_rows_bf16, backward_rows_bf16}}};
    const dti_mean_view v = dti_mean_view_of(dti_call_x(c), over);
    const bool rows = v.inner == 1;
    struct job j = {.a = a, .v = v, .rows = a->n * v.outer};
    j.tiles = dti_ceil_div(rows ? j.rows : v.inner, TILE);
    dti_run_tasks(rows ? j.tiles : j.rows * j.tiles,
        task[c->dtype == DT_BF16][rows][c->form == DT_BACKWARD], &j);
}

static dt_status run_mean(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    run(c, a, ((const dti_mean *)c->node->opts)->over);
    return DT_OK;
}

static dt_status run_global(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    run(c, a, DTI_MEAN_SPACE);
    return DT_OK;
}

const dt_kernels dt_mean_cpu = {.run = run_mean};
const dt_kernels dt_global_avgpool_cpu = {.run = run_global};
