/* What forward and backward of attention share: a block of four warps has 64 rows of one head in
 * shared memory, 16 for each warp, and goes over tiles of positions of the same head. */
#ifndef DT_LAYERS_CUDA_ATTENTION_TILES_CUH
#define DT_LAYERS_CUDA_ATTENTION_TILES_CUH

#include "layers/cuda/attention_words.cuh"

enum { ROWS = 64, ATTENTION_THREADS = 128, PAD = 8, MOST_D = 256, MOST_KEYS = 64 };

/**
 * struct attention_job - one launch.
 * @to:    y or dx
 * @lse:   logarithm of the sum of exponentials, [sample][head][t]; NULL: not wanted
 * @prob:  of naive: probabilities, [sample][head][t][t]
 * @delta: dy . y, as @lse
 * @c @d:  channels of y, and of a head
 * @tiles: of 64 rows
 */
typedef struct attention_job {
    const void *x, *y, *dy;
    void *to;
    float *lse, *prob, *delta;
    int64_t n, t, c, d, heads, tiles;
    float scale;
    bool causal, wide;
} attention_job;

/* Which rows of which head a block has: those that have most to do begin first. */
typedef struct place {
    int64_t sample, h, first;
    int64_t row0; /* of [sample][head][t] */
} place;

DT_DEVICE place place_of(const attention_job *j, bool last_first)
{
    place p;
    const int64_t i = blockIdx.x, head = i / j->tiles, tile = i % j->tiles;
    p.sample = head / j->heads;
    p.h = head % j->heads;
    p.first = (last_first ? j->tiles - 1 - tile : tile) * ROWS;
    p.row0 = head * j->t;
    return p;
}

/* Rows of a head's channels in memory: a part of x or dx, or all of y or dy. */
typedef struct rows {
    const void *p;
    int64_t at, row;
} rows;

DT_DEVICE rows part_of(const attention_job *j, const place *p, const void *x, int part)
{
    rows r;
    r.p = x;
    r.at = (p->sample * j->t * 3 + part) * j->c + p->h * j->d;
    r.row = 3 * j->c;
    return r;
}

DT_DEVICE rows whole_of(const attention_job *j, const place *p, const void *y)
{
    rows r;
    r.p = y;
    r.at = p->sample * j->t * j->c + p->h * j->d;
    r.row = j->c;
    return r;
}

/* A tile of shared memory: rows of values. */
typedef struct tile {
    unsigned char *p;
    int row;
} tile;

DT_DEVICE tile take_tile(unsigned char **room, int n, int values, dt_dtype t)
{
    tile a;
    a.p = *room;
    a.row = values + PAD; /* so that the rows of a fragment lie in different banks */
    *room += (size_t)(n * a.row) * dt_dtype_bytes(t);
    return a;
}

/* Positions [first, first + n) of @d channels into rows of @to and, turned, into columns of
 * @turned; either may be NULL. What is not there is 0. Neighbouring threads take two neighbouring
 * groups of channels, then the next position. */
DT_DEVICE void load_tile(const attention_job *j, const rows *from, int64_t first, int n, int d,
    const tile *to, const tile *turned, dt_dtype t)
{
    for (int i = (int)threadIdx.x; i < n * d / DT_FEW; i += ATTENTION_THREADS) {
        const int r = i / 2 % n, c = (i / 2 / n * 2 + i % 2) * DT_FEW;
        const int few = first + r < j->t && c < j->d ? dti_few(c, j->d) : 0;
        float v[DT_FEW];
        dti_take(from->p, from->at + (first + r) * from->row + c, few, j->wide, t, v);
        if (to != NULL)
            dti_put(to->p, r * to->row + c, DT_FEW, true, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DT_FEW && turned != NULL; k++)
            dti_store(turned->p, (c + k) * turned->row + r, t, v[k]);
    }
}

/* The block's rows back to memory. */
DT_DEVICE void store_tile(const attention_job *j, const tile *from, int64_t first, int d,
    const rows *at, void *to, dt_dtype t)
{
    for (int i = (int)threadIdx.x; i < ROWS * d / DT_FEW; i += ATTENTION_THREADS) {
        const int r = i / (d / DT_FEW), c = i % (d / DT_FEW) * DT_FEW;
        float v[DT_FEW];
        if (first + r >= j->t || c >= j->d)
            continue;
        dti_take(from->p, r * from->row + c, DT_FEW, true, t, v);
        dti_put(to, at->at + (first + r) * at->row + c, dti_few(c, j->d), j->wide, t, v);
    }
}

/* Of a thread's sums: its first row in the block (the other is eight on) and its first column. */
DT_DEVICE int my_row(void)
{
    return (int)(threadIdx.x / DT_WARP * 16 + threadIdx.x % DT_WARP / 4);
}

DT_DEVICE int my_column(void)
{
    return (int)(threadIdx.x % 4 * 2);
}

DT_DEVICE void clear(float (*sums)[4], int tiles)
{
    DT_UNROLL(32)
    for (int n = 0; n < tiles; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        sums[n][i] = 0;
}

/* sums += the warp's rows of a times b, whose columns lie as rows. */
DT_DEVICE void product(
    float (*sums)[4], const tile *a, const tile *b, int depth, int tiles, dt_dtype t)
{
    const int column = (int)(threadIdx.x % DT_WARP / 4);
    DT_UNROLL(4)
    for (int k = 0; k < depth; k += 16) {
        const int at = k + my_column();
        dt_pair fa[4], fb[2];
        DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            fa[i] = dti_pair_at(a->p, (my_row() + i % 2 * 8) * a->row + at + i / 2 * 8, t);
        DT_UNROLL(32)
        for (int n = 0; n < tiles; n++) {
            fb[0] = dti_pair_at(b->p, (n * 8 + column) * b->row + at, t);
            fb[1] = dti_pair_at(b->p, (n * 8 + column) * b->row + at + 8, t);
            dti_mma(sums[n], fa, fb, t);
        }
    }
}

/* The same where a is what such a product gave. */
DT_DEVICE void product_of(
    float (*sums)[4], float (*a)[4], const tile *b, int depth, int tiles, dt_dtype t)
{
    const int column = (int)(threadIdx.x % DT_WARP / 4);
    DT_UNROLL(4)
    for (int k = 0; k < depth / 16; k++) {
        dt_pair fa[4], fb[2];
        DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            fa[i] = dti_pair_of(a[2 * k + i / 2][i % 2 * 2], a[2 * k + i / 2][i % 2 * 2 + 1], t);
        DT_UNROLL(32)
        for (int n = 0; n < tiles; n++) {
            const int at = (n * 8 + column) * b->row + k * 16 + my_column();
            fb[0] = dti_pair_at(b->p, at, t);
            fb[1] = dti_pair_at(b->p, at + 8, t);
            dti_mma(sums[n], fa, fb, t);
        }
    }
}

/* The warp's rows of a tile, from its sums. */
DT_DEVICE void keep(const tile *to, float (*sums)[4], const float *factor, int tiles, dt_dtype t)
{
    DT_UNROLL(32)
    for (int n = 0; n < tiles; n++)
        DT_UNROLL(2)
    for (int i = 0; i < 2; i++)
        dti_pair_to(to->p, (my_row() + i * 8) * to->row + n * 8 + my_column(),
            dti_pair_of(sums[n][2 * i] * factor[i], sums[n][2 * i + 1] * factor[i], t), t);
}

/* Whether a query sees a key. */
DT_DEVICE bool sees(const attention_job *j, int64_t query, int64_t key)
{
    return key < j->t && (!j->causal || key <= query);
}

/* Scores in units of log 2, and minus infinity where a query does not see a key. */
DT_DEVICE void scale_scores(
    const attention_job *j, float (*s)[4], int64_t query, int64_t key, int keys)
{
    const float scale = j->scale * 1.44269504089f;
    const bool all = key + keys <= j->t && (!j->causal || key + keys <= query / ROWS * ROWS + 1);
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        s[n][i] = all || sees(j, query + i / 2 * 8, key + n * 8 + my_column() + i % 2)
                      ? s[n][i] * scale
                      : -INFINITY;
}

/* Scores to probabilities, from the sum's logarithm of each row. */
DT_DEVICE void soften_again(
    const attention_job *j, const place *p, float (*s)[4], int64_t key, int keys)
{
    float lse[2];
    DT_UNROLL(2)
    for (int i = 0; i < 2; i++) {
        const int64_t row = p->first + my_row() + i * 8;
        lse[i] = row < j->t ? j->lse[p->row0 + row] * 1.44269504089f : 0;
    }
    scale_scores(j, s, p->first + my_row(), key, keys);
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        s[n][i] = exp2f(s[n][i] - lse[i / 2]);
}

/* Probability of a key for a query, as forward kept it, or a place for it; NULL: outside. */
DT_DEVICE float *prob_at(const attention_job *j, const place *p, int64_t query, int64_t key)
{
    return query < j->t && key < j->t ? j->prob + (p->row0 + query) * j->t + key : NULL;
}

DT_DEVICE int64_t keys_end(const attention_job *j, const place *p)
{
    return j->causal && p->first + ROWS < j->t ? p->first + ROWS : j->t;
}

#endif
