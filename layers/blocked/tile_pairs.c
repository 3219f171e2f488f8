/* Products of small matrices by AVX512_BF16, of factors rounded to bf16. */
#include "layers/blocked/tile_bf16.h"

#include <string.h>

#include "engine/base/numbers.h"
#include "layers/cpu/tasks.h"

#ifdef DT_AMX

enum {
    LANES = DTI_AMX_TILE,
    SIDE = DTI_PIECE_SIDE,
    VECTORS = SIDE / LANES,                    /* of the columns of a piece */
    COLUMN = DTI_PIECE_STEPS * DTI_PIECE_TILE, /* words of one */
    PAIRS = SIDE / 2,
    ROWS = 6, /* whose sums over all vectors are kept in registers */
    SOME_ROWS = 4
};

/* A piece of a: word p of row r, a pair of values, at word[r * row + p * step]; in memory that may
 * be rows of bf16, of which a word is not always aligned. */
typedef struct left {
    const void *word;
    int64_t row, step;
} left;

static inline int word_of(const left *a, int64_t r, int64_t p)
{
    int word;
    memcpy(&word, (const char *)a->word + (r * a->row + p * a->step) * (int64_t)sizeof word,
        sizeof word);
    return word;
}

static left from_row(const left *a, int64_t r)
{
    return (left){(const char *)a->word + r * a->row * (int64_t)sizeof(int), a->row, a->step};
}

/* Rows of fp32 rounded; what lies behind the last value is 0. */
DT_PAIRS static void round_rows(
    const float *a, int64_t row, int64_t m, int64_t depth, uint32_t *words)
{
    for (int64_t r = 0; r < m; r++, words += PAIRS)
        for (int64_t k = 0; k < depth; k += DTI_AMX_STEP) {
            const float *x = a + r * row + k;
            const __m512 low = _mm512_maskz_loadu_ps(dti_first_of(depth - k), x);
            const __m512 high = _mm512_maskz_loadu_ps(dti_first_of(depth - k - LANES), x + LANES);
            _mm512_store_si512(words + k / 2, dti_pairs_rounded(low, high));
        }
}

/* Rows of fp32 that are columns of a: the pairs of all rows side by side. */
DT_PAIRS static void pair_columns(
    const float *a, int64_t step, int64_t m, int64_t depth, uint32_t *words)
{
    for (int64_t k = 0; k < depth; k += 2, words += SIDE)
        for (int64_t i = 0; i < m; i += LANES) {
            const uint16_t rows = dti_first_of(m - i);
            const float *x = a + k * step + i;
            const __m512 next = _mm512_maskz_loadu_ps(k + 1 < depth ? rows : 0, x + step);
            _mm512_store_si512(words + i, dti_pairs_of(_mm512_maskz_loadu_ps(rows, x), next));
        }
}

/* Rows of bf16 of an odd number of values, or an odd distance. */
static void copy_rows(const dt_bf16 *a, int64_t row, int64_t m, int64_t depth, uint32_t *words)
{
    for (int64_t r = 0; r < m; r++, words += PAIRS) {
        memset(words, 0, PAIRS * sizeof *words);
        memcpy(words, a + r * row, (size_t)depth * sizeof *a);
    }
}

/* The piece of a at row @i and value @k, where it lies or packed at @scratch. */
static left left_of(const dti_tile *t, int64_t i, int64_t k, uint32_t *scratch)
{
    const int64_t m = dt_min_i64(t->m - i, SIDE), depth = dt_min_i64(t->depth - k, SIDE);
    const int64_t at = i * t->row + k * t->step;
    if (t->a_bf16 != NULL && t->row % 2 == 0 && depth % 2 == 0)
        return (left){t->a_bf16 + at, t->row / 2, 1};
    if (t->a_bf16 != NULL) {
        copy_rows(t->a_bf16 + at, t->row, m, depth, scratch);
    } else if (t->step != 1) {
        pair_columns(t->a + at, t->step, m, depth, scratch);
        return (left){scratch, 1, SIDE};
    } else {
        round_rows(t->a + at, t->row, m, depth, scratch);
    }
    return (left){scratch, PAIRS, 1};
}

/* What there is of a piece of c: rows, pairs of values that are added up, the distance of rows. */
typedef struct extent {
    int64_t m, pairs, row;
    bool add;
} extent;

DT_PAIRS DT_INLINE void add_rows(
    left a, const uint32_t *b, const extent *x, const int rows, const int vectors, float *c)
{
    __m512 sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = x->add ? _mm512_loadu_ps(c + r * x->row + v * LANES) : _mm512_setzero_ps();
    for (int64_t p = 0; p < x->pairs; p++, b += LANES) {
        __m512bh right[VECTORS];
        for (int v = 0; v < vectors; v++)
            right[v] = (__m512bh)_mm512_load_si512(b + v * COLUMN);
        for (int r = 0; r < rows; r++) {
            const __m512bh pair = (__m512bh)_mm512_set1_epi32(word_of(&a, r, p));
            for (int v = 0; v < vectors; v++)
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], pair, right[v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(c + r * x->row + v * LANES, sum[r][v]);
}

DT_PAIRS DT_INLINE void add_all(
    const left *a, const uint32_t *b, const extent *x, const int vectors, float *c)
{
    int64_t i = 0;
    for (; i + ROWS <= x->m; i += ROWS)
        add_rows(from_row(a, i), b, x, ROWS, vectors, c + i * x->row);
    for (; i + SOME_ROWS <= x->m; i += SOME_ROWS)
        add_rows(from_row(a, i), b, x, SOME_ROWS, vectors, c + i * x->row);
    for (; i < x->m; i++)
        add_rows(from_row(a, i), b, x, 1, vectors, c + i * x->row);
}

DT_PAIRS static void add_one(const left *a, const uint32_t *b, const extent *x, float *c)
{
    add_all(a, b, x, 1, c);
}

DT_PAIRS static void add_two(const left *a, const uint32_t *b, const extent *x, float *c)
{
    add_all(a, b, x, 2, c);
}

DT_PAIRS static void add_three(const left *a, const uint32_t *b, const extent *x, float *c)
{
    add_all(a, b, x, 3, c);
}

DT_PAIRS static void add_four(const left *a, const uint32_t *b, const extent *x, float *c)
{
    add_all(a, b, x, 4, c);
}

void dti_tile_pairs(const dti_tile *t)
{
    typedef void multiply_fn(const left *a, const uint32_t *b, const extent *x, float *c);
    static multiply_fn *const multiply[VECTORS] = {add_one, add_two, add_three, add_four};
    _Alignas(64) uint32_t left_scratch[SIDE * PAIRS], right_scratch[DTI_PIECE];
    for (int64_t i = 0; i < t->m; i += SIDE)
        for (int64_t k = 0; k < t->depth; k += SIDE) {
            const left a = left_of(t, i, k, left_scratch);
            const extent x = {dt_min_i64(t->m - i, SIDE),
                dti_ceil_div(dt_min_i64(t->depth - k, SIDE), 2), t->c_row, t->add || k > 0};
            for (int64_t j = 0; j < t->n; j += SIDE)
                multiply[dt_min_i64(t->n - j, SIDE) / LANES - 1](
                    &a, dti_piece_of_b(t, k, j, right_scratch), &x, t->c + i * t->c_row + j);
        }
}

#endif
