/* Average pooling on the processor. */
#include "layers/pool/avgpool.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/pool/pool.h"
#include "layers/value.h"
#include "layers/cpu/values.h"

enum { TILE = 64 }; /* channels worked on at a time */

struct job {
    const dt_args *a;
    dt_dtype type;
    dti_windows p;
    bool include_pad;
    dt_shape x, y;
};

/* How many positions window i has along one side, for the divisor. */
DT_INLINE int64_t length(
    const struct job *j, const dti_window_side *p, int64_t i, dti_span inside, int64_t size)
{
    const int64_t begin = i * p->stride - p->pad, end = begin + p->kernel;
    const int64_t most = size + p->pad;
    return j->include_pad ? (end < most ? end : most) - begin : inside.end - inside.begin;
}

DT_INLINE float over_of(const struct job *j, int64_t row, dti_span h, int64_t col, dti_span w)
{
    return (float)(length(j, &j->p.h, row, h, j->x.h) * length(j, &j->p.w, col, w, j->x.w));
}

/* Sums row by row first, which keeps the error of large windows small. */
DT_INLINE void add_up(const struct job *j, int64_t sample, int64_t channel, dti_span h, dti_span w,
    int n, float *restrict sum)
{
    float buffer[TILE];
    memset(sum, 0, TILE * sizeof *sum);
    for (int64_t r = h.begin; r < h.end; r++) {
        float line[TILE] = {0};
        for (int64_t q = w.begin; q < w.end; q++) {
            const int64_t at = ((sample * j->x.h + r) * j->x.w + q) * j->x.c + channel;
            const float *v = dti_values_read(j->type, j->a->port[DT_X], at, buffer, n);
#pragma omp simd
            for (int c = 0; c < n; c++)
                line[c] += v[c];
        }
        for (int c = 0; c < TILE; c++)
            sum[c] += line[c];
    }
}

/* One row of outputs of one sample. */
DT_CLONES static void average_row(const struct job *j, int64_t i)
{
    const int64_t channels = j->x.c, sample = i / j->y.h, row = i % j->y.h;
    const dti_span h = dti_window_span(&j->p.h, row, j->x.h);
    float sum[TILE], buffer[TILE];
    for (int64_t col = 0; col < j->y.w; col++) {
        const dti_span w = dti_window_span(&j->p.w, col, j->x.w);
        const float over = over_of(j, row, h, col, w);
        for (int64_t c = 0; c < channels; c += TILE) {
            const int n = channels - c < TILE ? (int)(channels - c) : TILE;
            const int64_t at = (i * j->y.w + col) * channels + c;
            float *y = dti_values_target(j->type, j->a->port[DT_Y], at, buffer);
            add_up(j, sample, c, h, w, n, sum);
#pragma omp simd
            for (int k = 0; k < n; k++)
                y[k] = sum[k] / over;
            dti_values_write(j->type, j->a->port[DT_Y], at, y, n);
        }
    }
}

/* What the windows that hold a pixel hand back to it, added in their order. */
DT_INLINE void gather(
    const struct job *j, int64_t from, dti_span rows, dti_span cols, int n, float *restrict sum)
{
    float buffer[TILE];
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t q = cols.begin; q < cols.end; q++) {
            const float over = over_of(
                j, r, dti_window_span(&j->p.h, r, j->x.h), q, dti_window_span(&j->p.w, q, j->x.w));
            const int64_t at = from + (r * j->y.w + q) * j->y.c;
            const float *v = dti_values_read(j->type, j->a->port[DT_DY], at, buffer, n);
#pragma omp simd
            for (int c = 0; c < n; c++)
                sum[c] += v[c] / over;
        }
}

/* One row of dx of one sample. */
DT_CLONES static void average_gradient_row(const struct job *j, int64_t i)
{
    const int64_t channels = j->x.c, sample = i / j->x.h, row = i % j->x.h;
    const dti_span rows = dti_windows_reaching(&j->p.h, (dti_span){row, row + 1}, j->y.h);
    const int64_t from = sample * dt_shape_sample(&j->y);
    float buffer[TILE];
    for (int64_t col = 0; col < j->x.w; col++) {
        const dti_span cols = dti_windows_reaching(&j->p.w, (dti_span){col, col + 1}, j->y.w);
        for (int64_t c = 0; c < channels; c += TILE) {
            const int n = channels - c < TILE ? (int)(channels - c) : TILE;
            const int64_t at = (i * j->x.w + col) * channels + c;
            float *dx = dti_values_target(j->type, j->a->port[DT_DX], at, buffer);
            gather(j, from + c, rows, cols, n, dx);
            dti_values_write(j->type, j->a->port[DT_DX], at, dx, n);
        }
    }
}

static void forward_task(const void *job, int64_t i)
{
    average_row(job, i);
}

static void backward_task(const void *job, int64_t i)
{
    average_gradient_row(job, i);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_avgpool *o = c->node->opts;
    const struct job j = {
        .a = a,
        .type = c->dtype,
        .p = dti_windows_of(o->kernel, o->stride, o->pad, o->ceil),
        .include_pad = o->include_pad,
        .x = dti_call_x(c),
        .y = c->node->info.y,
    };
    if (c->form == DT_BACKWARD)
        dti_run_tasks(a->n * j.x.h, backward_task, &j);
    else
        dti_run_tasks(a->n * j.y.h, forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_avgpool_cpu = {.run = run};
