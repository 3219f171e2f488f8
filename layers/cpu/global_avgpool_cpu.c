/* The mean of each channel on the processor. */
#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/value.h"
#include "layers/cpu/values.h"

enum { TILE = 64, BLOCK = 32 }; /* channels at a time; pixels added in single precision */

struct job {
    const dt_args *a;
    dt_dtype type;
    int64_t pixels, channels, tiles;
};

/* Blocks of pixels in single precision, blocks in double: the error does not grow with the image.
 */
DT_INLINE void mean(const struct job *j, int64_t sample, int64_t c, int n, dt_dtype t)
{
    float buffer[TILE], y[TILE];
    double sum[TILE] = {0};
    for (int64_t at = 0; at < j->pixels; at += BLOCK) {
        float part[TILE] = {0};
        for (int64_t p = at; p < j->pixels && p < at + BLOCK; p++) {
            const int64_t from = (sample * j->pixels + p) * j->channels + c;
            const float *x = dti_values_read(t, j->a->port[DT_X], from, buffer, n);
#pragma omp simd
            for (int k = 0; k < n; k++)
                part[k] += x[k];
        }
        for (int k = 0; k < TILE; k++)
            sum[k] += (double)part[k];
    }
    float *to = dti_values_target(t, j->a->port[DT_Y], sample * j->channels + c, y);
    for (int k = 0; k < n; k++)
        to[k] = (float)(sum[k] / (double)j->pixels);
    dti_values_write(t, j->a->port[DT_Y], sample * j->channels + c, to, n);
}

DT_INLINE void spread(const struct job *j, int64_t sample, int64_t c, int n, dt_dtype t)
{
    float buffer[TILE], part[TILE];
    dt_bf16 rounded[TILE];
    const float *dy = dti_values_read(t, j->a->port[DT_DY], sample * j->channels + c, buffer, n);
    for (int k = 0; k < n; k++)
        part[k] = dy[k] / (float)j->pixels;
    dti_values_write(t, rounded, 0, part, n);
    for (int64_t p = 0; p < j->pixels; p++)
        memcpy(dti_to(j->a->port[DT_DX], (sample * j->pixels + p) * j->channels + c, t),
            t == DT_BF16 ? (const void *)rounded : part, (size_t)n * dt_dtype_bytes(t));
}

/* Tasks are some channels of one sample. */
#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void forward_##name(const void *job, int64_t i)                               \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        const int64_t c = i % j->tiles * TILE, left = j->channels - c;                             \
        mean(j, i / j->tiles, c, left < TILE ? (int)left : TILE, t);                               \
    }                                                                                              \
    DT_CLONES static void backward_##name(const void *job, int64_t i)                              \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        const int64_t c = i % j->tiles * TILE, left = j->channels - c;                             \
        spread(j, i / j->tiles, c, left < TILE ? (int)left : TILE, t);                             \
    }

FOR_TYPE(f32, DT_F32)
FOR_TYPE(bf16, DT_BF16)

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dti_call_x(c);
    const struct job j = {a, c->dtype, x.h * x.w, x.c, dt_ceil_div(x.c, TILE)};
    const bool back = c->form == DT_BACKWARD;
    if (c->dtype == DT_BF16)
        dti_run_tasks(a->n * j.tiles, back ? backward_bf16 : forward_bf16, &j);
    else
        dti_run_tasks(a->n * j.tiles, back ? backward_f32 : forward_f32, &j);
    return DT_OK;
}

const dt_kernels dt_global_avgpool_cpu = {.run = run};
