/* Means along an axis, or of each channel of a map, on the processor. */
#include "layers/mean.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/value.h"
#include "layers/cpu/values.h"

enum { TILE = 64, BLOCK = 32 }; /* means at a time; values added in single precision */

struct job {
    const dt_args *a;
    dt_dtype type;
    dti_mean_view v;
    int64_t tiles; /* of v.inner */
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

/* Tasks are some neighbouring means. */
#define FOR_TYPE(name, t)                                                                          \
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
    const dt_shape x = dti_call_x(c);
    const dti_mean_view v = dti_mean_view_of(x, over);
    const struct job j = {a, c->dtype, v, dti_ceil_div(v.inner, TILE)};
    const bool back = c->form == DT_BACKWARD;
    if (c->dtype == DT_BF16)
        dti_run_tasks(a->n * v.outer * j.tiles, back ? backward_bf16 : forward_bf16, &j);
    else
        dti_run_tasks(a->n * v.outer * j.tiles, back ? backward_f32 : forward_f32, &j);
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
