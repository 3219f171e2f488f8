/* Winograd's convolutions: transforms by instruction set, tiles, forward and backward-data, and the
 * gradient of the weight. */
#include "layers/blocked/winograd.h"

#include <omp.h>
#include <string.h>

#include "engine/base/numbers.h"
#include "layers/blocked/tile.h"
#include "layers/blocked/transpose.h"
#include "layers/cpu/tasks.h"

/* A tile has SIDE results each way, OVER pixels under it and TAPS numbers once it is transformed.
 */
enum { SIDE = 4, OVER = SIDE + 2, TAPS = OVER * OVER };

/* --- transforms --- */

/* Each works on n channels, a multiple of 16, of one tile, whose pixels and results are of one
 * type; see winograd_kernel.inc. */
typedef struct transforms {
    void (*pixels)(const void *const x[TAPS], int64_t n, float *to, int64_t step);
    void (*results)(
        const float *m, int64_t step, const float *bias, int64_t n, void *const y[SIDE * SIDE]);
    void (*slopes)(const void *const dy[SIDE * SIDE], int64_t n, float *to, int64_t step);
    void (*taps)(const float *const g[9], int64_t n, float *to, int64_t step);
    void (*gradients)(const float *u, int64_t step, int64_t parts, int64_t apart, int64_t n,
        bool add, float *const g[9]);
    void (*add_rows)(const void *x, int64_t rows, int64_t n, float *sum);
} transforms;

#define DT_LANES_KERNEL "layers/blocked/winograd_kernel.inc"
#include "layers/cpu/lanes.inc"

static const transforms *best_transforms(dt_dtype t)
{
    switch (dti_lane_set()) {
#if defined(__x86_64__)
    case DTI_LANES_BF16:
        return &transforms_bf16[t];
    case DTI_LANES_AVX512:
        return &transforms_avx512[t];
    case DTI_LANES_AVX2:
        return &transforms_avx2[t];
#endif
    default:
        return &transforms_plain[t];
    }
}

/* --- tiles --- */

/* PANEL columns of a product at a time, of which DEPTH rows fit the first cache. A task has FEW to
 * MOST tiles, whose transforms fit the second: IN_CACHE floats. Streams of floats are kept PAD
 * apart from powers of two, so that they do not meet in one set of a cache. */
enum { PANEL = 64, DEPTH = 128, FEW = 16, MOST = 64, IN_CACHE = 160 << 10, PAD = 16 };

/* Tiles in columns, rows, and all samples. */
static inline int64_t across(const dti_winograd *s)
{
    return dti_ceil_div(s->q, SIDE);
}

static inline int64_t tiles(const dti_winograd *s)
{
    return s->n * dti_ceil_div(s->p, SIDE) * across(s);
}

bool dti_winograd_saves(int64_t p, int64_t q)
{
    return 3 * TAPS * dti_ceil_div(p, SIDE) * dti_ceil_div(q, SIDE) <= 2 * 9 * p * q;
}

/* A matrix for each tap, with @rows rows: panel by panel, in it tap by tap. @at is a panel's first
 * column. */
static inline int64_t tap_step(int64_t rows, int64_t width)
{
    return rows * width + PAD;
}

static inline int64_t panel_at(int64_t rows, int64_t at)
{
    return TAPS * (rows * at + at / PANEL * PAD);
}

static inline int64_t panels_floats(int64_t rows, int64_t columns)
{
    return panel_at(rows, columns) + (columns % PANEL > 0 ? TAPS * PAD : 0);
}

static inline int64_t width_at(int64_t columns, int64_t at)
{
    return dt_min_i64(PANEL, columns - at);
}

/* Floats from one tap to the next of @each transformed tiles. */
static inline int64_t pixels_step(const dti_winograd *s, int64_t each)
{
    return each * (s->c + PAD);
}

/* One call, as its tasks see it. */
typedef struct winograd_job {
    const dti_winograd *s;
    const transforms *on;
    dti_tile_fn *tile;
    const void *x, *dy;
    const float *weight, *u, *bias; /* u: the weight transformed */
    bool transposed;                /* the weight */
    dti_span columns;
    void *y;
    float *to, *work;   /* to: what is made of a weight, or its gradient */
    int64_t each, some; /* tiles of a task; or columns */
    int64_t scratch;    /* floats that it has */
    unsigned add;       /* bit 0: the gradient to what is there, bit 1: the bias's */
} winograd_job;

/* c = a b of one tap and panel, or that added; a has @t's rows and @depth columns. */
static void multiply(dti_tile t, dti_tile_fn *tile, int64_t depth)
{
    const bool add = t.add;
    for (int64_t k = 0; k < depth; k += DEPTH) {
        t.depth = dt_min_i64(DEPTH, depth - k);
        t.add = add || k > 0;
        tile(&t);
        t.a += DEPTH * t.step;
        t.b += DEPTH * t.b_row;
    }
}

/* Where a tile lies: its sample, first row and first column of results. */
typedef struct place {
    int64_t n, p, q;
} place;

static place place_of(const dti_winograd *s, int64_t tile)
{
    const int64_t row = tile / across(s), down = dti_ceil_div(s->p, SIDE);
    return (place){row / down, SIDE * (row % down), SIDE * (tile % across(s))};
}

/* The pixels under a tile, row by row; @zero stands for those outside of the image. */
static void find_pixels(
    const dti_winograd *s, int64_t tile, const void *x, const void *zero, const void *pixel[TAPS])
{
    const place at = place_of(s, tile);
    const int64_t h0 = at.p - s->pad, w0 = at.q - s->pad;
    for (int64_t h = h0; h < h0 + OVER; h++)
        for (int64_t w = w0; w < w0 + OVER; w++) {
            const bool in = h >= 0 && h < s->h && w >= 0 && w < s->w;
            *pixel++ = in ? dti_from(x, ((at.n * s->h + h) * s->w + w) * s->c, s->type) : zero;
        }
}

/* Numbers of a tile's results, row by row, -1 for those outside. */
static void find_results(const dti_winograd *s, int64_t tile, int64_t result[SIDE * SIDE])
{
    const place at = place_of(s, tile);
    for (int64_t p = at.p; p < at.p + SIDE; p++)
        for (int64_t q = at.q; q < at.q + SIDE; q++)
            *result++ = p < s->p && q < s->q ? (at.n * s->p + p) * s->q + q : -1;
}

/* Tiles of a task. */
static int64_t each_of(const dti_winograd *s)
{
    const int64_t fit = IN_CACHE / (TAPS * (s->c + PAD)) / FEW * FEW;
    return fit < FEW ? FEW : dt_min_i64(fit, MOST);
}

static winograd_job new_job(const dti_winograd *s, float *work)
{
    return (winograd_job){.s = s,
        .on = best_transforms(s->type),
        .tile = dti_tile_best(),
        .work = work,
        .each = each_of(s)};
}

/* The transformed pixels of some tiles: a row a tile. @zero: c zeros */
static void transform_pixels(
    const winograd_job *j, dti_span of, const float *zero, float *to, int64_t step)
{
    const void *pixel[TAPS];
    for (int64_t i = of.begin; i < of.end; i++, to += j->s->c + PAD) {
        find_pixels(j->s, i, j->x, zero, pixel);
        j->on->pixels(pixel, j->s->c, to, step);
    }
}

/* --- forward and backward-data --- */

static void put_results(
    const winograd_job *j, dti_span of, const float *m, int64_t at, int64_t width, float *spare)
{
    const dti_winograd *s = j->s;
    const int64_t step = tap_step(j->each, width);
    for (int64_t i = of.begin; i < of.end; i++, m += width) {
        int64_t to[SIDE * SIDE];
        void *y[SIDE * SIDE];
        find_results(s, i, to);
        for (int k = 0; k < SIDE * SIDE; k++)
            y[k] = to[k] < 0 ? spare : dti_to(j->y, to[k] * s->out + at, s->type);
        j->on->results(m, step, j->bias == NULL ? NULL : j->bias + at, width, y);
    }
}

/* The results of one panel of @width columns, from @at on, of tiles whose transforms are at v,
 * @step from tap to tap, and the panel of the transformed weight. */
static void run_panel(const winograd_job *j, dti_span of, const float *v, int64_t step,
    const float *u, int64_t at, int64_t width, float *m, float *spare)
{
    const dti_winograd *s = j->s;
    dti_tile t = {.row = s->c + PAD,
        .step = 1,
        .b_row = width,
        .c_row = width,
        .m = of.end - of.begin,
        .n = width};
    for (int64_t tap = 0; tap < TAPS; tap++) {
        t.a = v + tap * step;
        t.b = u + tap * tap_step(s->c, width);
        t.c = m + tap * tap_step(j->each, width);
        multiply(t, j->tile, s->c);
    }
    put_results(j, of, m, at, width, spare);
}

/* Scratch of a task: a panel of products, a row for results outside of the image, and where it
 * transforms pixels itself these and a row of zeros. */
static int64_t products_floats(const dti_winograd *s)
{
    return TAPS * tap_step(each_of(s), PANEL) + PANEL;
}

static int64_t tiles_floats(const dti_winograd *s)
{
    return products_floats(s) + TAPS * pixels_step(s, each_of(s)) + s->c;
}

static void run_tiles(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_winograd *s = j->s;
    const dti_span of = dti_span_of(tiles(s), j->each, i);
    const int64_t step = pixels_step(s, j->each);
    float *m = j->work + dt_team_member() * j->scratch, *v = m + products_floats(s);
    float *spare = v - PANEL, *zero = v + TAPS * step;
    memset(zero, 0, (size_t)s->c * sizeof *zero);
    transform_pixels(j, of, zero, v, step);
    for (int64_t at = 0; at < s->out; at += PANEL)
        run_panel(j, of, v, step, j->u + panel_at(s->c, at), at, width_at(s->out, at), m, spare);
}

/* One input channel's taps. */
static void take_taps(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_winograd *s = j->s;
    for (int64_t at = j->columns.begin; at < j->columns.end; at += PANEL) {
        const int64_t width = width_at(j->columns.end, at), here = at - j->columns.begin;
        const float *g[9];
        for (int64_t k = 0; k < 9; k++)
            g[k] = j->weight + (k * s->c + i) * s->out + at;
        j->on->taps(g, width, j->to + panel_at(s->c, here) + i * width, tap_step(s->c, width));
    }
}

/* 16 by 16 channels of a tap change places. */
static void transpose(const float *from, int64_t row, float *to, int64_t to_row)
{
    for (int64_t i = 0; i < PAD; i += 4) {
        const float *const x[4] = {
            from + i * row, from + (i + 1) * row, from + (i + 2) * row, from + (i + 3) * row};
        for (int64_t j = 0; j < PAD; j += 4)
            dti_transpose_four(x, j, 1, to + j * to_row + i, to_row);
    }
}

/* The same of a transposed weight, for 16 of its input channels, which are the layer's outputs. */
static void take_transposed_taps(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_winograd *s = j->s;
    float block[PAD * 9 * PAD];
    for (int64_t at = j->columns.begin; at < j->columns.end; at += PAD) {
        const int64_t before = (at - j->columns.begin) / PANEL * PANEL;
        const int64_t panel = j->columns.begin + before, width = width_at(j->columns.end, panel);
        for (int64_t k = 0; k < 9; k++)
            transpose(j->weight + (k * s->out + at) * s->c + PAD * i, s->c, block + (8 - k) * PAD,
                9 * PAD);
        for (int64_t c = 0; c < PAD; c++) {
            const float *g[9];
            for (int64_t k = 0; k < 9; k++)
                g[k] = block + (c * 9 + k) * PAD;
            float *to = j->to + panel_at(s->c, before);
            j->on->taps(g, PAD, to + (PAD * i + c) * width + at - panel, tap_step(s->c, width));
        }
    }
}

static void transform_weight(
    winograd_job j, bool transposed, const float *weight, dti_span columns, float *to)
{
    j.weight = weight;
    j.columns = columns;
    j.to = to;
    dti_run_tasks(
        transposed ? j.s->c / PAD : j.s->c, transposed ? take_transposed_taps : take_taps, &j);
}

/* A weight that is large for so few tiles is transformed some columns at a time, by the thread that
 * multiplies them by all tiles, whose transforms are made first: that takes less room than the
 * whole of it, and what is large stays in the thread's own caches. */
static int64_t some_columns(void)
{
    const int64_t share = PANEL / omp_get_max_threads() / PAD * PAD;
    return share < PAD ? PAD : share;
}

static int64_t all_tiles_floats(const dti_winograd *s)
{
    return s->c + TAPS * pixels_step(s, tiles(s));
}

static int64_t columns_floats(const dti_winograd *s)
{
    return TAPS * tap_step(s->c, some_columns());
}

static bool by_columns(const dti_winograd *s)
{
    return all_tiles_floats(s) + omp_get_max_threads() * columns_floats(s) <
           panels_floats(s->c, s->out);
}

size_t dti_winograd_weight_bytes(const dti_winograd *s)
{
    return by_columns(s) ? 0 : (size_t)panels_floats(s->c, s->out) * sizeof(float);
}

void dti_winograd_weight(const dti_winograd *s, bool transposed, const float *weight, float *to)
{
    transform_weight(new_job(s, NULL), transposed, weight, (dti_span){0, s->out}, to);
}

static void transform_some(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_span of = dti_span_of(tiles(j->s), j->each, i);
    float *v = j->work + j->s->c + of.begin * (j->s->c + PAD);
    transform_pixels(j, of, j->work, v, pixels_step(j->s, tiles(j->s)));
}

static void run_columns(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_winograd *s = j->s;
    const dti_span columns = dti_span_of(s->out, j->some, i);
    float *u = j->work + all_tiles_floats(s) + dt_team_member() * j->scratch;
    float *m = u + TAPS * tap_step(s->c, j->some);
    transform_weight(*j, j->transposed, j->weight, columns, u);
    for (int64_t k = 0; k < dti_ceil_div(tiles(s), j->each); k++) {
        const dti_span of = dti_span_of(tiles(s), j->each, k);
        run_panel(j, of, j->work + s->c + of.begin * (s->c + PAD), pixels_step(s, tiles(s)), u,
            columns.begin, dti_span_count(columns), m, m + products_floats(s) - PANEL);
    }
}

static void run_by_columns(winograd_job *j)
{
    const dti_winograd *s = j->s;
    memset(j->work, 0, (size_t)s->c * sizeof *j->work);
    j->some = some_columns();
    j->scratch = columns_floats(s) + products_floats(s);
    dti_run_tasks(dti_ceil_div(tiles(s), j->each), transform_some, j);
    dti_run_tasks(dti_ceil_div(s->out, j->some), run_columns, j);
}

size_t dti_winograd_work(const dti_winograd *s)
{
    const bool columns = by_columns(s);
    const int64_t each = columns ? columns_floats(s) + products_floats(s) : tiles_floats(s);
    const int64_t shared = columns ? all_tiles_floats(s) : 0;
    return (size_t)(shared + each * omp_get_max_threads()) * sizeof(float);
}

void dti_winograd_run(const dti_winograd *s, bool transposed, const void *x, const float *weight,
    const float *bias, void *y, float *work)
{
    winograd_job j = new_job(s, work);
    j.x = x;
    j.weight = j.u = weight;
    j.transposed = transposed;
    j.bias = bias;
    j.y = y;
    if (by_columns(s)) {
        run_by_columns(&j);
        return;
    }
    j.scratch = tiles_floats(s);
    dti_run_tasks(dti_ceil_div(tiles(s), j.each), run_tiles, &j);
}

dti_winograd dti_winograd_transposed(const dti_winograd *s)
{
    return (dti_winograd){s->n, s->p, s->q, s->out, s->h, s->w, s->c, 2 - s->pad, s->type};
}

/* --- the gradient of the weight --- */

/* The gradient is a sum over all tiles. Small weights have it made in PARTS parts, each a task with
 * the scratch of its thread, added up in order; large ones in one part, whose steps are tasks.
 * Scratch for the tiles that are worked on at a time is about SMALL or LARGE floats at most; or it
 * holds all tiles, and some columns of the weight are made at a time, where that takes less. The
 * bias's is made in PARTS parts of the results. */
enum {
    PARTS = 8,
    SMALL = 1 << 18,
    LARGE = 1 << 22,
    SMALL_WEIGHT = 16 * 128 * 128, /* once it is transformed */
    COLUMNS = 2 * PANEL
};

typedef struct cut {
    int64_t parts, each, tiles; /* tiles of a part; tiles at a time */
    int64_t columns;            /* of the weight at a time */
    int64_t u;                  /* floats of a part's sums */
    int64_t v, d, scratch;      /* where things are in scratch, behind zeros; its floats */
} cut;

static void lay_out(cut *k, const dti_winograd *s)
{
    k->u = panels_floats(s->c, k->columns);
    k->v = s->c > s->out ? s->c : s->out;
    k->d = k->v + TAPS * pixels_step(s, k->tiles);
    k->scratch = k->d + panels_floats(k->tiles, k->columns);
}

static cut cut_gradient(const dti_winograd *s)
{
    cut k = {.parts = TAPS * s->c * s->out > SMALL_WEIGHT ? 1 : PARTS, .columns = s->out};
    k.each = dti_ceil_div(tiles(s), k.parts);
    k.parts = dti_ceil_div(tiles(s), k.each);
    const int64_t fit = (k.parts > 1 ? SMALL : LARGE) / (TAPS * (s->c + s->out));
    k.tiles = dt_min_i64(k.each, fit < FEW ? FEW : fit / FEW * FEW);
    lay_out(&k, s);
    if (k.parts > 1)
        return k;
    cut fewer = k;
    fewer.tiles = k.each;
    fewer.columns = dt_min_i64(COLUMNS, s->out);
    lay_out(&fewer, s);
    return fewer.scratch + fewer.u < k.scratch + k.u ? fewer : k;
}

size_t dti_winograd_gradient_work(const dti_winograd *s)
{
    const cut k = cut_gradient(s);
    const int64_t threads = k.parts > 1 ? omp_get_max_threads() : 1;
    const int64_t weight = k.parts * k.u + threads * k.scratch, bias = PARTS * s->out;
    return (size_t)(weight > bias ? weight : bias) * sizeof(float);
}

/* Some tiles of a part, and some columns. @work: zeros and tiles; @u: the part's sums */
struct step {
    const winograd_job *j;
    const cut *k;
    dti_span of, columns;
    float *work, *u;
    bool add;
};

static void take_slopes(const struct step *w, dti_span some)
{
    const dti_winograd *s = w->j->s;
    for (int64_t i = some.begin; i < some.end; i++) {
        int64_t from[SIDE * SIDE];
        const void *dy[SIDE * SIDE];
        find_results(s, i, from);
        for (int64_t at = w->columns.begin; at < w->columns.end; at += PANEL) {
            const int64_t width = width_at(s->out, at), here = at - w->columns.begin;
            for (int k = 0; k < SIDE * SIDE; k++)
                dy[k] = from[k] < 0 ? w->work : dti_from(w->j->dy, from[k] * s->out + at, s->type);
            float *to = w->work + w->k->d + panel_at(w->k->tiles, here);
            w->j->on->slopes(
                dy, width, to + (i - w->of.begin) * width, tap_step(w->k->tiles, width));
        }
    }
}

static void take_few(const void *job, int64_t i)
{
    const struct step *w = job;
    const int64_t n = w->of.end - w->of.begin;
    dti_span some = dti_span_of(n, FEW, i);
    float *to = w->work + w->k->v + some.begin * (w->j->s->c + PAD);
    some.begin += w->of.begin;
    some.end += w->of.begin;
    if (w->columns.begin == 0)
        transform_pixels(w->j, some, w->work, to, pixels_step(w->j->s, w->k->tiles));
    take_slopes(w, some);
}

static int64_t panels_of(const struct step *w)
{
    return dti_ceil_div(w->columns.end - w->columns.begin, PANEL);
}

/* What the tiles add to one tap's matrix, one panel of it. A tap's panels follow each other, so
 * that its tiles stay in the thread's cache. */
static void add_products(const void *job, int64_t i)
{
    const struct step *w = job;
    const dti_winograd *s = w->j->s;
    const int64_t tap = i / panels_of(w), here = i % panels_of(w) * PANEL;
    const int64_t width = width_at(s->out, w->columns.begin + here);
    const dti_tile t = {.a = w->work + w->k->v + tap * pixels_step(s, w->k->tiles),
        .row = 1,
        .step = s->c + PAD,
        .b = w->work + w->k->d + panel_at(w->k->tiles, here) + tap * tap_step(w->k->tiles, width),
        .b_row = width,
        .c = w->u + panel_at(s->c, here) + tap * tap_step(s->c, width),
        .c_row = width,
        .m = s->c,
        .n = width,
        .add = w->add};
    multiply(t, w->j->tile, w->of.end - w->of.begin);
}

/* A team of its own is not for a task of a team. */
static void each_task(const cut *k, int64_t n, dti_task *task, const struct step *w)
{
    if (k->parts == 1)
        dti_run_tasks(n, task, w);
    else
        for (int64_t i = 0; i < n; i++)
            task(w, i);
}

static void make_part(const void *job, int64_t part)
{
    const struct step *whole = job;
    const cut *k = whole->k;
    const dti_winograd *s = whole->j->s;
    const dti_span of = dti_span_of(tiles(s), k->each, part);
    const int64_t member = k->parts > 1 ? dt_team_member() : 0;
    struct step w = {.j = whole->j,
        .k = k,
        .columns = whole->columns,
        .work = whole->j->work + k->parts * k->u + member * k->scratch,
        .u = whole->j->work + part * k->u};
    if (w.columns.begin == 0)
        memset(w.work, 0, (size_t)k->v * sizeof *w.work);
    for (int64_t i = 0; i < dti_ceil_div(of.end - of.begin, k->tiles); i++) {
        const dti_span some = dti_span_of(of.end - of.begin, k->tiles, i);
        w.of = (dti_span){of.begin + some.begin, of.begin + some.end};
        w.add = i > 0;
        each_task(k, dti_ceil_div(some.end - some.begin, FEW), take_few, &w);
        each_task(k, TAPS * panels_of(&w), add_products, &w);
    }
}

/* One input channel of the gradient's columns from the sum of the parts. */
static void put_gradient(const void *job, int64_t i)
{
    const struct step *w = job;
    const dti_winograd *s = w->j->s;
    const cut *k = w->k;
    for (int64_t at = w->columns.begin; at < w->columns.end; at += PANEL) {
        const int64_t width = width_at(s->out, at), here = at - w->columns.begin;
        float *g[9];
        for (int64_t t = 0; t < 9; t++)
            g[t] = w->j->to + (t * s->c + i) * s->out + at;
        w->j->on->gradients(w->j->work + panel_at(s->c, here) + i * width, tap_step(s->c, width),
            k->parts, k->u, width, (w->j->add & 1) != 0, g);
    }
}

/* The gradient of the bias from one part of the results, ROWS at a time, which fit the cache. */
static void sum_part(const void *job, int64_t i)
{
    enum { ROWS = 64 };
    const winograd_job *j = job;
    const int64_t out = j->s->out, all = j->s->n * j->s->p * j->s->q;
    const dti_span of = dti_span_of(all, dti_ceil_div(all, PARTS), i);
    float *sum = j->work + i * out;
    memset(sum, 0, (size_t)out * sizeof *sum);
    for (int64_t r = of.begin; r < of.end; r += ROWS)
        j->on->add_rows(
            dti_from(j->dy, r * out, j->s->type), dt_min_i64(ROWS, of.end - r), out, sum);
}

static void put_bias(const winograd_job *j, float *dbias)
{
    float *sum = j->work;
    dti_run_tasks(PARTS, sum_part, j);
    for (int64_t c = 0; c < j->s->out; c++) {
        for (int64_t p = 1; p < PARTS; p++)
            sum[c] += sum[p * j->s->out + c];
        dbias[c] = (j->add & 2) != 0 ? dbias[c] + sum[c] : sum[c];
    }
}

void dti_winograd_gradient(const dti_winograd *s, const void *x, const void *dy, float *dweight,
    float *dbias, unsigned add, float *work)
{
    winograd_job j = new_job(s, work);
    const cut k = cut_gradient(s);
    struct step w = {.j = &j, .k = &k};
    j.x = x;
    j.dy = dy;
    j.to = dweight;
    j.add = add;
    for (int64_t i = 0; i < dti_ceil_div(s->out, k.columns); i++) {
        w.columns = dti_span_of(s->out, k.columns, i);
        if (k.parts == 1)
            make_part(&w, 0);
        else
            dti_run_tasks(k.parts, make_part, &w);
        dti_run_tasks(s->c, put_gradient, &w);
    }
    if (dbias != NULL)
        put_bias(&j, dbias);
}
