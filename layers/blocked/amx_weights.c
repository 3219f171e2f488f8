/* The gradient of a weight by AMX tiles. */
#include "layers/blocked/amx_weights.h"

#include <inttypes.h>

#include "engine/base/numbers.h"
#include "layers/blocked/amx.h"
#include "layers/blocked/pairs.h"
#include "layers/cpu/tasks.h"

enum { TILE = DTI_AMX_TILE, MOST_KERNEL = 3 }; /* sums of all taps fit the cache */

bool dti_amx_weights_can(const dti_weight_gradient *a, dt_why *why)
{
    if (!a->bf16)
        return dt_refuse(why, "fp32, needs bf16");
    if (a->kernel > MOST_KERNEL)
        return dt_refuse(why, "kernel %" PRId64 ", at most %d", a->kernel, (int)MOST_KERNEL);
    if (a->c % TILE != 0 || a->out % TILE != 0)
        return dt_refuse(why, "%" PRId64 " channels, needs a multiple of %d",
            a->c % TILE != 0 ? a->c : a->out, (int)TILE);
    return dti_amx_here() || dt_refuse(why, "there is no AMX to use");
}

#ifdef DT_AMX
enum {
    STEP = DTI_AMX_STEP,
    SIDE = 2 * TILE, /* channels of a block, of x and of dy: two tiles each, or one at the end */
    BLOCK = SIDE * SIDE,
    VISIT = 8,      /* steps for one tap before the next: what they read stays near */
    PARTS = 8,      /* of the batch, where each has sums of its own */
    MOST_SUMS = 64, /* blocks of sums, all taps counted, that such a part may have: 256 KiB */
    GATHER = 48     /* steps, at least, that a part packs before it multiplies */
};

/* --- packing --- */

/* Values of one sample laid out for the sums.
 *
 * Pixels are counted through an image padded on all sides, of which each of stride * stride phases
 * has its own copy: then a tap's pixels follow each other as dy's do, from an offset on. dy has
 * zeros where x has what is no part of it.
 *   x: [phase][channel][pitch], dy: [group of 16 channels][pair of pixels][16][2]
 *
 * @across @down: pixels of a phase
 * @side @phases: phases along one side, and in all
 * @steps:        of a sample
 * @pitch:        values of a channel of x: an odd number of cache lines, or rows would meet in few
 * @x @dy:        values of a packed sample
 */
typedef struct layout {
    int64_t across, down, side, phases, steps, pitch, x, dy;
} layout;

static layout layout_of(const dti_weight_gradient *a)
{
    const int64_t past = (a->kernel - 1) / a->stride;
    layout l = {.across = dti_ceil_div(a->w + 2 * a->pad, a->stride),
        .down = dti_ceil_div(a->h + 2 * a->pad, a->stride),
        .side = a->kernel < a->stride ? a->kernel : a->stride};
    l.phases = l.side * l.side;
    l.steps = dti_ceil_div(a->p * l.across, STEP);
    l.pitch = (dti_ceil_div(l.down * l.across + past + STEP, STEP) | 1) * STEP;
    l.x = l.phases * a->c * l.pitch;
    l.dy = a->out * l.steps * STEP;
    return l;
}

#define AVX512 __attribute__((target("avx512f")))

/* 16 channels of two pixels, side by side; a pixel outside is 0. */
AVX512 DT_INLINE __m512i pair_of(const dt_bf16 *even, const dt_bf16 *odd)
{
    __m512i low = _mm512_setzero_si512(), high = low;
    if (even != NULL)
        low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)even));
    if (odd != NULL)
        high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)odd));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Goes through the pixels of an image, counted with @across to a row. */
typedef struct walk {
    const dt_bf16 *image;
    int64_t h, w, c;        /* of the image */
    int64_t r0, q0, stride; /* where pixel 0 lies in it, and how far on the next */
    int64_t across, row, col;
} walk;

/* The next pixel; NULL outside the image. */
static const dt_bf16 *next_pixel(walk *w)
{
    const int64_t r = w->r0 + w->row * w->stride, q = w->q0 + w->col * w->stride;
    if (++w->col == w->across) {
        w->col = 0;
        w->row++;
    }
    return r < 0 || r >= w->h || q < 0 || q >= w->w ? NULL : w->image + (r * w->w + q) * w->c;
}

static const dt_bf16 *moved(const dt_bf16 *p, int64_t by)
{
    return p == NULL ? NULL : p + by;
}

AVX512 static void pack_phase(const dti_weight_gradient *a, const layout *l, walk w, dt_bf16 *to)
{
    for (int64_t i = 0; i < l->pitch; i += STEP) {
        const dt_bf16 *from[STEP];
        for (int k = 0; k < STEP; k++)
            from[k] = next_pixel(&w);
        for (int64_t c = 0; c < a->c; c += TILE) {
            __m512i v[16];
            for (int k = 0; k < 16; k++)
                v[k] = pair_of(moved(from[2 * k], c), moved(from[2 * k + 1], c));
            dti_pairs_transpose(v);
            for (int k = 0; k < 16; k++)
                _mm512_storeu_si512(to + (c + k) * l->pitch + i, v[k]);
        }
    }
}

static void pack_x(const dti_weight_gradient *a, const layout *l, const dt_bf16 *x, dt_bf16 *to)
{
    for (int64_t phase = 0; phase < l->phases; phase++) {
        const walk w = {.image = x,
            .h = a->h,
            .w = a->w,
            .c = a->c,
            .r0 = phase / l->side - a->pad,
            .q0 = phase % l->side - a->pad,
            .stride = a->stride,
            .across = l->across};
        pack_phase(a, l, w, to + phase * a->c * l->pitch);
    }
}

AVX512 static void pack_dy(
    const dti_weight_gradient *a, const layout *l, const dt_bf16 *dy, dt_bf16 *to)
{
    const int64_t pixels = l->steps * STEP;
    walk w = {.image = dy, .h = a->p, .w = a->q, .c = a->out, .stride = 1, .across = l->across};
    for (int64_t i = 0; i < pixels; i += 2) {
        const dt_bf16 *even = next_pixel(&w), *odd = next_pixel(&w);
        for (int64_t c = 0; c < a->out; c += TILE)
            _mm512_storeu_si512(to + c * pixels + i * TILE, pair_of(moved(even, c), moved(odd, c)));
    }
}

/* --- sums --- */

/* Sums are joined in blocks, [tap][SIDE][SIDE]. Either all samples are packed first and a task has
 * one block; or, where the blocks are few, a task has a part of the samples, packs some and
 * multiplies them while they are near, and sums of parts are added up at the end.
 * @x_blocks @dy_blocks: along the channels of x and of dy
 * @parts @each @held:   parts of the batch, 0: packed first; samples of a part, and packed at once
 */
struct job {
    dti_weight_gradient a;
    layout l;
    const dt_bf16 *x, *dy;
    float *dw;
    bool add;
    int64_t taps, x_blocks, dy_blocks, parts, each, held;
    dt_bf16 *packed_x, *packed_dy;
    float *sums; /* [part][block][tap][SIDE][SIDE] */
};

static int64_t blocks(const struct job *j)
{
    return j->x_blocks * j->dy_blocks;
}

static struct job job_of(const dti_weight_gradient *a)
{
    struct job j = {.a = *a,
        .l = layout_of(a),
        .taps = a->kernel * a->kernel,
        .x_blocks = dti_ceil_div(a->c, SIDE),
        .dy_blocks = dti_ceil_div(a->out, SIDE),
        .held = a->n};
    if (blocks(&j) * j.taps <= MOST_SUMS && a->n > 1) {
        j.each = dti_ceil_div(a->n, PARTS);
        j.parts = dti_ceil_div(a->n, j.each);
        j.held = dt_min_i64(j.each, dti_ceil_div(GATHER, j.l.steps));
    }
    return j;
}

/* Where samples are packed, by part. */
static size_t x_values(const struct job *j)
{
    return (size_t)(j->held * j->l.x);
}

static size_t dy_values(const struct job *j)
{
    return (size_t)(j->held * j->l.dy);
}

static size_t sum_values(const struct job *j)
{
    return (size_t)(blocks(j) * j->taps * BLOCK);
}

size_t dti_amx_weights_work(const dti_weight_gradient *a)
{
    const struct job j = job_of(a);
    const size_t packed = (x_values(&j) + dy_values(&j)) * sizeof(dt_bf16);
    return j.parts == 0 ? packed : (size_t)j.parts * (packed + sum_values(&j) * sizeof(float));
}

/* Up to four tiles of sums for one tap, of steps [begin, end) counted through packed samples. */
DT_AMX DT_INLINE void add_steps(const struct job *j, const dt_bf16 *x, const dt_bf16 *dy,
    dti_span steps, const bool wide_x, const bool wide_dy)
{
    const size_t row = (size_t)j->l.pitch * sizeof *x, lines = 64;
    const int64_t group = j->l.steps * STEP * TILE;
    int64_t sample = steps.begin / j->l.steps, step = steps.begin % j->l.steps;
    for (int64_t s = steps.begin; s < steps.end; s++) {
        const dt_bf16 *a = x + sample * j->l.x + step * STEP;
        const dt_bf16 *b = dy + sample * j->l.dy + step * STEP * TILE;
        if (++step == j->l.steps) {
            step = 0;
            sample++;
        }
        _tile_loadd(4, a, row);
        _tile_loadd(6, b, lines);
        _tile_dpbf16ps(0, 4, 6);
        if (wide_dy) {
            _tile_loadd(7, b + group, lines);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (wide_x) {
            _tile_loadd(5, a + TILE * j->l.pitch, row);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (wide_x && wide_dy)
            _tile_dpbf16ps(3, 5, 7);
    }
}

DT_AMX DT_INLINE void load_sums(const float *from)
{
    const size_t bytes = SIDE * sizeof *from;
    _tile_loadd(0, from, bytes);
    _tile_loadd(1, from + TILE, bytes);
    _tile_loadd(2, from + TILE * SIDE, bytes);
    _tile_loadd(3, from + TILE * SIDE + TILE, bytes);
}

DT_AMX DT_INLINE void clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

DT_AMX DT_INLINE void store_sums(float *to)
{
    const size_t bytes = SIDE * sizeof *to;
    _tile_stored(0, to, bytes);
    _tile_stored(1, to + TILE, bytes);
    _tile_stored(2, to + TILE * SIDE, bytes);
    _tile_stored(3, to + TILE * SIDE + TILE, bytes);
}

/* One block of sums from packed samples, all taps; begun anew, or gone on with. */
DT_AMX static void multiply(const struct job *j, int64_t block, const dt_bf16 *packed_x,
    const dt_bf16 *packed_dy, int64_t samples, bool anew, float *sums)
{
    const int64_t c = block / j->dy_blocks * SIDE, o = block % j->dy_blocks * SIDE;
    const bool wide_x = c + SIDE <= j->a.c, wide_dy = o + SIDE <= j->a.out;
    const int64_t all = samples * j->l.steps, visit = j->a.kernel == 1 ? all : VISIT;
    const dt_bf16 *dy = packed_dy + o * j->l.steps * STEP;
    for (int64_t s = 0; s < all; s += visit)
        for (int64_t tap = 0; tap < j->taps; tap++) {
            const int64_t r = tap / j->a.kernel, q = tap % j->a.kernel, stride = j->a.stride;
            const int64_t phase = r % stride * j->l.side + q % stride;
            const dt_bf16 *x = packed_x + (phase * j->a.c + c) * j->l.pitch +
                               r / stride * j->l.across + q / stride;
            const dti_span steps = {s, dt_min_i64(s + visit, all)};
            float *at = sums + tap * BLOCK;
            if (anew && s == 0)
                clear_sums();
            else
                load_sums(at);
            if (wide_x && wide_dy)
                add_steps(j, x, dy, steps, true, true);
            else if (wide_x)
                add_steps(j, x, dy, steps, true, false);
            else if (wide_dy)
                add_steps(j, x, dy, steps, false, true);
            else
                add_steps(j, x, dy, steps, false, false);
            store_sums(at);
        }
}

/* A block of sums to where it belongs in dw. */
DT_CLONES static void give(const struct job *j, int64_t block, const float *sums)
{
    const int64_t c = block / j->dy_blocks * SIDE, o = block % j->dy_blocks * SIDE;
    const int64_t rows = dt_min_i64(SIDE, j->a.c - c), columns = dt_min_i64(SIDE, j->a.out - o);
    for (int64_t tap = 0; tap < j->taps; tap++)
        for (int64_t i = 0; i < rows; i++) {
            const float *from = sums + tap * BLOCK + i * SIDE;
            float *to = j->dw + (tap * j->a.c + c + i) * j->a.out + o;
            for (int64_t k = 0; k < columns; k++)
                to[k] = j->add ? to[k] + from[k] : from[k];
        }
}

/* Packs samples one after the other. */
static void pack(const struct job *j, dti_span samples, dt_bf16 *x, dt_bf16 *dy)
{
    for (int64_t i = samples.begin; i < samples.end; i++) {
        const int64_t at = i - samples.begin;
        pack_x(&j->a, &j->l, j->x + i * j->a.h * j->a.w * j->a.c, x + at * j->l.x);
        pack_dy(&j->a, &j->l, j->dy + i * j->a.p * j->a.q * j->a.out, dy + at * j->l.dy);
    }
}

static void pack_task(const void *job, int64_t i)
{
    const struct job *j = job;
    pack(j, (dti_span){i, i + 1}, j->packed_x + i * j->l.x, j->packed_dy + i * j->l.dy);
}

static void block_task(const void *job, int64_t block)
{
    const struct job *j = job;
    _Alignas(64) float sums[MOST_KERNEL * MOST_KERNEL * BLOCK];
    dti_amx_begin();
    multiply(j, block, j->packed_x, j->packed_dy, j->a.n, true, sums);
    dti_amx_end();
    give(j, block, sums);
}

static void part_task(const void *job, int64_t part)
{
    const struct job *j = job;
    const dti_span mine = dti_span_of(j->a.n, j->each, part);
    dt_bf16 *x = j->packed_x + part * (int64_t)x_values(j);
    dt_bf16 *dy = j->packed_dy + part * (int64_t)dy_values(j);
    float *sums = j->sums + part * (int64_t)sum_values(j);
    dti_amx_begin();
    for (int64_t i = mine.begin; i < mine.end; i += j->held) {
        const dti_span some = {i, dt_min_i64(i + j->held, mine.end)};
        pack(j, some, x, dy);
        for (int64_t b = 0; b < blocks(j); b++)
            multiply(
                j, b, x, dy, some.end - some.begin, i == mine.begin, sums + b * j->taps * BLOCK);
    }
    dti_amx_end();
}

/* Adds up a block's sums, part after part. */
DT_CLONES static void join_task(const void *job, int64_t block)
{
    const struct job *j = job;
    const int64_t count = j->taps * BLOCK;
    float *first = j->sums + block * count;
    for (int64_t part = 1; part < j->parts; part++) {
        const float *more = first + part * (int64_t)sum_values(j);
        for (int64_t i = 0; i < count; i++)
            first[i] += more[i];
    }
    give(j, block, first);
}

void dti_amx_weights_run(
    const dti_weight_gradient *a, const void *x, const void *dy, float *dw, bool add, void *work)
{
    struct job j = job_of(a);
    const int64_t copies = j.parts == 0 ? 1 : j.parts;
    j.x = x;
    j.dy = dy;
    j.dw = dw;
    j.add = add;
    j.sums = work; /* tiles of sums, then packed samples: all begin at cache lines */
    j.packed_x = (dt_bf16 *)(j.sums + (size_t)j.parts * sum_values(&j));
    j.packed_dy = j.packed_x + (size_t)copies * x_values(&j);
    if (j.parts == 0) {
        dti_run_tasks(a->n, pack_task, &j);
        dti_run_tasks(blocks(&j), block_task, &j);
    } else {
        dti_run_tasks(j.parts, part_task, &j);
        dti_run_tasks(blocks(&j), join_task, &j);
    }
}

#else

size_t dti_amx_weights_work(const dti_weight_gradient *a)
{
    (void)a;
    return 0;
}

void dti_amx_weights_run(
    const dti_weight_gradient *a, const void *x, const void *dy, float *dw, bool add, void *work)
{
    (void)a, (void)x, (void)dy, (void)dw, (void)add, (void)work;
}

#endif
