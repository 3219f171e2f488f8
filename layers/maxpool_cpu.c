#include "layers/maxpool.h"

#include <math.h>
#include <string.h>

#include "layers/cpu.h"
#include "layers/pool.h"

enum { TILE = 64 }; /* channels worked on at a time */

struct job {
    const dt_args *a;
    dt_pool p;
    dt_shape x, y;
    int64_t tiles; /* of channels */
};

/* Number of the window's first position that lies in the input: position i * kernel + k is row i,
 * column k of the whole window, padding included. */
DT_INLINE int position(const dt_pool *p, int64_t begin, int64_t window)
{
    return (int)(begin - (window * p->stride - p->pad));
}

/* Largest of each channel over the positions of one window, and which position that was: the first
 * of equals, and the first NaN where there is one. */
DT_INLINE void find_max(const struct job *j, const float *x, dt_span h, dt_span w, int h0, int w0,
    int n, float *best, int *at)
{
    const int first = h0 * (int)j->p.kernel + w0;
    for (int c = 0; c < n; c++) {
        best[c] = -INFINITY;
        at[c] = first;
    }
    for (int64_t r = h.begin; r < h.end; r++)
        for (int64_t q = w.begin; q < w.end; q++) {
            const float *v = x + (r * j->x.w + q) * j->x.c;
            const int here = first + (int)((r - h.begin) * j->p.kernel + q - w.begin);
#pragma omp simd
            for (int c = 0; c < n; c++) {
                const bool wins = !(v[c] <= best[c]) && best[c] == best[c];
                at[c] = wins ? here : at[c];
                best[c] = wins ? v[c] : best[c];
            }
        }
}

/* One row of outputs of one sample. */
DT_CLONES static void forward_row(const struct job *j, int64_t i)
{
    const int64_t channels = j->x.c, sample = i / j->y.h, row = i % j->y.h;
    const float *x = (const float *)j->a->port[DT_X] + sample * dt_shape_sample(&j->x);
    const int64_t to = i * j->y.w * channels;
    float *y = (float *)j->a->port[DT_Y] + to;
    uint8_t *index = j->a->port[DT_S];
    const dt_span h = dt_pool_span(&j->p, row, j->x.h);
    float best[TILE];
    int at[TILE];
    for (int64_t col = 0; col < j->y.w; col++) {
        const dt_span w = dt_pool_span(&j->p, col, j->x.w);
        for (int64_t c = 0; c < channels; c += TILE) {
            const int n = channels - c < TILE ? (int)(channels - c) : TILE;
            find_max(j, x + c, h, w, position(&j->p, h.begin, row), position(&j->p, w.begin, col),
                n, best, at);
            memcpy(y + col * channels + c, best, (size_t)n * sizeof *best);
            if (index != NULL)
                for (int k = 0; k < n; k++)
                    index[to + col * channels + c + k] = (uint8_t)at[k];
        }
    }
}

/* The position of the maximum once more, from the values: the first that equals y, or is NaN if y
 * is. */
DT_INLINE void find_again(const struct job *j, const float *x, const float *y, dt_span h, dt_span w,
    int h0, int w0, int n, int *at)
{
    const int first = h0 * (int)j->p.kernel + w0;
    for (int64_t r = h.end - 1; r >= h.begin; r--)
        for (int64_t q = w.end - 1; q >= w.begin; q--) {
            const float *v = x + (r * j->x.w + q) * j->x.c;
            const int here = first + (int)((r - h.begin) * j->p.kernel + q - w.begin);
#pragma omp simd
            for (int c = 0; c < n; c++)
                at[c] = v[c] == y[c] || (v[c] != v[c] && y[c] != y[c]) ? here : at[c];
        }
}

DT_INLINE void scatter(const struct job *j, float *dx, const float *dy, dt_span h, dt_span w,
    int h0, int w0, int n, const int *at)
{
    const int first = h0 * (int)j->p.kernel + w0;
    for (int64_t r = h.begin; r < h.end; r++)
        for (int64_t q = w.begin; q < w.end; q++) {
            float *v = dx + (r * j->x.w + q) * j->x.c;
            const int here = first + (int)((r - h.begin) * j->p.kernel + q - w.begin);
#pragma omp simd
            for (int c = 0; c < n; c++)
                v[c] += at[c] == here ? dy[c] : 0.0f;
        }
}

DT_INLINE void zero_rows(const struct job *j, float *dx, dt_span rows, int n)
{
    for (int64_t i = rows.begin * j->x.w; i < rows.end * j->x.w; i++)
        memset(dx + i * j->x.c, 0, (size_t)n * sizeof *dx);
}

/* Some channels of one sample, output after output, so that sums have one order. Rows of dx are
 * zeroed right before the first window that reaches them, while they are near. */
DT_CLONES static void backward_tile(const struct job *j, int64_t i)
{
    const int64_t sample = i / j->tiles, c = i % j->tiles * TILE, channels = j->x.c;
    const int n = channels - c < TILE ? (int)(channels - c) : TILE;
    const int64_t in = sample * dt_shape_sample(&j->x) + c;
    const float *x = j->a->port[DT_X], *y = j->a->port[DT_Y], *dy = j->a->port[DT_DY];
    const uint8_t *index = j->a->port[DT_S];
    float *dx = (float *)j->a->port[DT_DX] + in;
    int64_t ready = 0;
    int at[TILE] = {0};
    for (int64_t row = 0; row < j->y.h; row++) {
        const dt_span h = dt_pool_span(&j->p, row, j->x.h);
        const int h0 = position(&j->p, h.begin, row);
        if (h.end > ready)
            zero_rows(j, dx, (dt_span){ready, h.end}, n);
        ready = h.end > ready ? h.end : ready;
        for (int64_t col = 0; col < j->y.w; col++) {
            const dt_span w = dt_pool_span(&j->p, col, j->x.w);
            const int w0 = position(&j->p, w.begin, col);
            const int64_t out = ((sample * j->y.h + row) * j->y.w + col) * channels + c;
            if (index == NULL)
                find_again(j, x + in, y + out, h, w, h0, w0, n, at);
            else
                for (int k = 0; k < n; k++)
                    at[k] = index[out + k];
            scatter(j, dx, dy + out, h, w, h0, w0, n, at);
        }
    }
    zero_rows(j, dx, (dt_span){ready, j->x.h}, n);
}

static void forward_task(const void *job, int64_t i)
{
    forward_row(job, i);
}

static void backward_task(const void *job, int64_t i)
{
    backward_tile(job, i);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_maxpool *o = c->node->opts;
    const struct job j = {
        .a = a,
        .p = {o->kernel, o->stride == 0 ? o->kernel : o->stride, o->pad, o->ceil},
        .x = dt_call_x(c),
        .y = c->node->info.y,
        .tiles = dt_ceil_div(c->node->info.y.c, TILE),
    };
    if (c->form == DT_BACKWARD)
        dt_team(a->n * j.tiles, backward_task, &j);
    else
        dt_team(a->n * j.y.h, forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_maxpool_cpu = {.run = run};
