/* Winograd's convolutions: transforms by instruction set, tiles, forward and backward-data, and the
 * gradient of the weight. */
#include "layers/blocked/winograd.h"

#include <omp.h>
#include <string.h>

#include "layers/blocked/tile.h"
#include "layers/blocked/transpose.h"
#include "layers/cpu/tasks.h"

/* --- transforms --- */

/* Each works on n channels, a multiple of 16, of one tile; see winograd_kernel.inc. */
typedef struct transforms {
    void (*pixels)(const float *const x[16], int64_t n, float *to, int64_t step);
    void (*results)(const float *m, int64_t step, const float *bias, int64_t n, float *const y[4]);
    void (*slopes)(const float *const dy[4], int64_t n, float *to, int64_t step);
    void (*taps)(const float *const g[9], int64_t n, float *to, int64_t step);
    void (*gradients)(const float *u, int64_t step, int64_t parts, int64_t apart, int64_t n,
        bool add, float *const g[9]);
    void (*add_rows)(const float *x, int64_t rows, int64_t n, float *sum);
} transforms;

#define DT_LANES_KERNEL "layers/blocked/winograd_kernel.inc"
#include "layers/cpu/lanes.inc"

static const transforms *best_transforms(void)
{
    switch (dti_lane_set()) {
#if defined(__x86_64__)
    case DTI_LANES_BF16:
        return &transforms_bf16;
    case DTI_LANES_AVX512:
        return &transforms_avx512;
    case DTI_LANES_AVX2:
        return &transforms_avx2;
#endif
    default:
        return &transforms_plain;
    }
}

/* --- tiles --- */

/* PANEL columns of a product at a time, of which DEPTH rows fit the first cache. TILES of a task,
 * whose transforms fit the second. Streams of floats are kept PAD apart from powers of two, so
 * that they do not meet in one set of a cache. */
enum { PANEL = 64, DEPTH = 128, TILES = 64, PAD = 16, TAPS = 16, SUM_TAP = 5 };

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tiles in columns, rows, and all samples. */
static inline int64_t across(const dti_winograd *s)
{
    return dti_ceil_div(s->q, 2);
}

static inline int64_t tiles(const dti_winograd *s)
{
    return s->n * dti_ceil_div(s->p, 2) * across(s);
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
    return least(PANEL, columns - at);
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
    const float *x, *u, *bias, *dy;
    float *y, *work;
    int64_t each, scratch; /* tiles of a task; floats of scratch it has */
    bool bias_too;
    unsigned add; /* bit 0: the gradient to what is there, bit 1: the bias's */
} winograd_job;

/* c = a b of one tap and panel, or that added; a has @t's rows and @depth columns. */
static void multiply(dti_tile t, dti_tile_fn *tile, int64_t depth)
{
    const bool add = t.add;
    for (int64_t k = 0; k < depth; k += DEPTH) {
        t.depth = least(DEPTH, depth - k);
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
    const int64_t wide = across(s), high = dti_ceil_div(s->p, 2);
    return (place){tile / (wide * high), 2 * (tile / wide % high), 2 * (tile % wide)};
}

/* The 4 x 4 pixels under a tile; @zero stands for those outside of the image. */
static void find_pixels(const dti_winograd *s, int64_t tile, const float *x, const float *zero,
    const float *pixel[TAPS])
{
    const place at = place_of(s, tile);
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 4; j++) {
            const int64_t h = at.p - s->pad + i, w = at.q - s->pad + j;
            const bool in = h >= 0 && h < s->h && w >= 0 && w < s->w;
            pixel[4 * i + j] = in ? x + ((at.n * s->h + h) * s->w + w) * s->c : zero;
        }
}

/* Numbers of the first of a tile's 2 x 2 results and the others, -1 for those outside. */
static void find_results(const dti_winograd *s, int64_t tile, int64_t at[4])
{
    const place t = place_of(s, tile);
    for (int64_t i = 0; i < 4; i++) {
        const int64_t p = t.p + i / 2, q = t.q + i % 2;
        at[i] = p < s->p && q < s->q ? (t.n * s->p + p) * s->q + q : -1;
    }
}

static winograd_job new_job(const dti_winograd *s, float *work)
{
    return (winograd_job){
        .s = s, .on = best_transforms(), .tile = dti_tile_best(), .work = work, .each = TILES};
}

/* The transformed pixels of some tiles: a row a tile. @zero: c zeros */
static void transform_pixels(
    const winograd_job *j, dti_span of, const float *zero, float *to, int64_t step)
{
    const float *pixel[TAPS];
    for (int64_t i = of.begin; i < of.end; i++, to += j->s->c + PAD) {
        find_pixels(j->s, i, j->x, zero, pixel);
        j->on->pixels(pixel, j->s->c, to, step);
    }
}

/* --- forward and backward-data --- */

static void put_results(
    const winograd_job *j, dti_span of, const float *m, int64_t at, float *spare)
{
    const dti_winograd *s = j->s;
    const int64_t width = width_at(s->out, at), step = tap_step(j->each, width);
    for (int64_t i = of.begin; i < of.end; i++, m += width) {
        int64_t to[4];
        float *y[4];
        find_results(s, i, to);
        for (int k = 0; k < 4; k++)
            y[k] = to[k] < 0 ? spare : j->y + to[k] * s->out + at;
        j->on->results(m, step, j->bias == NULL ? NULL : j->bias + at, width, y);
    }
}

/* Scratch of a task: transformed pixels, a panel of products, a row of zeros, a row for results
 * outside of the image. */
static int64_t run_scratch(const dti_winograd *s)
{
    return TAPS * (pixels_step(s, TILES) + tap_step(TILES, PANEL)) + s->c + PANEL;
}

static void run_tiles(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_winograd *s = j->s;
    const dti_span of = dti_span_of(tiles(s), j->each, i);
    const int64_t step = pixels_step(s, j->each);
    float *v = j->work + dt_team_member() * j->scratch, *m = v + TAPS * step;
    float *zero = m + TAPS * tap_step(j->each, PANEL), *spare = zero + s->c;
    memset(zero, 0, (size_t)s->c * sizeof *zero);
    transform_pixels(j, of, zero, v, step);
    for (int64_t at = 0; at < s->out; at += PANEL) {
        const int64_t width = width_at(s->out, at);
        dti_tile t = {.row = s->c + PAD,
            .step = 1,
            .b_row = width,
            .c_row = width,
            .m = of.end - of.begin,
            .n = width};
        for (int64_t tap = 0; tap < TAPS; tap++) {
            t.a = v + tap * step;
            t.b = j->u + panel_at(s->c, at) + tap * tap_step(s->c, width);
            t.c = m + tap * tap_step(j->each, width);
            multiply(t, j->tile, s->c);
        }
        put_results(j, of, m, at, spare);
    }
}

size_t dti_winograd_work(const dti_winograd *s)
{
    return (size_t)(run_scratch(s) * omp_get_max_threads()) * sizeof(float);
}

void dti_winograd_run(
    const dti_winograd *s, const float *x, const float *u, const float *bias, float *y, float *work)
{
    winograd_job j = new_job(s, work);
    j.x = x;
    j.u = u;
    j.bias = bias;
    j.y = y;
    j.scratch = run_scratch(s);
    dti_run_tasks(dti_ceil_div(tiles(s), j.each), run_tiles, &j);
}

dti_winograd dti_winograd_transposed(const dti_winograd *s)
{
    return (dti_winograd){s->n, s->p, s->q, s->out, s->h, s->w, s->c, 2 - s->pad};
}

size_t dti_winograd_weight_bytes(const dti_winograd *s)
{
    return (size_t)panels_floats(s->c, s->out) * sizeof(float);
}

/* One input channel's taps, a panel of outputs. */
static void take_taps(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_winograd *s = j->s;
    for (int64_t at = 0; at < s->out; at += PANEL) {
        const int64_t width = width_at(s->out, at);
        const float *g[9];
        for (int64_t k = 0; k < 9; k++)
            g[k] = j->x + (k * s->c + i) * s->out + at;
        j->on->taps(g, width, j->y + panel_at(s->c, at) + i * width, tap_step(s->c, width));
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

/* The same of a transposed weight, for 16 of its input channels, which are the layer's outputs, and
 * all of its outputs. */
static void take_transposed_taps(const void *job, int64_t i)
{
    const winograd_job *j = job;
    const dti_winograd *s = j->s;
    float block[PAD * 9 * PAD];
    for (int64_t at = 0; at < s->out; at += PAD) {
        const int64_t panel = at / PANEL * PANEL, width = width_at(s->out, panel);
        for (int64_t k = 0; k < 9; k++)
            transpose(
                j->x + (k * s->out + at) * s->c + PAD * i, s->c, block + (8 - k) * PAD, 9 * PAD);
        for (int64_t c = 0; c < PAD; c++) {
            const float *g[9];
            for (int64_t k = 0; k < 9; k++)
                g[k] = block + (c * 9 + k) * PAD;
            j->on->taps(g, PAD, j->y + panel_at(s->c, panel) + (PAD * i + c) * width + at - panel,
                tap_step(s->c, width));
        }
    }
}

void dti_winograd_weight(const dti_winograd *s, bool transposed, const float *weight, float *to)
{
    winograd_job j = new_job(s, NULL);
    j.x = weight;
    j.y = to;
    dti_run_tasks(
        transposed ? s->c / PAD : s->c, transposed ? take_transposed_taps : take_taps, &j);
}

/* --- the gradient of the weight --- */

/* The gradient is a sum over all tiles. Small weights have it made in PARTS parts, each a task with
 * all of its scratch, added up in order; large ones in one part, whose steps are tasks. Scratch for
 * the tiles it works on at a time is at most SMALL or LARGE floats; or it holds all tiles, and some
 * columns of the weight are made at a time, where that takes less. */
enum {
    PARTS = 8,
    FEW = 16,
    SMALL = 1 << 18,
    LARGE = 1 << 22,
    SMALL_WEIGHT = 128 * 128,
    COLUMNS = 2 * PANEL
};

typedef struct cut {
    int64_t parts, each, tiles;     /* tiles of a part; tiles at a time */
    int64_t columns;                /* of the weight at a time */
    int64_t v, d, u, bias, scratch; /* where things are in a part's scratch */
} cut;

static void lay_out(cut *k, const dti_winograd *s)
{
    k->v = s->c > s->out ? s->c : s->out;
    k->d = k->v + TAPS * pixels_step(s, k->tiles);
    k->u = k->d + panels_floats(k->tiles, k->columns);
    k->bias = k->u + panels_floats(s->c, k->columns);
    k->scratch = k->bias + s->out;
}

static cut cut_gradient(const dti_winograd *s)
{
    cut k = {.parts = s->c * s->out > SMALL_WEIGHT ? 1 : PARTS, .columns = s->out};
    k.each = dti_ceil_div(tiles(s), k.parts);
    k.parts = dti_ceil_div(tiles(s), k.each);
    const int64_t fit = (k.parts > 1 ? SMALL : LARGE) / (TAPS * (s->c + s->out));
    k.tiles = least(k.each, fit < FEW ? FEW : fit / FEW * FEW);
    lay_out(&k, s);
    if (k.parts > 1)
        return k;
    cut fewer = k;
    fewer.tiles = k.each;
    fewer.columns = least(COLUMNS, s->out);
    lay_out(&fewer, s);
    return fewer.scratch < k.scratch ? fewer : k;
}

size_t dti_winograd_gradient_work(const dti_winograd *s)
{
    const cut k = cut_gradient(s);
    return (size_t)(k.parts * k.scratch) * sizeof(float);
}

/* Some tiles of a part, and some columns. */
struct step {
    const winograd_job *j;
    const cut *k;
    dti_span of, columns;
    float *work;
    bool add;
};

static void take_slopes(const struct step *w, dti_span some)
{
    const dti_winograd *s = w->j->s;
    for (int64_t i = some.begin; i < some.end; i++) {
        int64_t from[4];
        const float *dy[4];
        find_results(s, i, from);
        for (int64_t at = w->columns.begin; at < w->columns.end; at += PANEL) {
            const int64_t width = width_at(s->out, at), here = at - w->columns.begin;
            for (int k = 0; k < 4; k++)
                dy[k] = from[k] < 0 ? w->work : w->j->dy + from[k] * s->out + at;
            w->j->on->slopes(dy, width,
                w->work + w->k->d + panel_at(w->k->tiles, here) + (i - w->of.begin) * width,
                tap_step(w->k->tiles, width));
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

/* What the tiles add to one tap's matrix, one panel of it. The tap that sums a tile's four
 * gradients gives the bias's. */
static void add_products(const void *job, int64_t i)
{
    const struct step *w = job;
    const dti_winograd *s = w->j->s;
    const int64_t tap = i % TAPS, here = i / TAPS * PANEL, at = w->columns.begin + here;
    const int64_t width = width_at(s->out, at);
    const int64_t n = w->of.end - w->of.begin;
    const float *d =
        w->work + w->k->d + panel_at(w->k->tiles, here) + tap * tap_step(w->k->tiles, width);
    const dti_tile t = {.a = w->work + w->k->v + tap * pixels_step(s, w->k->tiles),
        .row = 1,
        .step = s->c + PAD,
        .b = d,
        .b_row = width,
        .c = w->work + w->k->u + panel_at(s->c, here) + tap * tap_step(s->c, width),
        .c_row = width,
        .m = s->c,
        .n = width,
        .add = w->add};
    multiply(t, w->j->tile, n);
    if (tap == SUM_TAP && w->j->bias_too)
        w->j->on->add_rows(d, n, width, w->work + w->k->bias + at);
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
    struct step w = {.j = whole->j,
        .k = k,
        .columns = whole->columns,
        .work = whole->j->work + part * k->scratch};
    if (w.columns.begin == 0) {
        memset(w.work, 0, (size_t)k->v * sizeof *w.work);
        memset(w.work + k->bias, 0, (size_t)s->out * sizeof *w.work);
    }
    for (int64_t i = 0; i < dti_ceil_div(of.end - of.begin, k->tiles); i++) {
        const dti_span some = dti_span_of(of.end - of.begin, k->tiles, i);
        w.of = (dti_span){of.begin + some.begin, of.begin + some.end};
        w.add = i > 0;
        each_task(k, dti_ceil_div(some.end - some.begin, FEW), take_few, &w);
        each_task(k, TAPS * dti_ceil_div(w.columns.end - w.columns.begin, PANEL), add_products, &w);
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
            g[t] = w->j->y + (t * s->c + i) * s->out + at;
        w->j->on->gradients(w->j->work + k->u + panel_at(s->c, here) + i * width,
            tap_step(s->c, width), k->parts, k->scratch, width, (w->j->add & 1) != 0, g);
    }
}

static void put_bias(const winograd_job *j, const cut *k, float *dbias)
{
    float *sum = j->work + k->bias;
    for (int64_t c = 0; c < j->s->out; c++) {
        for (int64_t p = 1; p < k->parts; p++)
            sum[c] += sum[p * k->scratch + c];
        dbias[c] = (j->add & 2) != 0 ? dbias[c] + sum[c] : sum[c];
    }
}

void dti_winograd_gradient(const dti_winograd *s, const float *x, const float *dy, float *dweight,
    float *dbias, unsigned add, float *work)
{
    winograd_job j = new_job(s, work);
    const cut k = cut_gradient(s);
    struct step w = {.j = &j, .k = &k};
    j.x = x;
    j.dy = dy;
    j.y = dweight;
    j.bias_too = dbias != NULL;
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
        put_bias(&j, &k, dbias);
}
