/* Products of small matrices that lie in the cache, the inner loops of attention. */
#ifndef DT_LAYERS_BLOCKED_TILE_H
#define DT_LAYERS_BLOCKED_TILE_H

#include "engine/dtype.h"

enum { DTI_TILE_SIDE = 64, DTI_TILE_LANES = 16 };

/* @n floats, to whole vectors. */
static inline int64_t dti_tile_padded(int64_t n)
{
    return (n + DTI_TILE_LANES - 1) / DTI_TILE_LANES * DTI_TILE_LANES;
}

/**
 * struct dti_tile - c[i][j] = sum over k of a[i][k] b[k][j], or that added to c.
 * @a:     element i, k is a[i * row + k * step], so a may be transposed
 * @b @c:  rows of n floats, b_row and c_row apart
 * @a_bf16 @b_bf16: the factor in place of a or b, if not NULL, where it is bf16 already; a with
 *         step 1. For dti_tile_bf16 alone, as what follows
 * @b_packed: b as dti_tile_pack has packed it, aligned as a vector, in place of b and b_bf16
 * @b_transposed: element k, j of b_bf16 is b_bf16[j * b_row + k]
 * @n:     a multiple of DTI_TILE_LANES
 * @far:   a with step 1 is in no cache: its next rows are asked for ahead
 */
typedef struct dti_tile {
    const float *a, *b;
    const dt_bf16 *a_bf16, *b_bf16;
    const uint32_t *b_packed;
    float *c;
    int64_t row, step, b_row, c_row;
    int64_t m, n, depth;
    bool add, far, b_transposed;
} dti_tile;

/* The fastest this machine has: with AVX-512, with AVX2, or plain. Sums run over k in order; the
 * first two fuse multiplication and addition. */
typedef void dti_tile_fn(const dti_tile *t);
dti_tile_fn *dti_tile_best(void);

/**
 * struct dti_tile_copies - how it reads best what is copied for it.
 * @panel: columns of a b that is kept in the first cache, with b_row as many: of rows that are
 *         longer, the parts of few columns would crowd into few of the cache's sets
 * @strip: rows of an a that is copied element by element of all of them, with step as many; 0: a
 *         is read where it lies
 */
typedef struct dti_tile_copies {
    int64_t panel, strip;
} dti_tile_copies;

dti_tile_copies dti_tile_copies_best(void);

/* For factors that may be rounded to bf16, of which one is transposed or has step 1: with AMX or
 * AVX512_BF16, where that pays; else NULL. Sums are fp32, in another order than those. */
dti_tile_fn *dti_tile_bf16(void);

/* For many products with one b of @depth by @n: its words, and to round and pack it, where
 * dti_tile_bf16() is not NULL. Of @t only b, b_bf16, b_row, b_transposed, depth and n matter. */
int64_t dti_tile_packed_words(int64_t depth, int64_t n);
void dti_tile_pack(const dti_tile *t, uint32_t *to);

#endif
