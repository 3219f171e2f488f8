/* Products of small matrices by AMX, of factors rounded to bf16. Packing costs about as much as
 * multiplying, and both together less than half of a product in fp32. */
#include "layers/blocked/tile_bf16.h"

#include <string.h>

#include "engine/base/numbers.h"
#include "layers/cpu/tasks.h"

#ifdef DT_AMX

enum {
    TILE = DTI_AMX_TILE,
    STEP = DTI_AMX_STEP, /* values that one product of tiles adds up */
    SIDE = DTI_PIECE_SIDE,
    STEPS = DTI_PIECE_STEPS,
    WORDS = DTI_PIECE_TILE,
    BLOCK = 2 * TILE /* rows and columns of sums held at once */
};

/* Pieces: of a as tiles [rows / 16][steps] with a row's pairs side by side, where whole blocks are
 * packed and what is beyond its rows and values is zeros. */
typedef struct piece {
    _Alignas(64) uint32_t a[DTI_PIECE], b[DTI_PIECE];
    int64_t m, n, depth; /* of what is there */
} piece;

/* The words of 16 rows of a from row @i and value @k on. @a points to the piece's first element. */
DT_PAIRS static inline void load_rows(
    const dti_tile *t, const float *a, const piece *p, int64_t i, int64_t k, __m512i *words)
{
    const uint16_t low = dti_first_of(p->depth - k), high = dti_first_of(p->depth - k - TILE);
    for (int64_t r = 0; r < TILE; r++) {
        const float *x = a + (i + r) * t->row + k;
        const bool here = i + r < p->m;
        words[r] = dti_pairs_rounded(_mm512_maskz_loadu_ps(here ? low : 0, x),
            _mm512_maskz_loadu_ps(here ? high : 0, x + TILE));
    }
}

/* The piece of a at row @row and value @depth. */
DT_PAIRS static void pack_a(const dti_tile *t, int64_t row, int64_t depth, piece *p)
{
    const bool transposed = t->step != 1;
    const int64_t m = dti_ceil_div(p->m, BLOCK) * BLOCK, at = row * t->row + depth * t->step;
    for (int64_t i = 0; i < m; i += TILE)
        for (int64_t k = 0; k < p->depth; k += STEP) {
            __m512i words[TILE];
            if (t->a_bf16 != NULL) {
                const uint32_t values = (uint32_t)dti_first_of(p->depth - k) |
                                        (uint32_t)dti_first_of(p->depth - k - TILE) << TILE;
                dti_piece_rows(t->a_bf16 + at + i * t->row + k, t->row, p->m - i, values, words);
            } else if (transposed) {
                dti_piece_columns(
                    t->a + at + i, t->step, k, p->depth, dti_first_of(p->m - i), words);
                dti_pairs_transpose(words);
            } else {
                load_rows(t, t->a + at, p, i, k, words);
            }
            dti_piece_store(words, p->a + (i / TILE * STEPS + k / STEP) * WORDS);
        }
}

/* What there is of a block: @m rows, @n columns, a whole tile's or two, @pairs of values. */
typedef struct extent {
    int64_t m, n, pairs;
    bool add;
} extent;

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
static void multiply_block(
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

static void multiply(const dti_tile *t, const piece *p, const uint32_t *b, bool add, float *c)
{
    for (int64_t i = 0; i < p->m; i += BLOCK)
        for (int64_t j = 0; j < p->n; j += BLOCK) {
            const extent x = {dt_min_i64(p->m - i, BLOCK), dt_min_i64(p->n - j, BLOCK),
                dti_ceil_div(p->depth, 2), add};
            multiply_block(p->a + i / TILE * STEPS * WORDS, b + j / TILE * STEPS * WORDS, &x,
                c + i * t->c_row + j, t->c_row);
        }
}

void dti_tile_amx(const dti_tile *t)
{
    piece p;
    dti_amx_begin();
    for (int64_t i = 0; i < t->m; i += SIDE)
        for (int64_t k = 0; k < t->depth; k += SIDE) {
            p.m = dt_min_i64(t->m - i, SIDE);
            p.depth = dt_min_i64(t->depth - k, SIDE);
            pack_a(t, i, k, &p);
            for (int64_t j = 0; j < t->n; j += SIDE) {
                p.n = dt_min_i64(t->n - j, SIDE);
                multiply(
                    t, &p, dti_piece_of_b(t, k, j, p.b), t->add || k > 0, t->c + i * t->c_row + j);
            }
        }
    dti_amx_end();
}

#endif
