/* 3 x 3 convolutions by AMX tiles. */
#include "layers/blocked/amx_conv.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>

#include "layers/blocked/amx.h"
#include "layers/blocked/pairs.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/tasks.h"

enum {
    TILE = DTI_AMX_TILE,
    STEP = DTI_AMX_STEP, /* values of x that one product of tiles adds up */
    PIXELS = 2 * TILE,   /* of a block of sums */
    SIDE = 2 * TILE,     /* channels of it */
    BLOCK = PIXELS * SIDE,
    TAPS = 9,
    MANY = 8 /* samples that are tasks enough; of fewer a block of channels is one */
};

/* Pixels are counted through the bordered image, whose rows have @across; sums at the border's
 * pixels are made as well and left. A product has STEP channels of one tap, or with 16 channels
 * both of two taps that lie side by side, of which the fourth of a row has no weight.
 *   weight: [block of SIDE channels][product][tile][pair of values][16][2] */
struct job {
    dti_amx_conv s;
    int64_t across, products, blocks, parts; /* tasks of a sample */
    int64_t values;                          /* of a bordered sample */
    const dt_bf16 *x, *weight;
    dt_bf16 *y, *work;
};

static struct job job_of(const dti_amx_conv *s)
{
    struct job j = {.s = *s, .across = s->w + 2 * s->pad, .blocks = dti_ceil_div(s->out, SIDE)};
    const int64_t past = PIXELS + 4; /* pixels after the last that a block may look at */
    j.parts = s->n < MANY ? j.blocks : 1;
    j.products = s->c == TILE ? 6 : TAPS * (s->c / STEP);
    j.values = ((s->h + 2 * s->pad) * j.across + past) * s->c;
    j.values = dti_ceil_div(j.values, STEP) * STEP; /* whole cache lines */
    return j;
}

bool dti_amx_conv_can(const dti_amx_conv *s, dt_why *why)
{
    if (s->c != TILE && s->c % STEP != 0)
        return dt_refuse(
            why, "%" PRId64 " channels, needs %d or a multiple of %d", s->c, (int)TILE, (int)STEP);
    if (s->out % TILE != 0)
        return dt_refuse(why, "%" PRId64 " channels, needs a multiple of %d", s->out, (int)TILE);
    return dti_amx_here() || dt_refuse(why, "there is no AMX to use");
}

dti_amx_conv dti_amx_conv_transposed(const dti_amx_conv *s)
{
    return (dti_amx_conv){s->n, s->p, s->q, s->out, s->h, s->w, s->c, 2 - s->pad};
}

size_t dti_amx_conv_weight_bytes(const dti_amx_conv *s)
{
    const struct job j = job_of(s);
    return (size_t)(j.blocks * j.products * STEP * SIDE) * sizeof(dt_bf16);
}

size_t dti_amx_conv_work(const dti_amx_conv *s)
{
    const struct job j = job_of(s);
    return (size_t)(j.values * omp_get_max_threads()) * sizeof(dt_bf16);
}

/* Which tap and channel value i of a product is of; false: of none. */
static bool tap_of(const struct job *j, int64_t product, int64_t i, int64_t *tap, int64_t *c)
{
    if (j->s.c == TILE) {
        const int64_t column = product % 2 * 2 + i / TILE;
        *tap = product / 2 * 3 + column;
        *c = i % TILE;
        return column < 3;
    }
    *tap = product / (j->s.c / STEP);
    *c = product % (j->s.c / STEP) * STEP + i;
    return true;
}

struct packing {
    struct job j;
    bool transposed;
    const float *from;
    dt_bf16 *to;
};

#ifdef DT_AMX
/* Of a tile: each row of what lies there is read once, as rows are a power of two apart and so get
 * in each other's way in the cache. */
DT_AVX512 static void turn_tile(const float *from, int64_t step, dt_bf16 *to)
{
    __m512i v[TILE];
    for (int o = 0; o < TILE; o++) {
        const __m256i low = dti_avx512_round(_mm512_loadu_ps(from + o * step));
        const __m256i high = dti_avx512_round(_mm512_loadu_ps(from + o * step + TILE));
        v[o] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    dti_pairs_transpose(v);
    for (int k = 0; k < TILE; k++)
        _mm512_storeu_si512(to + (int64_t)k * STEP, v[k]);
}
#endif

/* One product's weights for one block. */
static void put_product(const void *job, int64_t task)
{
    const struct packing *t = job;
    const dti_amx_conv *s = &t->j.s;
    const int64_t first = task / t->j.products * SIDE, step = t->transposed ? s->c : 1;
    const int64_t width = s->out - first < SIDE ? s->out - first : SIDE;
    dt_bf16 *to = t->to + task * STEP * SIDE;
    if (width < SIDE || s->c == TILE)
        memset(to, 0, STEP * SIDE * sizeof *to);
#ifdef DT_AMX
    if (t->transposed && s->c != TILE) {
        int64_t tap, c;
        (void)tap_of(&t->j, task % t->j.products, 0, &tap, &c);
        for (int64_t o = 0; o < width; o += TILE)
            turn_tile(
                t->from + ((TAPS - 1 - tap) * s->out + first + o) * s->c + c, step, to + o * STEP);
        return;
    }
#endif
    for (int64_t i = 0; i < STEP; i++) {
        int64_t tap, c;
        if (!tap_of(&t->j, task % t->j.products, i, &tap, &c))
            continue;
        const float *from =
            t->from + (t->transposed ? ((TAPS - 1 - tap) * s->out + first) * s->c + c
                                     : (tap * s->c + c) * s->out + first);
        for (int64_t o = 0; o < width; o++)
            to[o / TILE * TILE * STEP + i / 2 * STEP + o % TILE * 2 + i % 2] =
                dt_bf16_from_float(from[o * step]);
    }
}

void dti_amx_conv_weight(const dti_amx_conv *s, bool transposed, const float *weight, dt_bf16 *to)
{
    const struct packing t = {job_of(s), transposed, weight, to};
    dti_run_tasks(t.j.blocks * t.j.products, put_product, &t);
}

#ifdef DT_AMX

/* A sample within its border of zeros. */
static void put_border(const struct job *j, const dt_bf16 *x, dt_bf16 *to)
{
    const dti_amx_conv *s = &j->s;
    const int64_t row = j->across * s->c, edge = s->pad * s->c, width = s->w * s->c;
    memset(to, 0, (size_t)(s->pad * row) * sizeof *to);
    to += s->pad * row;
    for (int64_t r = 0; r < s->h; r++, to += row) {
        memset(to, 0, (size_t)edge * sizeof *to);
        memcpy(to + edge, x + r * width, (size_t)width * sizeof *to);
        memset(to + edge + width, 0, (size_t)edge * sizeof *to);
    }
    memset(to, 0, (size_t)(j->values - (s->pad + s->h) * row) * sizeof *to);
}

/* Where product k's values of x begin, from a pixel on. */
static int64_t offset_of(const struct job *j, int64_t k)
{
    if (j->s.c == TILE)
        return (k / 2 * j->across + k % 2 * 2) * TILE;
    const int64_t each = j->s.c / STEP, tap = k / each;
    return (tap / 3 * j->across + tap % 3) * j->s.c + k % each * STEP;
}

/* The sums of PIXELS pixels from x on, [PIXELS][SIDE]. */
DT_AMX static void add_products(
    const struct job *j, const dt_bf16 *x, const dt_bf16 *weight, const bool wide, float *sums)
{
    const size_t row = (size_t)j->s.c * sizeof *x, line = 64, step = SIDE * sizeof *sums;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < j->products; k++) {
        const dt_bf16 *a = x + offset_of(j, k), *b = weight + k * STEP * SIDE;
        _tile_loadd(4, a, row);
        _tile_loadd(5, a + TILE * j->s.c, row);
        _tile_loadd(6, b, line);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        if (wide) {
            _tile_loadd(7, b + TILE * STEP, line);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, step);
    _tile_stored(2, sums + TILE * SIDE, step);
    if (wide) {
        _tile_stored(1, sums + TILE, step);
        _tile_stored(3, sums + TILE * SIDE + TILE, step);
    }
}

/* A block of sums to the pixels of y it has: those from @at on that are none of the border. */
DT_AVX512 static void put_sums(
    const struct job *j, const float *sums, int64_t at, int64_t o, bool wide, dt_bf16 *y)
{
    int64_t row = at / j->across, column = at % j->across;
    for (int64_t i = 0; i < PIXELS && row < j->s.p; i++) {
        if (column < j->s.q) {
            dt_bf16 *to = y + (row * j->s.q + column) * j->s.out + o;
            dti_avx512_write(to, DT_BF16, dti_avx512_read(sums + i * SIDE, DT_F32));
            if (wide)
                dti_avx512_write(
                    to + TILE, DT_BF16, dti_avx512_read(sums + i * SIDE + TILE, DT_F32));
        }
        if (++column == j->across) {
            column = 0;
            row++;
        }
    }
}

/* All blocks of a sample, or one. */
static void run_part(const void *job, int64_t task)
{
    const struct job *j = job;
    const dti_amx_conv *s = &j->s;
    const int64_t sample = task / j->parts;
    const dti_span mine =
        dti_span_of(j->blocks, dti_ceil_div(j->blocks, j->parts), task % j->parts);
    _Alignas(64) float sums[BLOCK];
    dt_bf16 *x = j->work + dt_team_member() * j->values;
    dt_bf16 *y = j->y + sample * s->p * s->q * s->out;
    put_border(j, j->x + sample * s->h * s->w * s->c, x);
    dti_amx_begin();
    for (int64_t at = 0; at < s->p * j->across; at += PIXELS)
        for (int64_t b = mine.begin; b < mine.end; b++) {
            const bool wide = (b + 1) * SIDE <= s->out;
            const dt_bf16 *weight = j->weight + b * j->products * STEP * SIDE;
            add_products(j, x + at * s->c, weight, wide, sums);
            put_sums(j, sums, at, b * SIDE, wide, y);
        }
    dti_amx_end();
}

void dti_amx_conv_run(
    const dti_amx_conv *s, const dt_bf16 *x, const dt_bf16 *weight, dt_bf16 *y, void *work)
{
    struct job j = job_of(s);
    j.x = x;
    j.weight = weight;
    j.y = y;
    j.work = work;
    dti_run_tasks(s->n * j.parts, run_part, &j);
}

#else

void dti_amx_conv_run(
    const dti_amx_conv *s, const dt_bf16 *x, const dt_bf16 *weight, dt_bf16 *y, void *work)
{
    (void)s, (void)x, (void)weight, (void)y, (void)work;
}

#endif
