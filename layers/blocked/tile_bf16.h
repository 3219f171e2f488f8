/* What products of bf16 have in common: factors are rounded and packed in pieces, words of two
 * values that are added up together. */
#ifndef DT_LAYERS_BLOCKED_TILE_BF16_H
#define DT_LAYERS_BLOCKED_TILE_BF16_H

#include "layers/blocked/amx.h"
#include "layers/blocked/pairs.h"
#include "layers/blocked/tile.h"

#ifdef DT_AMX

enum {
    DTI_PIECE_SIDE = DTI_TILE_SIDE,                 /* rows of a, values, columns of b */
    DTI_PIECE_STEPS = DTI_TILE_SIDE / DTI_AMX_STEP, /* AMX's tiles of a piece over its values */
    DTI_PIECE_TILE = DTI_AMX_TILE * DTI_AMX_TILE,   /* words of one */
    DTI_PIECE = DTI_PIECE_SIDE / DTI_AMX_TILE * DTI_PIECE_STEPS * DTI_PIECE_TILE
};

/* A mask of the first @n of 16. */
static inline uint16_t dti_first_of(int64_t n)
{
    return (uint16_t)(n >= DTI_AMX_TILE ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
}

/* The words of 16 columns from @x on, of values [k, k + 32) of @depth, rows @row apart. */
DT_PAIRS static inline void dti_piece_columns(
    const float *x, int64_t row, int64_t k, int64_t depth, uint16_t columns, __m512i *words)
{
    for (int p = 0; p < DTI_AMX_TILE; p++, k += 2) {
        const uint16_t here = k < depth ? columns : 0, next = k + 1 < depth ? columns : 0;
        words[p] = dti_pairs_of(_mm512_maskz_loadu_ps(here, x + k * row),
            _mm512_maskz_loadu_ps(next, x + (k + 1) * row));
    }
}

/* The words of 32 values of bf16 from @x on, of 16 rows or the @rows that there are; @values: a
 * mask of those that there are. */
DT_PAIRS static inline void dti_piece_rows(
    const dt_bf16 *x, int64_t row, int64_t rows, uint32_t values, __m512i *words)
{
    for (int64_t r = 0; r < DTI_AMX_TILE; r++)
        words[r] = _mm512_maskz_loadu_epi16(r < rows ? values : 0, x + r * row);
}

DT_PAIRS static inline void dti_piece_store(const __m512i *words, uint32_t *to)
{
    for (int p = 0; p < DTI_AMX_TILE; p++)
        _mm512_store_si512(to + p * DTI_AMX_TILE, words[p]);
}

/* A piece of b from value @depth and column @column on, as [columns / 16][values / 2] rows of the
 * words of 16 columns: where t has it packed, else packed at @scratch, an aligned piece. Behind
 * what there is are zeros, as far as 32 columns and 32 values are begun. */
const uint32_t *dti_piece_of_b(const dti_tile *t, int64_t depth, int64_t column, uint32_t *scratch);

/* The products of it. */
void dti_tile_amx(const dti_tile *t);
void dti_tile_pairs(const dti_tile *t);

#endif

#endif
