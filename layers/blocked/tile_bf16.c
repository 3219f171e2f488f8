/* Products of small matrices, of factors rounded to bf16: by AMX, or by AVX512_BF16. */
#include "layers/blocked/tile.h"

#include <string.h>

#include "engine/base/numbers.h"
#include "layers/blocked/amx.h"
#include "layers/blocked/bf16.h"
#include "layers/blocked/pairs.h"
#include "layers/cpu/tasks.h"

/* Pieces of both factors are rounded to bf16 and packed as tiles, whose sums are fp32. On AMX
 * packing costs about as much as multiplying, and both together less than half of a product in
 * fp32. */
#ifdef DT_AMX

enum {
    TILE = DTI_AMX_TILE,
    STEP = DTI_AMX_STEP,  /* values that one product of tiles adds up */
    SIDE = DTI_TILE_SIDE, /* of a piece: rows of a, values, columns of b */
    STEPS = SIDE / STEP,  /* tiles of a piece over its values */
    WORDS = TILE * TILE,  /* of a tile: pairs of bf16 */
    PIECE = SIDE / TILE * STEPS * WORDS,
    BLOCK = 2 * TILE /* rows and columns of sums held at once */
};

/* A piece as tiles: of a [rows / 16][steps] with a row's pairs side by side, of b
 * [columns / 16][steps] with a column's below each other. What is packed beyond its rows, columns
 * and values is zeros. */
typedef struct piece {
    _Alignas(64) uint32_t a[PIECE], b[PIECE];
    int64_t m, n, depth; /* of what is there */
    int64_t whole;       /* rows and columns that are packed at a time */
} piece;

/* A mask of the first @n of 16. */
static uint16_t first_of(int64_t n)
{
    return (uint16_t)(n >= TILE ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
}

/* The words of 16 columns from @x on, of values [k, k + 32) of @depth, rows @row apart. */
DT_PAIRS static inline void load_columns(
    const float *x, int64_t row, int64_t k, int64_t depth, uint16_t columns, __m512i *words)
{
    for (int p = 0; p < TILE; p++, k += 2) {
        const uint16_t here = k < depth ? columns : 0, next = k + 1 < depth ? columns : 0;
        words[p] = dti_pairs_of(_mm512_maskz_loadu_ps(here, x + k * row),
            _mm512_maskz_loadu_ps(next, x + (k + 1) * row));
    }
}

DT_PAIRS static inline void store(const __m512i *words, uint32_t *to)
{
    for (int p = 0; p < TILE; p++)
        _mm512_store_si512(to + p * TILE, words[p]);
}

/* The words of 16 rows of a from row @i and value @k on. @a points to the piece's first element. */
DT_PAIRS static inline void load_rows(
    const dti_tile *t, const float *a, const piece *p, int64_t i, int64_t k, __m512i *words)
{
    const uint16_t low = first_of(p->depth - k), high = first_of(p->depth - k - TILE);
    for (int64_t r = 0; r < TILE; r++) {
        const float *x = a + (i + r) * t->row + k;
        const bool here = i + r < p->m;
        words[r] = dti_pairs_rounded(_mm512_maskz_loadu_ps(here ? low : 0, x),
            _mm512_maskz_loadu_ps(here ? high : 0, x + TILE));
    }
}

/* The same of bf16, whose pairs lie side by side. */
DT_PAIRS static inline void load_rows_bf16(
    const dti_tile *t, const dt_bf16 *a, const piece *p, int64_t i, int64_t k, __m512i *words)
{
    const uint32_t values =
        (uint32_t)first_of(p->depth - k) | (uint32_t)first_of(p->depth - k - TILE) << TILE;
    for (int64_t r = 0; r < TILE; r++)
        words[r] = _mm512_maskz_loadu_epi16(i + r < p->m ? values : 0, a + (i + r) * t->row + k);
}

/* The piece of a at row @row and value @depth. */
DT_PAIRS static void pack_a(const dti_tile *t, int64_t row, int64_t depth, piece *p)
{
    const bool transposed = t->step != 1;
    const int64_t m = dti_ceil_div(p->m, p->whole) * p->whole, at = row * t->row + depth * t->step;
    for (int64_t i = 0; i < m; i += TILE)
        for (int64_t k = 0; k < p->depth; k += STEP) {
            __m512i words[TILE];
            if (t->a_bf16 != NULL) {
                load_rows_bf16(t, t->a_bf16 + at, p, i, k, words);
            } else if (transposed) {
                load_columns(t->a + at + i, t->step, k, p->depth, first_of(p->m - i), words);
                dti_pairs_transpose(words);
            } else {
                load_rows(t, t->a + at, p, i, k, words);
            }
            store(words, p->a + (i / TILE * STEPS + k / STEP) * WORDS);
        }
}

/* Of b in bf16, BLOCK columns at a time: their words are of two tiles. */
DT_PAIRS static void pack_b_bf16(const dti_tile *t, const dt_bf16 *b, piece *p)
{
    for (int64_t j = 0; j < p->n; j += BLOCK) {
        const uint32_t columns = (uint32_t)first_of(p->n - j) | (uint32_t)first_of(p->n - j - TILE)
                                                                    << TILE;
        uint32_t *to = p->b + j / TILE * STEPS * WORDS;
        for (int64_t k = 0; k < dti_ceil_div(p->depth, STEP) * STEP; k += 2, to += TILE) {
            const dt_bf16 *x = b + k * t->b_row + j;
            const uint32_t here = k < p->depth ? columns : 0, next = k + 1 < p->depth ? columns : 0;
            const __m512i even = _mm512_maskz_loadu_epi16(here, x);
            const __m512i odd = _mm512_maskz_loadu_epi16(next, x + t->b_row);
            __m512i words[2];
            dti_pairs_join(even, odd, words);
            _mm512_store_si512(to, words[0]);
            _mm512_store_si512(to + STEPS * WORDS, words[1]);
        }
    }
}

/* The piece of b at value @depth and column @column. */
DT_PAIRS static void pack_b(const dti_tile *t, int64_t depth, int64_t column, piece *p)
{
    const int64_t n = dti_ceil_div(p->n, p->whole) * p->whole, at = depth * t->b_row + column;
    if (t->b_bf16 != NULL) {
        pack_b_bf16(t, t->b_bf16 + at, p);
        return;
    }
    for (int64_t j = 0; j < n; j += TILE)
        for (int64_t k = 0; k < p->depth; k += STEP) {
            __m512i words[TILE];
            load_columns(t->b + at + j, t->b_row, k, p->depth, first_of(p->n - j), words);
            store(words, p->b + (j / TILE * STEPS + k / STEP) * WORDS);
        }
}

/* What there is of a block: @m rows, @n columns, a whole tile's or two, @pairs of values. */
typedef struct extent {
    int64_t m, n, pairs;
    bool add;
} extent;

/* A block of c. */
typedef void block_fn(const uint32_t *a, const uint32_t *b, const extent *x, float *c, int64_t row);

/* A whole one, of which that matters. */
DT_AMX static void multiply_whole(
    const uint32_t *a, const uint32_t *b, const extent *x, float *c, int64_t row)
{
    const size_t line = 64, width = (size_t)row * sizeof *c;
    if (x->add) {
        _tile_loadd(0, c, width);
        _tile_loadd(1, c + TILE, width);
        _tile_loadd(2, c + TILE * row, width);
        _tile_loadd(3, c + TILE * row + TILE, width);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < x->pairs; k += TILE, a += WORDS, b += WORDS) {
        _tile_loadd(4, a, line);
        _tile_loadd(5, a + STEPS * WORDS, line);
        _tile_loadd(6, b, line);
        _tile_loadd(7, b + STEPS * WORDS, line);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, width);
    _tile_stored(1, c + TILE, width);
    _tile_stored(2, c + TILE * row, width);
    _tile_stored(3, c + TILE * row + TILE, width);
}

/* One that c has only a part of goes through a whole one. */
static void multiply_amx(
    const uint32_t *a, const uint32_t *b, const extent *x, float *c, int64_t row)
{
    if (x->m == BLOCK && x->n == BLOCK) {
        multiply_whole(a, b, x, c, row);
        return;
    }
    _Alignas(64) float whole[BLOCK * BLOCK] = {0};
    for (int64_t i = 0; i < x->m && x->add; i++)
        memcpy(whole + i * BLOCK, c + i * row, (size_t)x->n * sizeof *c);
    multiply_whole(a, b, x, whole, BLOCK);
    for (int64_t i = 0; i < x->m; i++)
        memcpy(c + i * row, whole + i * BLOCK, (size_t)x->n * sizeof *c);
}

enum { ROWS = 8, FEW_ROWS = 2 }; /* whose sums are kept in registers */

DT_PAIRS DT_INLINE void multiply_rows(const uint32_t *a, const uint32_t *b, const extent *x,
    int rows, int wide, float *c, int64_t row)
{
    __m512 sum[ROWS][BLOCK / TILE];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < wide; v++)
            sum[r][v] = x->add ? _mm512_loadu_ps(c + r * row + v * TILE) : _mm512_setzero_ps();
    for (int64_t s = 0; s < x->pairs; s += TILE, a += WORDS, b += WORDS) {
        const int64_t pairs = dt_min_i64(x->pairs - s, TILE);
        for (int64_t k = 0; k < pairs; k++) {
            __m512bh right[BLOCK / TILE];
            for (int v = 0; v < wide; v++)
                right[v] = (__m512bh)_mm512_load_si512(b + v * STEPS * WORDS + k * TILE);
            for (int r = 0; r < rows; r++) {
                const __m512bh pair = (__m512bh)_mm512_set1_epi32((int)a[r * TILE + k]);
                for (int v = 0; v < wide; v++)
                    sum[r][v] = _mm512_dpbf16_ps(sum[r][v], pair, right[v]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < wide; v++)
            _mm512_storeu_ps(c + r * row + v * TILE, sum[r][v]);
}

static inline const uint32_t *row_of(const uint32_t *a, int64_t i)
{
    return a + i / TILE * STEPS * WORDS + i % TILE * TILE;
}

/* Rows behind the last whole ROWS. */
DT_PAIRS static __attribute__((noinline)) void multiply_few(
    const uint32_t *a, const uint32_t *b, const extent *x, int64_t i, float *c, int64_t row)
{
    for (; i + FEW_ROWS <= x->m; i += FEW_ROWS)
        if (x->n > TILE)
            multiply_rows(row_of(a, i), b, x, FEW_ROWS, 2, c + i * row, row);
        else
            multiply_rows(row_of(a, i), b, x, FEW_ROWS, 1, c + i * row, row);
    if (i < x->m && x->n > TILE)
        multiply_rows(row_of(a, i), b, x, 1, 2, c + i * row, row);
    else if (i < x->m)
        multiply_rows(row_of(a, i), b, x, 1, 1, c + i * row, row);
}

DT_PAIRS static void multiply_pairs(
    const uint32_t *a, const uint32_t *b, const extent *x, float *c, int64_t row)
{
    int64_t i = 0;
    for (; i + ROWS <= x->m; i += ROWS)
        if (x->n > TILE)
            multiply_rows(row_of(a, i), b, x, ROWS, 2, c + i * row, row);
        else
            multiply_rows(row_of(a, i), b, x, ROWS, 1, c + i * row, row);
    if (i < x->m)
        multiply_few(a, b, x, i, c, row);
}

static void multiply(block_fn *block, const dti_tile *t, const piece *p, bool add, float *c)
{
    for (int64_t i = 0; i < p->m; i += BLOCK)
        for (int64_t j = 0; j < p->n; j += BLOCK) {
            const uint32_t *a = p->a + i / TILE * STEPS * WORDS;
            const uint32_t *b = p->b + j / TILE * STEPS * WORDS;
            const extent x = {dt_min_i64(p->m - i, BLOCK), dt_min_i64(p->n - j, BLOCK),
                dti_ceil_div(p->depth, 2), add};
            block(a, b, &x, c + i * t->c_row + j, t->c_row);
        }
}

static void product(const dti_tile *t, block_fn *block, int64_t whole)
{
    piece p;
    p.whole = whole;
    for (int64_t i = 0; i < t->m; i += SIDE)
        for (int64_t k = 0; k < t->depth; k += SIDE) {
            p.m = dt_min_i64(t->m - i, SIDE);
            p.depth = dt_min_i64(t->depth - k, SIDE);
            pack_a(t, i, k, &p);
            for (int64_t j = 0; j < t->n; j += SIDE) {
                p.n = dt_min_i64(t->n - j, SIDE);
                pack_b(t, k, j, &p);
                multiply(block, t, &p, t->add || k > 0, t->c + i * t->c_row + j);
            }
        }
}

static void product_amx(const dti_tile *t)
{
    dti_amx_begin();
    product(t, multiply_amx, BLOCK);
    dti_amx_end();
}

static void product_pairs(const dti_tile *t)
{
    product(t, multiply_pairs, TILE);
}

dti_tile_fn *dti_tile_bf16(void)
{
    if (!dt_bf16_pays())
        return NULL;
    return dti_amx_here() ? product_amx : product_pairs;
}

#else

dti_tile_fn *dti_tile_bf16(void)
{
    return NULL;
}

#endif
