/* Attention on the card: products of small matrices by a warp, tiles of positions, forward and
 * backward, and their launches. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/attention.h"
DT_C_HEADERS_END

/* --- words and products ---
 * What attention's kernels need of a card beyond cuda_kernel.cuh: products of small matrices by a
 * warp, words of shared memory, more of that than a kernel has by itself. For the processor there
 * are the same products of fragments, as PTX lays them out, so that a test sees a wrong index. */

/* Two neighbouring values: of bf16 in the first word, of fp32 in both. */
typedef struct dt_pair {
    uint32_t w[2];
} dt_pair;

DT_DEVICE dt_pair dti_pair_of(float first, float second, dt_dtype t)
{
    dt_pair p;
    p.w[0] = t == DT_BF16 ? dti_bf16_pair(first, second) : dti_bits(first);
    p.w[1] = t == DT_BF16 ? 0 : dti_bits(second);
    return p;
}

#ifndef DT_CUDA_HOST

#define DT_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

/* Values i and i + 1 of shared memory; i is even. */
DT_DEVICE dt_pair dti_pair_at(const void *v, int i, dt_dtype t)
{
    dt_pair p;
    if (t == DT_BF16) {
        p.w[0] = ((const uint32_t *)v)[i / 2];
        p.w[1] = 0;
    } else {
        const uint2 u = ((const uint2 *)v)[i / 2];
        p.w[0] = u.x;
        p.w[1] = u.y;
    }
    return p;
}

DT_DEVICE void dti_pair_to(void *v, int i, dt_pair p, dt_dtype t)
{
    if (t == DT_BF16)
        ((uint32_t *)v)[i / 2] = p.w[0];
    else
        ((uint2 *)v)[i / 2] = make_uint2(p.w[0], p.w[1]);
}

/* c += a b for 8 of the inner dimension, of values with ten bits. */
DT_DEVICE void dti_mma_tf32(
    float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* c += a b for 16 of the inner dimension, of bf16. */
DT_DEVICE void dti_mma_bf16(float *c, const dt_pair *a, const dt_pair *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0].w[0]), "r"(a[1].w[0]), "r"(a[2].w[0]), "r"(a[3].w[0]), "r"(b[0].w[0]),
        "r"(b[1].w[0]));
}

#define DT_KERNEL_POINTER(name) name
#define DT_KERNEL_TYPE(name, type) void (*name)(const type)
/* Kernels that are chosen from a table, with shared memory of the launch's size. */
#define DT_LAUNCH_POINTER(kernel, blocks, threads, bytes, queue, given)                            \
    (kernel)<<<(blocks), (threads), (bytes), (cudaStream_t)(queue)>>>(given)

#else

enum { DT_HOST_SHARED = 227 << 10 };
#define DT_SHARED(name) static _Alignas(16) unsigned char name[DT_HOST_SHARED]

static inline dt_pair dti_pair_at(const void *v, int i, dt_dtype t)
{
    dt_pair p = {{0, 0}};
    memcpy(p.w, (const char *)v + (size_t)i * dt_dtype_bytes(t), 2 * dt_dtype_bytes(t));
    return p;
}

static inline void dti_pair_to(void *v, int i, dt_pair p, dt_dtype t)
{
    memcpy((char *)v + (size_t)i * dt_dtype_bytes(t), p.w, 2 * dt_dtype_bytes(t));
}

/* What each lane of a block brings to a product, and to the next, so that no lane has to wait until
 * the others have read. */
static struct dti_fragment {
    uint32_t a[4], b[2];
} dti_fragments[2][1024];
static unsigned dti_products[1024];

static inline const struct dti_fragment *dti_bring(const uint32_t *a, const uint32_t *b)
{
    struct dti_fragment *of = dti_fragments[dti_products[threadIdx.x]++ % 2];
    memcpy(of[threadIdx.x].a, a, sizeof of->a);
    memcpy(of[threadIdx.x].b, b, sizeof of->b);
    (void)__ballot_sync(0xFFFFFFFFu, 1);
    return of + threadIdx.x / DTI_WARP * DTI_WARP;
}

/* Sums of a lane: row g or g + 8, column i or i + 1. */
static inline void dti_mma_tf32(
    float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1)
{
    const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    const struct dti_fragment *f = dti_bring(a, b);
    const unsigned g = threadIdx.x % DTI_WARP / 4, column = threadIdx.x % 4 * 2;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 8; k++)
            c[i] += dti_float(f[g * 4 + k % 4].a[k / 4 * 2 + i / 2]) *
                    dti_float(f[(column + i % 2) * 4 + k % 4].b[k / 4]);
}

static inline float dti_half(uint32_t pair, unsigned second)
{
    return second ? dti_high_bf16(pair) : dti_low_bf16(pair);
}

static inline void dti_mma_bf16(float *c, const dt_pair *a, const dt_pair *b)
{
    const uint32_t fa[4] = {a[0].w[0], a[1].w[0], a[2].w[0], a[3].w[0]};
    const uint32_t fb[2] = {b[0].w[0], b[1].w[0]};
    const struct dti_fragment *f = dti_bring(fa, fb);
    const unsigned g = threadIdx.x % DTI_WARP / 4, column = threadIdx.x % 4 * 2;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 16; k++)
            c[i] += dti_half(f[g * 4 + k % 8 / 2].a[k / 8 * 2 + i / 2], k % 2) *
                    dti_half(f[(column + i % 2) * 4 + k % 8 / 2].b[k / 8], k % 2);
}

#define DT_KERNEL_POINTER(name) name##_thread
#define DT_KERNEL_TYPE(name, type) void (*name)(const void *given)
#define DT_LAUNCH_POINTER(kernel, blocks, threads, bytes, queue, given)                            \
    DT_HOST_LAUNCH(kernel, blocks, 1, threads, bytes, queue, given)

#endif

#define DT_ALLOW_SHARED(kernel, bytes)                                                             \
    cudaFuncSetAttribute((const void *)(uintptr_t)(kernel),                                        \
        cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes))

/* The ten bits that a product of TF32 takes of a value, and the ten that follow. */
DT_DEVICE dt_pair dti_high(dt_pair p)
{
    p.w[0] &= 0xFFFFE000u;
    p.w[1] &= 0xFFFFE000u;
    return p;
}

DT_DEVICE dt_pair dti_low(dt_pair p)
{
    const dt_pair high = dti_high(p);
    p.w[0] = dti_bits(dti_float(p.w[0]) - dti_float(high.w[0]));
    p.w[1] = dti_bits(dti_float(p.w[1]) - dti_float(high.w[1]));
    return dti_high(p);
}

/* Which of the inner dimension a place stands for does not matter, as long as a and b agree: here
 * neighbours are at places k and k + 4. */
DT_DEVICE void dti_mma_fp32(float *c, const dt_pair *a, const dt_pair *b)
{
    dti_mma_tf32(c, a[0].w[0], a[1].w[0], a[0].w[1], a[1].w[1], b[0].w[0], b[0].w[1]);
    dti_mma_tf32(c, a[2].w[0], a[3].w[0], a[2].w[1], a[3].w[1], b[1].w[0], b[1].w[1]);
}

/* c += a b by a warp, for 16 rows, 8 columns and 16 of the inner dimension. With g = lane / 4 and
 * i = 2 (lane % 4) a lane has of c[row][column]
 *   c[0..3]: [g][i], [g][i + 1], [g + 8][i], [g + 8][i + 1]
 * and pairs of a[row][inner] and b[inner][column], neighbours along the inner dimension,
 *   a[0..3]: [g][i], [g + 8][i], [g][i + 8], [g + 8][i + 8]
 *   b[0..1]: [i][g], [i + 8][g]
 * Values of fp32 are multiplied as three products of their halves, which keeps 20 bits or more. */
DT_DEVICE void dti_mma(float *c, const dt_pair *a, const dt_pair *b, dt_dtype t)
{
    if (t == DT_BF16) {
        dti_mma_bf16(c, a, b);
        return;
    }
    dt_pair ah[4], al[4], bh[2], bl[2];
    DT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        ah[i] = dti_high(a[i]), al[i] = dti_low(a[i]);
    DT_UNROLL(2)
    for (int i = 0; i < 2; i++)
        bh[i] = dti_high(b[i]), bl[i] = dti_low(b[i]);
    dti_mma_fp32(c, al, bh);
    dti_mma_fp32(c, ah, bl);
    dti_mma_fp32(c, ah, bh);
}

/* --- tiles ---
 * What forward and backward of attention share: a block of four warps has 64 rows of one head in
 * shared memory, 16 for each warp, and goes over tiles of positions of the same head. */

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

DT_DEVICE tile take_tile(unsigned char **next, int n, int values, dt_dtype t)
{
    tile a;
    a.p = *next;
    a.row = values + PAD; /* so that the rows of a fragment lie in different banks */
    *next += (size_t)(n * a.row) * dt_dtype_bytes(t);
    return a;
}

/* Positions [first, first + n) of @d channels into rows of @to and, transposed, into columns of
 * @transposed; either may be NULL. What is not there is 0. Neighbouring threads take two
 * neighbouring groups of channels, then the next position. */
DT_DEVICE void load_tile(const attention_job *j, const rows *from, int64_t first, int n, int d,
    const tile *to, const tile *transposed, dt_dtype t)
{
    for (int i = (int)threadIdx.x; i < n * d / DTI_FEW; i += ATTENTION_THREADS) {
        const int r = i / 2 % n, c = (i / 2 / n * 2 + i % 2) * DTI_FEW;
        const int few = first + r < j->t && c < j->d ? dti_few(c, j->d) : 0;
        float v[DTI_FEW];
        dti_take(from->p, from->at + (first + r) * from->row + c, few, j->wide, t, v);
        if (to != NULL)
            dti_put(to->p, r * to->row + c, DTI_FEW, true, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW && transposed != NULL; k++)
            dti_store(transposed->p, (c + k) * transposed->row + r, t, v[k]);
    }
}

/* The block's rows back to memory. */
DT_DEVICE void store_tile(const attention_job *j, const tile *from, int64_t first, int d,
    const rows *at, void *to, dt_dtype t)
{
    for (int i = (int)threadIdx.x; i < ROWS * d / DTI_FEW; i += ATTENTION_THREADS) {
        const int r = i / (d / DTI_FEW), c = i % (d / DTI_FEW) * DTI_FEW;
        float v[DTI_FEW];
        if (first + r >= j->t || c >= j->d)
            continue;
        dti_take(from->p, r * from->row + c, DTI_FEW, true, t, v);
        dti_put(to, at->at + (first + r) * at->row + c, dti_few(c, j->d), j->wide, t, v);
    }
}

/* Of a thread's sums: its first row in the block (the other is eight on) and its first column. */
DT_DEVICE int my_row(void)
{
    return (int)(threadIdx.x / DTI_WARP * 16 + threadIdx.x % DTI_WARP / 4);
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
    const int column = (int)(threadIdx.x % DTI_WARP / 4);
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
    const int column = (int)(threadIdx.x % DTI_WARP / 4);
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

/* --- forward ---
 * Sums of products stay in registers, where dti_mma() leaves them; no sum runs across blocks, so
 * the bits are the same every time. Forward keeps each query's largest score and sum so far (the
 * online softmax); naive is the same, and writes its probabilities in a second pass. Backward
 * computes probabilities again, or reads them. */

/* Over the four lanes that share a row. */
DT_DEVICE float row_max(float v)
{
    DT_UNROLL(2)
    for (int apart = 1; apart < 4; apart *= 2) {
        const float other = (float)__shfl_xor_sync(0xFFFFFFFFu, v, apart);
        v = other > v ? other : v;
    }
    return v;
}

DT_DEVICE float row_sum(float v)
{
    DT_UNROLL(2)
    for (int apart = 1; apart < 4; apart *= 2)
        v += (float)__shfl_xor_sync(0xFFFFFFFFu, v, apart);
    return v;
}

/* Scores of one more tile to exponentials, of row i of two. What is there already shrinks. */
DT_DEVICE void soften(float (*s)[4], float (*o)[4], float *most, float *sum, int i, int keys, int d)
{
    float m = *most;
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(2)
    for (int k = 0; k < 2; k++)
        m = s[n][2 * i + k] > m ? s[n][2 * i + k] : m;
    m = row_max(m);
    const float shrink = exp2f(*most - m);
    *most = m;
    *sum *= shrink;
    DT_UNROLL(32)
    for (int n = 0; n < d / 8; n++) {
        o[n][2 * i] *= shrink;
        o[n][2 * i + 1] *= shrink;
    }
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(2)
    for (int k = 0; k < 2; k++) {
        s[n][2 * i + k] = exp2f(s[n][2 * i + k] - m);
        *sum += s[n][2 * i + k];
    }
}

/* What rows i of two leave: the sum's logarithm, and the factor of y. */
DT_DEVICE float finish_row(const attention_job *j, const place *p, float most, float sum, int i)
{
    const int64_t row = p->first + my_row() + i * 8;
    sum = row_sum(sum);
    if (j->lse != NULL && row < j->t && threadIdx.x % 4 == 0)
        j->lse[p->row0 + row] = most * 0.693147180560f + logf(sum);
    return 1 / sum;
}

DT_DEVICE void attend(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *next = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&next, ROWS, d, t), k = take_tile(&next, keys, d, t);
    const tile v = take_tile(&next, d, keys, t); /* transposed */
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), to = whole_of(j, &p, j->to);
    float o[MOST_D / 8][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, over[2];
    clear(o, d / 8);
    load_tile(j, &xq, p.first, ROWS, d, &q, NULL, t);
    for (int64_t key = 0; key < keys_end(j, &p); key += keys) {
        float s[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xk, key, keys, d, &k, NULL, t);
        load_tile(j, &xv, key, keys, d, NULL, &v, t);
        __syncthreads();
        clear(s, keys / 8);
        product(s, &q, &k, d, keys / 8, t);
        scale_scores(j, s, p.first + my_row(), key, keys);
        soften(s, o, &most[0], &sum[0], 0, keys, d);
        soften(s, o, &most[1], &sum[1], 1, keys, d);
        product_of(o, s, &v, keys, d / 8, t);
    }
    over[0] = finish_row(j, &p, most[0], sum[0], 0);
    over[1] = finish_row(j, &p, most[1], sum[1], 1);
    __syncthreads();
    keep(&q, o, over, d / 8, t);
    __syncthreads();
    store_tile(j, &q, p.first, d, &to, j->to, t);
}

/* The second pass of naive: keep all probabilities. */
DT_DEVICE void write_prob(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *next = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&next, ROWS, d, t), k = take_tile(&next, keys, d, t);
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    load_tile(j, &xq, p.first, ROWS, d, &q, NULL, t);
    for (int64_t key = 0; key < j->t; key += keys) {
        float s[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xk, key, keys, d, &k, NULL, t);
        __syncthreads();
        clear(s, keys / 8);
        product(s, &q, &k, d, keys / 8, t);
        soften_again(j, &p, s, key, keys);
        DT_UNROLL(8)
        for (int n = 0; n < keys / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            float *to =
                prob_at(j, &p, p.first + my_row() + i / 2 * 8, key + n * 8 + my_column() + i % 2);
            if (to != NULL)
                *to = s[n][i];
        }
    }
}

/* --- backward ---
 * Backward of attention, twice over the scores: for dq rows are queries, for dk and dv they are
 * keys and the tiles are of queries, so that every block owns what it adds up. */

/* dy . y of each row of each head, which is the sum over keys of p times dp: a warp a row. */
DT_DEVICE void multiply_rows(const attention_job *j, dt_dtype t)
{
    const int64_t step = (int64_t)gridDim.x * (ATTENTION_THREADS / DTI_WARP);
    const int64_t warp =
        (int64_t)blockIdx.x * (ATTENTION_THREADS / DTI_WARP) + threadIdx.x / DTI_WARP;
    for (int64_t i = warp; i < j->n * j->heads * j->t; i += step) {
        const int64_t head = i / j->t, row = i % j->t;
        const int64_t at = (head / j->heads * j->t + row) * j->c + head % j->heads * j->d;
        double sum = 0;
        for (int64_t k = threadIdx.x % DTI_WARP; k < j->d; k += DTI_WARP)
            sum += (double)(dti_load(j->dy, at + k, t) * dti_load(j->y, at + k, t));
        sum = dti_warp_sum(sum);
        if (threadIdx.x % DTI_WARP == 0)
            j->delta[i] = (float)sum;
    }
}

/* Probabilities of the block's queries for a tile of keys: computed again, or as forward kept them.
 */
DT_DEVICE void probabilities(const attention_job *j, const place *p, const tile *q, const tile *k,
    float (*s)[4], int64_t key, int keys, int d, dt_dtype t)
{
    clear(s, keys / 8);
    if (j->prob == NULL) {
        product(s, q, k, d, keys / 8, t);
        soften_again(j, p, s, key, keys);
        return;
    }
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float *from =
            prob_at(j, p, p->first + my_row() + i / 2 * 8, key + n * 8 + my_column() + i % 2);
        if (from != NULL)
            s[n][i] = *from;
    }
}

DT_DEVICE void backward_queries(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *next = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&next, ROWS, d, t), dy = take_tile(&next, ROWS, d, t);
    const tile k = take_tile(&next, keys, d, t), v = take_tile(&next, keys, d, t);
    const tile transposed = take_tile(&next, d, keys, t); /* k */
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), xdy = whole_of(j, &p, j->dy);
    const rows to = part_of(j, &p, j->to, 0);
    float dq[MOST_D / 8][4], delta[2];
    const float scale[2] = {j->scale, j->scale};
    clear(dq, d / 8);
    load_tile(j, &xq, p.first, ROWS, d, &q, NULL, t);
    load_tile(j, &xdy, p.first, ROWS, d, &dy, NULL, t);
    for (int i = 0; i < 2; i++) {
        const int64_t row = p.first + my_row() + i * 8;
        delta[i] = row < j->t ? j->delta[p.row0 + row] : 0;
    }
    for (int64_t key = 0; key < keys_end(j, &p); key += keys) {
        float s[MOST_KEYS / 8][4], ds[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xk, key, keys, d, &k, &transposed, t);
        load_tile(j, &xv, key, keys, d, &v, NULL, t);
        __syncthreads();
        probabilities(j, &p, &q, &k, s, key, keys, d, t);
        clear(ds, keys / 8);
        product(ds, &dy, &v, d, keys / 8, t);
        DT_UNROLL(8)
        for (int n = 0; n < keys / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            ds[n][i] = s[n][i] * (ds[n][i] - delta[i / 2]);
        product_of(dq, ds, &transposed, keys, d / 8, t);
    }
    __syncthreads();
    keep(&q, dq, scale, d / 8, t);
    __syncthreads();
    store_tile(j, &q, p.first, d, &to, j->to, t);
}

/* The same with keys as rows: s is transposed. @lse in units of log 2, infinite behind the last
 * query.
 */
DT_DEVICE void transposed_probabilities(const attention_job *j, const place *p, const tile *k,
    const tile *q, float (*s)[4], int64_t query, const float *lse, int queries, int d, dt_dtype t)
{
    clear(s, queries / 8);
    if (j->prob == NULL)
        product(s, k, q, d, queries / 8, t);
    DT_UNROLL(8)
    for (int n = 0; n < queries / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const int64_t key = p->first + my_row() + i / 2 * 8;
        const int column = n * 8 + my_column() + i % 2;
        if (j->prob != NULL) {
            const float *from = prob_at(j, p, query + column, key);
            s[n][i] = from != NULL ? *from : 0;
        } else {
            s[n][i] = sees(j, query + column, key)
                          ? exp2f(s[n][i] * (j->scale * 1.44269504089f) - lse[column])
                          : 0;
        }
    }
}

/* Sums of a tile of queries. */
DT_DEVICE void load_sums(
    const attention_job *j, const place *p, int64_t query, int queries, float *lse, float *delta)
{
    for (int i = (int)threadIdx.x; i < queries; i += ATTENTION_THREADS) {
        const bool there = query + i < j->t;
        const int64_t at = p->row0 + query + i;
        delta[i] = there ? j->delta[at] : 0;
        lse[i] = !there ? INFINITY : j->lse != NULL ? j->lse[at] * 1.44269504089f : 0;
    }
}

DT_DEVICE void backward_keys(const attention_job *j, dt_dtype t, int d, int queries)
{
    DT_SHARED(shared);
    unsigned char *next = shared;
    const place p = place_of(j, false);
    const tile k = take_tile(&next, ROWS, d, t), v = take_tile(&next, ROWS, d, t);
    const tile q = take_tile(&next, queries, d, t), dy = take_tile(&next, queries, d, t);
    const tile qt = take_tile(&next, d, queries, t), dyt = take_tile(&next, d, queries, t);
    float *lse = (float *)(void *)next, *delta = lse + MOST_KEYS;
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), xdy = whole_of(j, &p, j->dy);
    const rows to_k = part_of(j, &p, j->to, 1), to_v = part_of(j, &p, j->to, 2);
    float dk[MOST_D / 8][4], dv[MOST_D / 8][4];
    const float scale[2] = {j->scale, j->scale}, one[2] = {1, 1};
    clear(dk, d / 8);
    clear(dv, d / 8);
    load_tile(j, &xk, p.first, ROWS, d, &k, NULL, t);
    load_tile(j, &xv, p.first, ROWS, d, &v, NULL, t);
    for (int64_t query = j->causal ? p.first : 0; query < j->t; query += queries) {
        float s[MOST_KEYS / 8][4], ds[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xq, query, queries, d, &q, &qt, t);
        load_tile(j, &xdy, query, queries, d, &dy, &dyt, t);
        load_sums(j, &p, query, queries, lse, delta);
        __syncthreads();
        transposed_probabilities(j, &p, &k, &q, s, query, lse, queries, d, t);
        product_of(dv, s, &dyt, queries, d / 8, t);
        clear(ds, queries / 8);
        product(ds, &v, &dy, d, queries / 8, t);
        DT_UNROLL(8)
        for (int n = 0; n < queries / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            ds[n][i] = s[n][i] * (ds[n][i] - delta[n * 8 + my_column() + i % 2]);
        product_of(dk, ds, &qt, queries, d / 8, t);
    }
    __syncthreads();
    keep(&k, dk, scale, d / 8, t);
    keep(&v, dv, one, d / 8, t);
    __syncthreads();
    store_tile(j, &k, p.first, d, &to_k, j->to, t);
    store_tile(j, &v, p.first, d, &to_v, j->to, t);
}

/* --- the kernels of each type and width of a head --- */

#define ATTENTION_KERNELS(name, type, d, keys)                                                     \
    DT_KERNEL(attend_##name, attention_job)                                                        \
    {                                                                                              \
        attend(&given, type, d, keys);                                                             \
    }                                                                                              \
    DT_KERNEL(write_prob_##name, attention_job)                                                    \
    {                                                                                              \
        write_prob(&given, type, d, keys);                                                         \
    }                                                                                              \
    DT_KERNEL(backward_queries_##name, attention_job)                                              \
    {                                                                                              \
        backward_queries(&given, type, d, keys);                                                   \
    }                                                                                              \
    DT_KERNEL(backward_keys_##name, attention_job)                                                 \
    {                                                                                              \
        backward_keys(&given, type, d, keys);                                                      \
    }

/* clang-format off */
#define ATTENTION_WIDTHS(with) \
    with(f32_32,   DT_F32,  32,  64) \
    with(f32_64,   DT_F32,  64,  32) \
    with(f32_128,  DT_F32,  128, 16) \
    with(f32_256,  DT_F32,  256, 16) \
    with(bf16_32,  DT_BF16, 32,  64) \
    with(bf16_64,  DT_BF16, 64,  64) \
    with(bf16_128, DT_BF16, 128, 32) \
    with(bf16_256, DT_BF16, 256, 16)
/* clang-format on */

ATTENTION_WIDTHS(ATTENTION_KERNELS)
DT_KERNELS(multiply_rows, attention_job)

typedef DT_KERNEL_TYPE(attention_kernel, attention_job);

/* @d: most channels of a head */
typedef struct attention_width {
    dt_dtype type;
    int d, keys;
    attention_kernel forward, prob, queries, keys_;
} attention_width;

#define ATTENTION_ROW(name, type, d, keys)                                                         \
    {type, d, keys, DT_KERNEL_POINTER(attend_##name), DT_KERNEL_POINTER(write_prob_##name),        \
        DT_KERNEL_POINTER(backward_queries_##name), DT_KERNEL_POINTER(backward_keys_##name)},
static const attention_width widths[] = {ATTENTION_WIDTHS(ATTENTION_ROW)};

/* Bytes of shared memory: tiles of 64 rows, tiles of keys and transposed ones, besides two numbers
 * a query. */
static size_t shared_bytes(const attention_width *w, int tall, int low, int transposed)
{
    const int values =
        (tall * ROWS + low * w->keys) * (w->d + PAD) + transposed * w->d * (w->keys + PAD);
    return (size_t)values * dt_dtype_bytes(w->type) + 2 * MOST_KEYS * sizeof(float);
}

static size_t forward_shared(const attention_width *w)
{
    return shared_bytes(w, 1, 1, 1);
}

static size_t queries_shared(const attention_width *w)
{
    return shared_bytes(w, 2, 2, 1);
}

static size_t keys_shared(const attention_width *w)
{
    return shared_bytes(w, 2, 2, 2);
}

static attention_job attention_job_of(const dt_call *c)
{
    const dt_attention *o = (const dt_attention *)c->node->opts;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    attention_job j;
    memset(&j, 0, sizeof j);
    j.n = c->n;
    j.t = x.h * x.w;
    j.c = x.c / 3;
    j.heads = o->heads;
    j.d = j.c / j.heads;
    j.tiles = dti_ceil_div(j.t, ROWS);
    j.causal = o->causal;
    j.scale = (float)(1 / sqrt((double)j.d));
    return j;
}

/* The narrowest that fits; NULL: a head is too wide. */
static const attention_width *width_of(const attention_job *j, dt_dtype t)
{
    for (size_t i = 0; i < DT_COUNT(widths); i++)
        if (widths[i].type == t && j->d <= widths[i].d)
            return &widths[i];
    return NULL;
}

static bool is_naive(const dt_call *c)
{
    return ((const dt_attention *)c->node->opts)->kind == DTI_ATTENTION_NAIVE;
}

static dt_status attention_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const attention_job j = attention_job_of(c);
    memset(f, 0, sizeof *f);
    if (width_of(&j, c->dtype) == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': a head of %lld channels; the cuda device has kernels for up to %d: set "
            "heads higher, or device.kind = cpu",
            c->node->name, (long long)j.d, (int)MOST_D);
    if (j.n * j.heads * j.tiles > INT32_MAX)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': samples times heads times positions are too many for one launch; lower "
            "train.micro_batch",
            c->node->name);
    if (c->form == DT_BACKWARD || is_naive(c))
        f->work_bytes = (size_t)(j.n * j.heads * j.t) * sizeof(float);
    return DT_OK;
}

/* Kernels with more shared memory than usual have to be told so once. */
static dt_status allow_shared(const attention_width *w, dt_err *err)
{
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->forward, forward_shared(w)));
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->prob, forward_shared(w)));
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->queries, queries_shared(w)));
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->keys_, keys_shared(w)));
    return DT_OK;
}

static dt_status attention_create(const dt_call *c, void **state, dt_err *err)
{
    const attention_job j = attention_job_of(c);
    const attention_width *w = width_of(&j, c->dtype);
    *state = NULL;
    DT_ASSERT(w != NULL);
    DT_TRY(err, allow_shared(w, err),
        "layer '%s': a head of %lld channels in %s takes %zu bytes of shared memory, which the "
        "card "
        "does not have: set heads higher, or run in bf16",
        c->node->name, (long long)j.d, dt_dtype_name(c->dtype), keys_shared(w));
    return DT_OK;
}

static dt_status attention_forward(
    const dt_call *c, const dt_args *a, attention_job *j, const attention_width *w, dt_err *err)
{
    const unsigned blocks = (unsigned)(j->n * j->heads * j->tiles);
    const bool naive = is_naive(c);
    j->to = a->port[DT_Y];
    j->lse = (float *)a->port[naive ? DT_WORK : DT_S];
    j->wide = j->wide && dti_wide(j->to);
    DT_LAUNCH_POINTER(w->forward, blocks, ATTENTION_THREADS, forward_shared(w), a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention forward", err));
    j->prob = naive ? (float *)a->port[DT_S] : NULL;
    if (j->prob == NULL)
        return DT_OK;
    DT_LAUNCH_POINTER(w->prob, blocks, ATTENTION_THREADS, forward_shared(w), a->queue, *j);
    return dt_cuda_launched("attention forward, probabilities", err);
}

static dt_status attention_backward(
    const dt_call *c, const dt_args *a, attention_job *j, const attention_width *w, dt_err *err)
{
    const unsigned blocks = (unsigned)(j->n * j->heads * j->tiles);
    float *saved = (float *)a->port[DT_S];
    j->y = a->port[DT_Y];
    j->dy = a->port[DT_DY];
    j->to = a->port[DT_DX];
    j->delta = (float *)a->port[DT_WORK];
    j->lse = is_naive(c) ? NULL : saved;
    j->prob = is_naive(c) ? saved : NULL;
    j->wide = j->wide && dti_wide(j->dy) && dti_wide(j->to);
    const dti_grid grid = {dti_blocks(j->n * j->heads * j->t, ATTENTION_THREADS / DTI_WARP), 1};
    if (c->dtype == DT_BF16)
        DT_LAUNCH(multiply_rows_bf16, grid, ATTENTION_THREADS, a->queue, *j);
    else
        DT_LAUNCH(multiply_rows_f32, grid, ATTENTION_THREADS, a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention backward, dy y", err));
    DT_LAUNCH_POINTER(w->queries, blocks, ATTENTION_THREADS, queries_shared(w), a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention backward, queries", err));
    DT_LAUNCH_POINTER(w->keys_, blocks, ATTENTION_THREADS, keys_shared(w), a->queue, *j);
    return dt_cuda_launched("attention backward, keys", err);
}

static dt_status attention_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    attention_job j = attention_job_of(c);
    const attention_width *w = width_of(&j, c->dtype);
    (void)state;
    DT_ASSERT(w != NULL && a->n == c->n);
    j.x = a->port[DT_X];
    j.wide = dti_wide(j.x) && j.d % DTI_FEW == 0;
    return c->form == DT_BACKWARD ? attention_backward(c, a, &j, w, err)
                                  : attention_forward(c, a, &j, w, err);
}

DT_CUDA_TABLE(attention, attention_facts, attention_create, attention_run, NULL);
