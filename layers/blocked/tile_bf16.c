/* Which product of bf16 is the fastest, and the packing of its right factor, which all share. */
#include "layers/blocked/tile_bf16.h"

#include "engine/base/numbers.h"
#include "layers/blocked/bf16.h"
#include "layers/cpu/tasks.h"

#ifdef DT_AMX

enum { TILE = DTI_AMX_TILE, STEP = DTI_AMX_STEP, SIDE = DTI_PIECE_SIDE };

/* What there is of a piece. */
typedef struct extent {
    int64_t n, depth;
} extent;

static uint32_t *words_at(uint32_t *to, int64_t column, int64_t value)
{
    return to + (column / TILE * DTI_PIECE_STEPS + value / STEP) * DTI_PIECE_TILE;
}

/* A mask of the first @n of 32. */
static uint32_t first_of_step(int64_t n)
{
    return (uint32_t)dti_first_of(n) | (uint32_t)dti_first_of(n - TILE) << TILE;
}

/* Rows of bf16, STEP columns at a time: their words are of two tiles. */
DT_PAIRS static void pack_bf16(const dt_bf16 *b, int64_t row, extent x, uint32_t *to)
{
    for (int64_t j = 0; j < x.n; j += STEP) {
        const uint32_t columns = first_of_step(x.n - j);
        uint32_t *at = words_at(to, j, 0);
        for (int64_t k = 0; k < dti_ceil_div(x.depth, STEP) * STEP; k += 2, at += TILE) {
            const dt_bf16 *v = b + k * row + j;
            const uint32_t here = k < x.depth ? columns : 0;
            const uint32_t next = k + 1 < x.depth ? columns : 0;
            const __m512i even = _mm512_maskz_loadu_epi16(here, v);
            const __m512i odd = _mm512_maskz_loadu_epi16(next, v + row);
            __m512i words[2];
            dti_pairs_join(even, odd, words);
            _mm512_store_si512(at, words[0]);
            _mm512_store_si512(at + DTI_PIECE_STEPS * DTI_PIECE_TILE, words[1]);
        }
    }
}

/* Rows of bf16 that are columns of b. */
DT_PAIRS static void pack_transposed(const dt_bf16 *b, int64_t row, extent x, uint32_t *to)
{
    for (int64_t j = 0; j < dti_ceil_div(x.n, STEP) * STEP; j += TILE)
        for (int64_t k = 0; k < x.depth; k += STEP) {
            __m512i words[TILE];
            dti_piece_rows(b + j * row + k, row, x.n - j, first_of_step(x.depth - k), words);
            dti_pairs_transpose(words);
            dti_piece_store(words, words_at(to, j, k));
        }
}

DT_PAIRS static void pack_fp32(const float *b, int64_t row, extent x, uint32_t *to)
{
    for (int64_t j = 0; j < dti_ceil_div(x.n, STEP) * STEP; j += TILE)
        for (int64_t k = 0; k < x.depth; k += STEP) {
            __m512i words[TILE];
            dti_piece_columns(b + j, row, k, x.depth, dti_first_of(x.n - j), words);
            dti_piece_store(words, words_at(to, j, k));
        }
}

static void pack(const dti_tile *t, int64_t depth, int64_t column, uint32_t *to)
{
    const extent x = {dt_min_i64(t->n - column, SIDE), dt_min_i64(t->depth - depth, SIDE)};
    if (t->b_bf16 == NULL)
        pack_fp32(t->b + depth * t->b_row + column, t->b_row, x, to);
    else if (t->b_transposed)
        pack_transposed(t->b_bf16 + column * t->b_row + depth, t->b_row, x, to);
    else
        pack_bf16(t->b_bf16 + depth * t->b_row + column, t->b_row, x, to);
}

static int64_t pieces(int64_t n)
{
    return dti_ceil_div(n, SIDE);
}

const uint32_t *dti_piece_of_b(const dti_tile *t, int64_t depth, int64_t column, uint32_t *scratch)
{
    if (t->b_packed != NULL)
        return t->b_packed + (depth / SIDE * pieces(t->n) + column / SIDE) * DTI_PIECE;
    pack(t, depth, column, scratch);
    return scratch;
}

int64_t dti_tile_packed_words(int64_t depth, int64_t n)
{
    return pieces(depth) * pieces(n) * DTI_PIECE;
}

void dti_tile_pack(const dti_tile *t, uint32_t *to)
{
    for (int64_t k = 0; k < t->depth; k += SIDE)
        for (int64_t j = 0; j < t->n; j += SIDE, to += DTI_PIECE)
            pack(t, k, j, to);
}

dti_tile_fn *dti_tile_bf16(void)
{
    if (!dt_bf16_pays())
        return NULL;
    return dti_amx_here() ? dti_tile_amx : dti_tile_pairs;
}

#else

int64_t dti_tile_packed_words(int64_t depth, int64_t n)
{
    (void)depth, (void)n;
    return 0;
}

void dti_tile_pack(const dti_tile *t, uint32_t *to)
{
    (void)t, (void)to;
}

dti_tile_fn *dti_tile_bf16(void)
{
    return NULL;
}

#endif
