#include "layers/maxpool.h"

#include <math.h>
#include <string.h>

#include "layers/cpu.h"
#include "layers/pool.h"
#include "layers/value.h"

enum { TILE = 64 }; /* channels worked on at a time */

struct job {
    const dt_args *a;
    dt_dtype t;
    dt_pool p;
    dt_shape x, y;
    int64_t tiles; /* of channels */
    int64_t rows;  /* of outputs, of a forward task */
    bool packed;   /* two positions a byte */
    size_t index_bytes;
};

/* The part of a window that lies in the input, and the number of its first position: position
 * i * kernel + k is row i, column k of the whole window, padding included. */
typedef struct window {
    dt_span h, w;
    int first;
} window;

DT_INLINE window window_at(const struct job *j, int64_t row, int64_t col)
{
    const dt_span h = dt_pool_span(&j->p, row, j->x.h), w = dt_pool_span(&j->p, col, j->x.w);
    const int64_t above = h.begin - (row * j->p.stride - j->p.pad);
    const int64_t before = w.begin - (col * j->p.stride - j->p.pad);
    return (window){h, w, (int)(above * j->p.kernel + before)};
}

DT_INLINE int position(const struct job *j, const window *w, int64_t r, int64_t q)
{
    return w->first + (int)((r - w->h.begin) * j->p.kernel + q - w->w.begin);
}

/* Element of x at row r, column q. */
DT_INLINE int64_t pixel(const struct job *j, int64_t r, int64_t q)
{
    return (r * j->x.w + q) * j->x.c;
}

/* Largest of each channel over the positions of one window, and which position that was: the first
 * of equals, and the first NaN where there is one. */
DT_INLINE void find_max(const struct job *j, const void *x, int64_t from, const window *w, int n,
    float *best, int *at, dt_dtype t)
{
    for (int c = 0; c < n; c++) {
        best[c] = -INFINITY;
        at[c] = w->first;
    }
    for (int64_t r = w->h.begin; r < w->h.end; r++)
        for (int64_t q = w->w.begin; q < w->w.end; q++) {
            const int64_t here = from + pixel(j, r, q);
            const int number = position(j, w, r, q);
#pragma omp simd
            for (int c = 0; c < n; c++) {
                const float v = dt_load(x, here + c, t);
                const bool wins = !(v <= best[c]) && best[c] == best[c];
                at[c] = wins ? number : at[c];
                best[c] = wins ? v : best[c];
            }
        }
}

/* Positions of n outputs of a sample, from output e on. Where two share a byte the even one comes
 * first and writes it whole. */
DT_INLINE void put_positions(uint8_t *index, bool packed, int64_t e, const int *at, int n)
{
    if (!packed) {
        for (int k = 0; k < n; k++)
            index[e + k] = (uint8_t)at[k];
        return;
    }
    int k = 0;
    if (e % 2 != 0)
        index[e / 2] = (uint8_t)(index[e / 2] | at[k++] << 4);
    uint8_t *pair = index + (e + k) / 2;
    const int pairs = (n - k) / 2;
#pragma omp simd
    for (int i = 0; i < pairs; i++)
        pair[i] = (uint8_t)(at[k + 2 * i] | at[k + 2 * i + 1] << 4);
    if (k + 2 * pairs < n)
        pair[pairs] = (uint8_t)at[n - 1];
}

DT_INLINE void get_positions(const uint8_t *index, bool packed, int64_t e, int *at, int n)
{
    if (!packed) {
        for (int k = 0; k < n; k++)
            at[k] = index[e + k];
        return;
    }
    int k = 0;
    if (e % 2 != 0)
        at[k++] = index[e / 2] >> 4;
    const uint8_t *pair = index + (e + k) / 2;
    const int pairs = (n - k) / 2;
#pragma omp simd
    for (int i = 0; i < pairs; i++) {
        at[k + 2 * i] = pair[i] & 15;
        at[k + 2 * i + 1] = pair[i] >> 4;
    }
    if (k + 2 * pairs < n)
        at[n - 1] = pair[pairs] & 15;
}

DT_INLINE void put_values(void *y, int64_t e, const float *best, int n, dt_dtype t)
{
#pragma omp simd
    for (int k = 0; k < n; k++)
        dt_store(y, e + k, t, best[k]);
}

/* One row of outputs of one sample. */
DT_INLINE void forward_row(const struct job *j, int64_t sample, int64_t row, dt_dtype t)
{
    const int64_t channels = j->x.c, from = sample * dt_shape_sample(&j->x);
    const int64_t to = sample * dt_shape_sample(&j->y), begin = row * j->y.w * channels;
    uint8_t *index = j->a->port[DT_S];
    float best[TILE];
    int at[TILE];
    for (int64_t col = 0; col < j->y.w; col++) {
        const window w = window_at(j, row, col);
        for (int64_t c = 0; c < channels; c += TILE) {
            const int n = channels - c < TILE ? (int)(channels - c) : TILE;
            const int64_t e = begin + col * channels + c;
            find_max(j, j->a->port[DT_X], from + c, &w, n, best, at, t);
            put_values(j->a->port[DT_Y], to + e, best, n, t);
            if (index != NULL)
                put_positions(index + (size_t)sample * j->index_bytes, j->packed, e, at, n);
        }
    }
}

/* The position of the maximum once more, from the values: the first that equals y, or is NaN if y
 * is. */
DT_INLINE void find_again(const struct job *j, const void *x, int64_t from, const void *y,
    int64_t out, const window *w, int n, int *at, dt_dtype t)
{
    for (int64_t r = w->h.end - 1; r >= w->h.begin; r--)
        for (int64_t q = w->w.end - 1; q >= w->w.begin; q--) {
            const int64_t here = from + pixel(j, r, q);
            const int number = position(j, w, r, q);
#pragma omp simd
            for (int c = 0; c < n; c++) {
                const float v = dt_load(x, here + c, t), best = dt_load(y, out + c, t);
                at[c] = v == best || (v != v && best != best) ? number : at[c];
            }
        }
}

DT_INLINE void scatter(const struct job *j, void *dx, int64_t from, const void *dy, int64_t out,
    const window *w, int n, const int *at, dt_dtype t)
{
    for (int64_t r = w->h.begin; r < w->h.end; r++)
        for (int64_t q = w->w.begin; q < w->w.end; q++) {
            const int64_t here = from + pixel(j, r, q);
            const int number = position(j, w, r, q);
#pragma omp simd
            for (int c = 0; c < n; c++) {
                const float more = at[c] == number ? dt_load(dy, out + c, t) : 0.0f;
                dt_store(dx, here + c, t, dt_load(dx, here + c, t) + more);
            }
        }
}

DT_INLINE void zero_rows(
    const struct job *j, void *dx, int64_t from, int64_t begin, int64_t end, int n)
{
    for (int64_t i = begin * j->x.w; i < end * j->x.w; i++)
        memset(dt_to(dx, from + i * j->x.c, j->t), 0, (size_t)n * dt_dtype_bytes(j->t));
}

/* Some channels of one sample, output after output, so that sums have one order. Rows of dx are
 * zeroed right before the first window that reaches them, while they are near. */
DT_INLINE void backward_tile(const struct job *j, int64_t i, dt_dtype t)
{
    const int64_t sample = i / j->tiles, c = i % j->tiles * TILE, channels = j->x.c;
    const int n = channels - c < TILE ? (int)(channels - c) : TILE;
    const int64_t from = sample * dt_shape_sample(&j->x) + c;
    const int64_t to = sample * dt_shape_sample(&j->y);
    const uint8_t *index = j->a->port[DT_S];
    void *dx = j->a->port[DT_DX];
    int64_t ready = 0;
    int at[TILE] = {0};
    for (int64_t row = 0; row < j->y.h; row++) {
        const int64_t end = dt_pool_span(&j->p, row, j->x.h).end;
        zero_rows(j, dx, from, ready, end, n);
        ready = end > ready ? end : ready;
        for (int64_t col = 0; col < j->y.w; col++) {
            const window w = window_at(j, row, col);
            const int64_t e = (row * j->y.w + col) * channels + c;
            if (index == NULL)
                find_again(j, j->a->port[DT_X], from, j->a->port[DT_Y], to + e, &w, n, at, t);
            else
                get_positions(index + (size_t)sample * j->index_bytes, j->packed, e, at, n);
            scatter(j, dx, from, j->a->port[DT_DY], to + e, &w, n, at, t);
        }
    }
    zero_rows(j, dx, from, ready, j->x.h, n);
}

/* Rows whose last byte of positions the next row would share come in pairs. */
#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void forward_##name(const struct job *j, int64_t i)                           \
    {                                                                                              \
        const int64_t tasks = dt_ceil_div(j->y.h, j->rows);                                        \
        const dt_span rows = dt_span_of(j->y.h, j->rows, i % tasks);                               \
        for (int64_t row = rows.begin; row < rows.end; row++)                                      \
            forward_row(j, i / tasks, row, t);                                                     \
    }                                                                                              \
    DT_CLONES static void backward_##name(const struct job *j, int64_t i)                          \
    {                                                                                              \
        backward_tile(j, i, t);                                                                    \
    }

FOR_TYPE(f32, DT_F32)
FOR_TYPE(bf16, DT_BF16)

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    (j->t == DT_BF16 ? forward_bf16 : forward_f32)(j, i);
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    (j->t == DT_BF16 ? backward_bf16 : backward_f32)(j, i);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_maxpool *o = c->node->opts;
    const dt_shape y = c->node->info.y;
    const struct job j = {
        .a = a,
        .t = c->dtype,
        .p = {o->kernel, o->stride == 0 ? o->kernel : o->stride, o->pad, o->ceil},
        .x = dt_call_x(c),
        .y = y,
        .tiles = dt_ceil_div(y.c, TILE),
        .rows = y.w * y.c % 2 != 0 ? 2 : 1,
        .packed = dt_maxpool_packed(o),
        .index_bytes = c->node->info.stash[0].sample_bytes,
    };
    if (c->form == DT_BACKWARD)
        dt_team(a->n * j.tiles, backward_task, &j);
    else
        dt_team(a->n * dt_ceil_div(y.h, j.rows), forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_maxpool_cpu = {.run = run};
