/* Max pooling on the processor. */
#include "layers/pool/maxpool.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/maxpool_rows.h"
#include "layers/pool/pool.h"
#include "layers/value.h"

enum {
    TILE = 64,           /* channels that forward works on at a time */
    CHANNELS = 1024,     /* and backward: a pixel's lie side by side, as memory likes it */
    POSITIONS = 1 << 16, /* that backward keeps on the stack, of a block's windows: 128 KiB */
    MOST_SIDE = 32       /* pixels of a block of backward */
};

struct job {
    const dt_args *a;
    const dti_maxpool_rows *on;
    dt_dtype t;
    dti_windows p;
    dt_shape x, y;
    int64_t rows;               /* of outputs, of a forward task */
    int64_t wide, parts;        /* channels of a block of backward, and parts of so many */
    int64_t side, down, across; /* pixels of it; blocks of an image */
    bool packed;                /* two positions a byte */
    bool apart, gaps;           /* windows share no pixel; some pixels lie in none */
    size_t index_bytes;
};

/* Element of a sample at which a window begins. */
static int64_t first_of(const struct job *j, int64_t row, int64_t col)
{
    const int64_t h = dti_window_span(&j->p.h, row, j->x.h).begin;
    return (h * j->x.w + dti_window_span(&j->p.w, col, j->x.w).begin) * j->x.c;
}

/* The part of a window that lies in the input; position i * width + k is row i, column k of the
 * whole window, padding included. @from is the first element of x, which backward may lack. */
static dti_window window_at(const struct job *j, int64_t from, int64_t row, int64_t col)
{
    const dti_window_side *down = &j->p.h, *right = &j->p.w;
    const dti_span h = dti_window_span(down, row, j->x.h), w = dti_window_span(right, col, j->x.w);
    const int64_t above = h.begin - (row * down->stride - down->pad);
    const int64_t before = w.begin - (col * right->stride - right->pad);
    const void *x = j->a->port[DT_X];
    return (dti_window){
        .x = x != NULL ? dti_from(x, from + first_of(j, row, col), j->t) : NULL,
        .row = j->x.w * j->x.c,
        .pixel = j->x.c,
        .h = (int)(h.end - h.begin),
        .w = (int)(w.end - w.begin),
        .first = (int)(above * right->kernel + before),
        .per_row = (int)right->kernel,
    };
}

/* Channels from c on, a tile at most. */
static int width(const struct job *j, int64_t c)
{
    return j->x.c - c < TILE ? (int)(j->x.c - c) : TILE;
}

/* Positions of n outputs of a sample, from output e on. Where two share a byte the even one comes
 * first and writes it whole. */
DT_CLONES static void put_positions(
    uint8_t *index, bool packed, int64_t e, const dt_bf16 *from, int n)
{
    int at[TILE];
    for (int k = 0; k < n; k++)
        at[k] = (int)dt_bf16_to_float(from[k]);
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

DT_CLONES static void get_positions(
    const uint8_t *index, bool packed, int64_t e, dt_bf16 *to, int n)
{
    for (int k = 0; k < n; k++) {
        const int at = packed ? index[(e + k) / 2] >> (e + k) % 2 * 4 & 15 : index[e + k];
        to[k] = dt_bf16_from_float((float)at);
    }
}

/* One row of outputs of one sample. */
static void forward_row(const struct job *j, int64_t sample, int64_t row)
{
    const int64_t channels = j->x.c, from = sample * dt_shape_sample(&j->x);
    const int64_t to = sample * dt_shape_sample(&j->y), begin = row * j->y.w * channels;
    uint8_t *index = j->a->port[DT_S];
    dt_bf16 at[TILE];
    for (int64_t col = 0; col < j->y.w; col++)
        for (int64_t c = 0; c < channels; c += TILE) {
            const dti_window w = window_at(j, from + c, row, col);
            const int64_t e = begin + col * channels + c;
            j->on->find_max(&w, width(j, c), dti_to(j->a->port[DT_Y], to + e, j->t), at);
            if (index != NULL)
                put_positions(
                    index + (size_t)sample * j->index_bytes, j->packed, e, at, width(j, c));
        }
}

/* The same row's positions, as values of y. */
static void index_row(const struct job *j, int64_t sample, int64_t row)
{
    const int64_t channels = j->x.c, from = sample * dt_shape_sample(&j->x);
    const int64_t to = sample * dt_shape_sample(&j->y) + row * j->y.w * channels;
    float most[TILE]; /* of either type */
    dt_bf16 at[TILE];
    for (int64_t col = 0; col < j->y.w; col++)
        for (int64_t c = 0; c < channels; c += TILE) {
            const dti_window w = window_at(j, from + c, row, col);
            j->on->find_max(&w, width(j, c), most, at);
            for (int k = 0; k < width(j, c); k++)
                dti_store(
                    j->a->port[DT_Y], to + col * channels + c + k, j->t, dt_bf16_to_float(at[k]));
        }
}

static void index_task(const void *job, int64_t i)
{
    const struct job *j = job;
    index_row(j, i / j->y.h, i % j->y.h);
}

/* Rows whose last byte of positions the next row would share come in pairs. */
static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t tasks = dti_ceil_div(j->y.h, j->rows);
    const dti_span rows = dti_span_of(j->y.h, j->rows, i % tasks);
    for (int64_t row = rows.begin; row < rows.end; row++)
        forward_row(j, i / tasks, row);
}

/* A block of pixels of n channels of one sample, and the windows that reach it. */
typedef struct block {
    int64_t sample, c;
    int n;
    dti_span h, w, rows, cols;
} block;

static block block_at(const struct job *j, int64_t i)
{
    const dti_span c = dti_span_of(j->x.c, j->wide, i % j->parts);
    block b = {.c = c.begin, .n = (int)dti_span_count(c)};
    b.sample = i / j->parts / j->across / j->down;
    b.w = dti_span_of(j->x.w, j->side, i / j->parts % j->across);
    b.h = dti_span_of(j->x.h, j->side, i / j->parts / j->across % j->down);
    b.rows = dti_windows_reaching(&j->p.h, b.h, j->y.h);
    b.cols = dti_windows_reaching(&j->p.w, b.w, j->y.w);
    return b;
}

/* Where the maxima of a block's windows were. */
static void find_positions(const struct job *j, const block *b, dt_bf16 *at)
{
    const int64_t from = b->sample * dt_shape_sample(&j->x) + b->c;
    const int64_t to = b->sample * dt_shape_sample(&j->y);
    const uint8_t *index = j->a->port[DT_S];
    for (int64_t row = b->rows.begin; row < b->rows.end; row++)
        for (int64_t col = b->cols.begin; col < b->cols.end; col++, at += b->n) {
            const int64_t e = (row * j->y.w + col) * j->y.c + b->c;
            if (index != NULL) {
                get_positions(index + (size_t)b->sample * j->index_bytes, j->packed, e, at, b->n);
                continue;
            }
            const dti_window w = window_at(j, from, row, col);
            j->on->find_again(&w, b->n, dti_from(j->a->port[DT_Y], to + e, j->t), at);
        }
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const block b = block_at(j, i);
    dt_bf16 at[POSITIONS];
    find_positions(j, &b, at);
    const int64_t from = b.sample * dt_shape_sample(&j->x) + b.c;
    const int64_t to = b.sample * dt_shape_sample(&j->y) + b.c;
    const int64_t across = b.cols.end - b.cols.begin;
    const dti_window_side *y = &j->p.h, *x = &j->p.w;
    for (int64_t r = b.h.begin; r < b.h.end; r++) {
        const dti_span rows = dti_windows_reaching(&j->p.h, (dti_span){r, r + 1}, j->y.h);
        for (int64_t q = b.w.begin; q < b.w.end; q++) {
            const dti_span cols = dti_windows_reaching(&j->p.w, (dti_span){q, q + 1}, j->y.w);
            const bool any = rows.begin < rows.end && cols.begin < cols.end;
            const int64_t first = (rows.begin - b.rows.begin) * across + cols.begin - b.cols.begin;
            const int64_t out = (rows.begin * j->y.w + cols.begin) * j->y.c;
            const int64_t down = r + y->pad - rows.begin * y->stride;
            const int64_t right = q + x->pad - cols.begin * x->stride;
            const dti_reach g = {
                .at = at + (any ? first * b.n : 0),
                .at_row = across * b.n,
                .at_window = b.n,
                .dy = dti_from(j->a->port[DT_DY], to + (any ? out : 0), j->t),
                .dy_row = j->y.w * j->y.c,
                .dy_window = j->y.c,
                .h = (int)(rows.end - rows.begin),
                .w = (int)(cols.end - cols.begin),
                .number = (int)(down * x->kernel + right),
                .per_row = (int)(y->stride * x->kernel),
                .per_window = (int)x->stride,
            };
            j->on->gather(
                &g, b.n, dti_to(j->a->port[DT_DX], from + (r * j->x.w + q) * j->x.c, j->t));
        }
    }
}

/* Where rows end whose first windows are those of row @row; those before the first window's count
 * to it. */
static dti_span rows_of(const struct job *j, int64_t row)
{
    const int64_t stride = j->p.h.stride, pad = j->p.h.pad;
    return (dti_span){
        row == 0 ? 0 : row * stride - pad, row + 1 < j->y.h ? (row + 1) * stride - pad : j->x.h};
}

/* Of windows that share no pixel a row of one sample, and what lies in no window. */
static void spread_row(const struct job *j, int64_t sample, int64_t row)
{
    const int64_t line = j->x.w * j->x.c, from = sample * dt_shape_sample(&j->x);
    const int64_t to = sample * dt_shape_sample(&j->y);
    const uint8_t *index = j->a->port[DT_S];
    const dti_span rows = rows_of(j, row);
    dt_bf16 at[TILE];
    if (j->gaps)
        memset(dti_to(j->a->port[DT_DX], from + rows.begin * line, j->t), 0,
            (size_t)(dti_span_count(rows) * line) * dt_dtype_bytes(j->t));
    for (int64_t col = 0; col < j->y.w; col++)
        for (int64_t c = 0; c < j->x.c; c += TILE) {
            const int64_t e = (row * j->y.w + col) * j->y.c + c;
            const dti_window w = window_at(j, from + c, row, col);
            if (index != NULL)
                get_positions(
                    index + (size_t)sample * j->index_bytes, j->packed, e, at, width(j, c));
            j->on->spread(&w, width(j, c),
                index == NULL ? dti_from(j->a->port[DT_Y], to + e, j->t) : NULL,
                index == NULL ? NULL : at, dti_from(j->a->port[DT_DY], to + e, j->t),
                dti_to(j->a->port[DT_DX], from + c + first_of(j, row, col), j->t));
        }
}

static void spread_task(const void *job, int64_t i)
{
    const struct job *j = job;
    spread_row(j, i / j->y.h, i % j->y.h);
}

/* Windows that reach a block of such a side. */
static int64_t windows_of(const dti_windows *p, int64_t side)
{
    return ((side + p->h.kernel - 2) / p->h.stride + 1) *
           ((side + p->w.kernel - 2) / p->w.stride + 1);
}

/* As many channels as fit for a pixel alone, and for them the largest block. */
static void size_block(struct job *j)
{
    const int64_t fit = POSITIONS / windows_of(&j->p, 1);
    j->wide = fit < CHANNELS ? fit : CHANNELS;
    j->wide = j->y.c < j->wide ? j->y.c : j->wide;
    j->side = MOST_SIDE;
    while (j->side > 1 && windows_of(&j->p, j->side) * j->wide > POSITIONS)
        j->side--;
    j->parts = dti_ceil_div(j->y.c, j->wide);
    j->down = dti_ceil_div(j->x.h, j->side);
    j->across = dti_ceil_div(j->x.w, j->side);
}

_Static_assert(POSITIONS / (DTI_MAXPOOL_MOST * DTI_MAXPOOL_MOST) > 0, "a pixel's windows fit");

static bool shares_none(const dti_window_side *p)
{
    return p->stride >= p->kernel;
}

/* Whether some of @size pixels lie in none of @count windows. */
static bool leaves_gaps(const dti_window_side *p, int64_t count, int64_t size)
{
    return p->stride > p->kernel || (count - 1) * p->stride - p->pad + p->kernel < size;
}

static struct job job_of(const dt_call *c, const dt_args *a)
{
    const dt_maxpool *o = c->node->opts;
    const dt_shape y = c->node->info.y;
    struct job j = {
        .a = a,
        .on = dti_maxpool_rows_of(dti_lane_set(), c->dtype),
        .t = c->dtype,
        .p = dti_windows_of(o->kernel, o->stride, o->pad, o->ceil),
        .x = dti_call_x(c),
        .y = y,
        .rows = y.w * y.c % 2 != 0 ? 2 : 1,
        .packed = dti_maxpool_packed(o),
        .index_bytes = c->node->info.stash[0].sample_bytes,
    };
    j.apart = shares_none(&j.p.h) && shares_none(&j.p.w);
    j.gaps = leaves_gaps(&j.p.h, y.h, j.x.h) || leaves_gaps(&j.p.w, y.w, j.x.w);
    size_block(&j);
    return j;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a);
    if (c->form == DT_BACKWARD && j.apart)
        dti_run_tasks(a->n * j.y.h, spread_task, &j);
    else if (c->form == DT_BACKWARD)
        dti_run_tasks(a->n * j.down * j.across * j.parts, backward_task, &j);
    else
        dti_run_tasks(a->n * dti_ceil_div(j.y.h, j.rows), forward_task, &j);
    return DT_OK;
}

static dt_status index_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a);
    dti_run_tasks(a->n * j.y.h, index_task, &j);
    return DT_OK;
}

const dt_kernels dt_maxpool_cpu = {.run = run};
const dt_kernels dt_maxpool_index_cpu = {.run = index_run};
