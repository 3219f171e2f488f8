/* Attention on the card: products of small matrices by a warp, tiles of positions, forward and
 * backward, and their launches. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "engine/card.h"
#include "engine/context.h"
#include "layers/sequence/attention.h"
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

/* Values i and i + 1 of fp32 in shared memory; i is even. */
DT_DEVICE dt_pair dti_pair_at(const void *v, int i)
{
    const uint2 u = ((const uint2 *)v)[i / 2];
    dt_pair p;
    p.w[0] = u.x;
    p.w[1] = u.y;
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

DT_DEVICE uint32_t dti_shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Four matrices of 8 x 8 values of bf16, or those transposed. Lanes 8 i to 8 i + 7 give the rows of
 * matrix i; f[i] is what a lane has of it, [lane / 4][2 (lane % 4)] and the next. */
DT_DEVICE void dti_load_matrices(dt_pair *f, const void *row, bool transposed)
{
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f[0].w[0]), "=r"(f[1].w[0]), "=r"(f[2].w[0]), "=r"(f[3].w[0])
                     : "r"(dti_shared_at(row)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f[0].w[0]), "=r"(f[1].w[0]), "=r"(f[2].w[0]), "=r"(f[3].w[0])
                     : "r"(dti_shared_at(row)));
}

/* Copies to shared memory, on their way until dti_arrive(): 16 bytes or one fp32, zeros if it is
 * not there. */
DT_DEVICE void dti_copy16(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(dti_shared_at(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

DT_DEVICE void dti_copy_float(float *to, const float *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(dti_shared_at(to)), "l"(from), "r"(there ? 4 : 0)
                 : "memory");
}

/* The block's copies are there, and its threads are done with what they read before. */
DT_DEVICE void dti_arrive(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

/* 0 where exp2f() takes care of what is smaller than normal numbers. */
DT_DEVICE float dti_exp2(float v)
{
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v));
    return e;
}

#define DT_KERNEL_POINTER(name) name
#define DT_KERNEL_TYPE(name, type) void (*name)(const type)
/* Kernels that are chosen from a table, with shared memory of the launch's size. */
#define DT_LAUNCH_POINTER(kernel, blocks, threads, bytes, queue, given)                            \
    (kernel)<<<(blocks), (threads), (bytes), (cudaStream_t)(queue)>>>(given)

#else

enum { DT_HOST_SHARED = 227 << 10 };
#define DT_SHARED(name) static _Alignas(16) unsigned char name[DT_HOST_SHARED]

static inline dt_pair dti_pair_at(const void *v, int i)
{
    dt_pair p;
    memcpy(p.w, (const float *)v + i, sizeof p.w);
    return p;
}

static inline void dti_pair_to(void *v, int i, dt_pair p, dt_dtype t)
{
    memcpy((char *)v + (size_t)i * dt_dtype_bytes(t), p.w, 2 * dt_dtype_bytes(t));
}

/* What each lane of a block brings to an instruction of its warp, and to the next, so that no lane
 * has to wait until the others have read. */
typedef struct dti_brought {
    uint32_t w[6];
} dti_brought;

static inline const dti_brought *dti_bring(const dti_brought *mine)
{
    static dti_brought all[2][1024];
    static unsigned times[1024];
    dti_brought *of = all[times[threadIdx.x]++ % 2];
    of[threadIdx.x] = *mine;
    (void)__ballot_sync(0xFFFFFFFFu, 1);
    return of + threadIdx.x / DTI_WARP * DTI_WARP;
}

/* Sums of a lane: row g or g + 8, column i or i + 1. */
static inline void dti_mma_tf32(
    float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1)
{
    const dti_brought mine = {{a0, a1, a2, a3, b0, b1}}, *f = dti_bring(&mine);
    const unsigned g = threadIdx.x % DTI_WARP / 4, column = threadIdx.x % 4 * 2;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 8; k++)
            c[i] += dti_float(f[g * 4 + k % 4].w[k / 4 * 2 + i / 2]) *
                    dti_float(f[(column + i % 2) * 4 + k % 4].w[4 + k / 4]);
}

static inline float dti_half(uint32_t pair, unsigned second)
{
    return second ? dti_high_bf16(pair) : dti_low_bf16(pair);
}

static inline void dti_mma_bf16(float *c, const dt_pair *a, const dt_pair *b)
{
    const dti_brought mine = {{a[0].w[0], a[1].w[0], a[2].w[0], a[3].w[0], b[0].w[0], b[1].w[0]}};
    const dti_brought *f = dti_bring(&mine);
    const unsigned g = threadIdx.x % DTI_WARP / 4, column = threadIdx.x % 4 * 2;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 16; k++)
            c[i] += dti_half(f[g * 4 + k % 8 / 2].w[k / 8 * 2 + i / 2], k % 2) *
                    dti_half(f[(column + i % 2) * 4 + k % 8 / 2].w[4 + k / 8], k % 2);
}

static inline void dti_load_matrices(dt_pair *f, const void *row, bool transposed)
{
    dti_brought mine = {{0}};
    dt_host_aligned(row);
    memcpy(mine.w, row, 16);
    const dti_brought *rows = dti_bring(&mine);
    const unsigned g = threadIdx.x % DTI_WARP / 4, pair = threadIdx.x % 4;
    for (unsigned i = 0; i < 4; i++, rows += 8) {
        const uint32_t low = rows[2 * pair].w[g / 2], high = rows[2 * pair + 1].w[g / 2];
        f[i].w[0] = rows[g].w[pair];
        if (transposed)
            f[i].w[0] = (low >> g % 2 * 16 & 0xFFFF) | high >> g % 2 * 16 << 16;
        f[i].w[1] = 0;
    }
}

/* What a thread has on its way. It lands as late as a card may let it. */
typedef struct dti_sent {
    void *to;
    const void *from;
    size_t bytes;
} dti_sent;
enum { DTI_MOST_SENT = 128 };
static dti_sent dti_all_sent[1024][DTI_MOST_SENT];
static unsigned dti_n_sent[1024];

static inline void dti_send(void *to, const void *from, size_t bytes)
{
    const unsigned n = dti_n_sent[threadIdx.x]++;
    DT_ASSERT(n < DTI_MOST_SENT);
    dti_all_sent[threadIdx.x][n] = (dti_sent){to, from, bytes};
}

static inline void dti_copy16(void *to, const void *from, bool there)
{
    dt_host_aligned(to);
    dt_host_aligned(there ? from : to);
    dti_send(to, there ? from : NULL, 16);
}

static inline void dti_copy_float(float *to, const float *from, bool there)
{
    dti_send(to, there ? from : NULL, sizeof *to);
}

static inline void dti_arrive(void)
{
    for (unsigned i = 0; i < dti_n_sent[threadIdx.x]; i++) {
        const dti_sent *c = &dti_all_sent[threadIdx.x][i];
        if (c->from != NULL)
            memcpy(c->to, c->from, c->bytes);
        else
            memset(c->to, 0, c->bytes);
    }
    dti_n_sent[threadIdx.x] = 0;
    __syncthreads();
}

#define dti_exp2 exp2f

#define DT_KERNEL_POINTER(name) &name##_host
#define DT_KERNEL_TYPE(name, type) const dt_host_kernel *name
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
/* What registers have room for: channels of the rows that stay, and columns of backward's scores.
 */
enum { MOST_HELD = 64, FEW_KEYS = 32 };

#define LOG2_E 1.44269504089f

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
    int n, t, c, d, heads, tiles;
    float scale;
    bool causal, wide;
} attention_job;

/* Which rows of which head a block has: those that have most to do begin first. */
typedef struct place {
    int sample, h, first;
    int row0; /* of [sample][head][t] */
} place;

DT_DEVICE place place_of(const attention_job *j, bool last_first)
{
    place p;
    const int i = (int)blockIdx.x, head = i / j->tiles, tile = i % j->tiles;
    p.sample = head / j->heads;
    p.h = head % j->heads;
    p.first = (last_first ? j->tiles - 1 - tile : tile) * ROWS;
    p.row0 = head * j->t;
    return p;
}

/* Rows of a head's channels in memory: a part of x or dx, or all of y or dy. */
typedef struct rows {
    const void *p;
    int64_t at;
    int row;
} rows;

DT_DEVICE rows part_of(const attention_job *j, const place *p, const void *x, int part)
{
    rows r;
    r.p = x;
    r.at = ((int64_t)p->sample * j->t * 3 + part) * j->c + p->h * j->d;
    r.row = 3 * j->c;
    return r;
}

DT_DEVICE rows whole_of(const attention_job *j, const place *p, const void *y)
{
    rows r;
    r.p = y;
    r.at = (int64_t)p->sample * j->t * j->c + p->h * j->d;
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

DT_DEVICE unsigned char *tile_at(const tile *a, int row, int column, dt_dtype t)
{
    return a->p + (row * a->row + column) * (int)dt_dtype_bytes(t);
}

/* As load_tile() where values are wide: a thread has the same channels of rows some way apart. */
DT_DEVICE void copy_tile(
    const attention_job *j, const rows *from, int first, int n, int d, const tile *to, dt_dtype t)
{
    const unsigned bytes = (unsigned)dt_dtype_bytes(t), groups = (unsigned)d * bytes / 16;
    const int row = (int)(threadIdx.x / groups), c = (int)(threadIdx.x % groups * (16 / bytes));
    DT_UNROLL(8)
    for (int r = row; r < row + n; r += ATTENTION_THREADS / (int)groups) {
        const int64_t at = from->at + (int64_t)(first + r) * from->row + c;
        dti_copy16(
            tile_at(to, r, c, t), (const char *)from->p + at * bytes, first + r < j->t && c < j->d);
    }
}

/* Positions [first, first + n) of @d channels into rows of @to, on their way until dti_arrive().
 * What is not there is 0. */
DT_DEVICE void load_tile(
    const attention_job *j, const rows *from, int first, int n, int d, const tile *to, dt_dtype t)
{
    if (j->wide) {
        copy_tile(j, from, first, n, d, to, t);
        return;
    }
    DT_UNROLL(1)
    for (int i = (int)threadIdx.x; i < n * d / DTI_FEW; i += ATTENTION_THREADS) {
        const int r = i / (d / DTI_FEW), c = i % (d / DTI_FEW) * DTI_FEW;
        const int few = first + r < j->t && c < j->d ? dti_few(c, j->d) : 0;
        float v[DTI_FEW];
        dti_take(from->p, from->at + (int64_t)(first + r) * from->row + c, few, false, t, v);
        dti_put(tile_at(to, r, c, t), 0, DTI_FEW, true, t, v);
    }
}

/* The block's rows back to memory. */
DT_DEVICE void store_tile(const attention_job *j, const tile *from, int first, int d,
    const rows *at, void *to, dt_dtype t)
{
    for (int i = (int)threadIdx.x; i < ROWS * d / DTI_FEW; i += ATTENTION_THREADS) {
        const int r = i / (d / DTI_FEW), c = i % (d / DTI_FEW) * DTI_FEW;
        float v[DTI_FEW];
        if (first + r >= j->t || c >= j->d)
            continue;
        dti_take(from->p, r * from->row + c, DTI_FEW, true, t, v);
        dti_put(to, at->at + (int64_t)(first + r) * at->row + c, dti_few(c, j->d), j->wide, t, v);
    }
}

/* Tiles of two kinds of rows at the same positions, of each kind two in turn: the next is on its
 * way while one is computed with. */
typedef struct stream {
    rows from[2];
    tile both[2];
} stream;

DT_DEVICE stream stream_of(
    const rows *a, const rows *b, unsigned char **next, int n, int d, dt_dtype t)
{
    stream s;
    s.from[0] = *a;
    s.from[1] = *b;
    s.both[0] = take_tile(next, 2 * n, d, t);
    s.both[1] = take_tile(next, 2 * n, d, t);
    return s;
}

/* Rows of the positions from @at on; n is a power of two. */
DT_DEVICE tile stream_at(const stream *s, int kind, int at, int n, dt_dtype t)
{
    tile a = s->both[kind];
    a.p = tile_at(&a, at & (2 * n - 1), 0, t);
    return a;
}

DT_DEVICE void stream_load(
    const attention_job *j, const stream *s, int first, int n, int d, dt_dtype t)
{
    DT_UNROLL(2)
    for (int kind = 0; kind < 2; kind++) {
        const tile to = stream_at(s, kind, first, n, t);
        load_tile(j, &s->from[kind], first, n, d, &to, t);
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

/* What 16 x 16 values of a tile become: dti_mma()'s a, or its b of 8 columns and of 8 more, which
 * lie as rows of the tile, or across them. */
typedef enum operand { LEFT, RIGHT_ROWS, RIGHT_ACROSS } operand;

DT_DEVICE void take_fragment(dt_pair *f, const tile *a, int row, int column, operand as, dt_dtype t)
{
    const int lane = (int)(threadIdx.x % DTI_WARP);
    DT_UNROLL(4)
    for (int k = 0; k < 4 && t == DT_F32; k++) {
        const int outer = (as == LEFT ? k % 2 : k / 2) * 8 + lane / 4;
        const int inner = (as == LEFT ? k / 2 : k % 2) * 8 + my_column();
        const int at = (row + inner) * a->row + column + outer;
        f[k] = as == RIGHT_ACROSS
                   ? dti_pair_of(dti_load(a->p, at, t), dti_load(a->p, at + a->row, t), t)
                   : dti_pair_at(a->p, (row + outer) * a->row + column + inner);
    }
    if (t == DT_BF16) {
        const int down = (as == RIGHT_ROWS ? lane / 16 : lane / 8 % 2) * 8 + lane % 8;
        const int across = (as == RIGHT_ROWS ? lane / 8 % 2 : lane / 16) * 8;
        dti_load_matrices(f, tile_at(a, row + down, column + across, t), as == RIGHT_ACROSS);
    }
}

/* sums += a b for 16 of the inner dimension, from @inner on. */
DT_DEVICE void multiply(
    float (*sums)[4], const dt_pair *a, const tile *b, int inner, operand as, int tiles, dt_dtype t)
{
    DT_UNROLL(16)
    for (int n = 0; n < tiles; n += 2) {
        dt_pair f[4];
        if (as == RIGHT_ROWS)
            take_fragment(f, b, n * 8, inner, as, t);
        else
            take_fragment(f, b, inner, n * 8, as, t);
        dti_mma(sums[n], a, f, t);
        dti_mma(sums[n + 1], a, f + 2, t);
    }
}

/* The warp's rows of a tile that stays, in registers if there is room. */
typedef struct left {
    const tile *from;
    dt_pair held[MOST_HELD / 16][4];
} left;

DT_DEVICE bool holds(int depth, dt_dtype t)
{
    return t == DT_BF16 && depth <= MOST_HELD;
}

DT_DEVICE void left_at(const left *a, dt_pair *f, int k, dt_dtype t)
{
    take_fragment(f, a->from, (int)(threadIdx.x / DTI_WARP * 16), k * 16, LEFT, t);
}

DT_DEVICE left left_of(const tile *from, int depth, dt_dtype t)
{
    left a;
    a.from = from;
    DT_UNROLL(4)
    for (int k = 0; k < depth / 16 && holds(depth, t); k++)
        left_at(&a, a.held[k], k, t);
    return a;
}

/* sums += a b, whose columns lie as rows. */
DT_DEVICE void product(
    float (*sums)[4], const left *a, const tile *b, int depth, int tiles, dt_dtype t)
{
    DT_UNROLL(4)
    for (int k = 0; k < depth / 16; k++) {
        dt_pair f[4];
        if (!holds(depth, t))
            left_at(a, f, k, t);
        multiply(sums, holds(depth, t) ? a->held[k] : f, b, k * 16, RIGHT_ROWS, tiles, t);
    }
}

/* sums += a b, where a is what such a product gave. */
DT_DEVICE void product_of(
    float (*sums)[4], float (*a)[4], const tile *b, int depth, int tiles, dt_dtype t)
{
    DT_UNROLL(4)
    for (int k = 0; k < depth / 16; k++) {
        dt_pair f[4];
        DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            f[i] = dti_pair_of(a[2 * k + i / 2][i % 2 * 2], a[2 * k + i / 2][i % 2 * 2 + 1], t);
        multiply(sums, f, b, k * 16, RIGHT_ACROSS, tiles, t);
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

/* Whether a query sees a key, and all before it. */
DT_DEVICE bool sees(const attention_job *j, int query, int key)
{
    return key < j->t && (!j->causal || key <= query);
}

/* Scores of the block's rows to minus infinity where a query does not see a key: at the end and on
 * the diagonal. The columns from @first on are keys, or queries if keys are rows. */
DT_DEVICE void mask(const attention_job *j, const place *p, float (*s)[4], int first, int columns,
    bool keys_are_rows)
{
    const int last_key = keys_are_rows ? p->first + ROWS - 1 : first + columns - 1;
    if (sees(j, keys_are_rows ? first : p->first, last_key))
        return;
    DT_UNROLL(8)
    for (int n = 0; n < columns / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const int row = p->first + my_row() + i / 2 * 8;
        const int column = first + n * 8 + my_column() + i % 2;
        if (!(keys_are_rows ? sees(j, column, row) : sees(j, row, column)))
            s[n][i] = -INFINITY;
    }
}

/* The numbers of a thread's two rows. */
DT_DEVICE void take_rows(const attention_job *j, const place *p, const float *from, float *two)
{
    DT_UNROLL(2)
    for (int i = 0; i < 2; i++) {
        const int row = p->first + my_row() + i * 8;
        two[i] = from != NULL && row < j->t ? from[p->row0 + row] : 0;
    }
}

/* Probabilities of the block's rows @a and columns @b, as those of mask(), from the logarithm of
 * each query's sum: @lse of a thread's two rows, or of the columns if keys are rows. */
DT_DEVICE void soften_again(const attention_job *j, const place *p, const left *a, const tile *b,
    float (*s)[4], const float *lse, int first, int columns, bool keys_are_rows, int d, dt_dtype t)
{
    clear(s, columns / 8);
    product(s, a, b, d, columns / 8, t);
    mask(j, p, s, first, columns, keys_are_rows);
    DT_UNROLL(8)
    for (int n = 0; n < columns / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float sum = lse[keys_are_rows ? n * 8 + my_column() + i % 2 : i / 2];
        s[n][i] = dti_exp2(s[n][i] * (j->scale * LOG2_E) - sum * LOG2_E);
    }
}

/* Probability of a key for a query, as forward kept it, or a place for it; NULL: outside. */
DT_DEVICE float *prob_at(const attention_job *j, const place *p, int query, int key)
{
    return query < j->t && key < j->t ? j->prob + (int64_t)(p->row0 + query) * j->t + key : NULL;
}

DT_DEVICE int keys_end(const attention_job *j, const place *p)
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
    for (int apart = 1; apart < 4; apart *= 2)
        v = fmaxf(v, (float)__shfl_xor_sync(0xFFFFFFFFu, v, apart));
    return v;
}

DT_DEVICE float row_sum(float v)
{
    DT_UNROLL(2)
    for (int apart = 1; apart < 4; apart *= 2)
        v += (float)__shfl_xor_sync(0xFFFFFFFFu, v, apart);
    return v;
}

/* Scores of one more tile to exponentials, of row i of two. What is there already shrinks. @scale:
 * to units of log 2. */
DT_DEVICE void soften(
    float (*s)[4], float (*o)[4], float *most, float *sum, float scale, int i, int keys, int d)
{
    float m = *most;
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(2)
    for (int k = 0; k < 2; k++)
        m = fmaxf(m, s[n][2 * i + k]);
    m = row_max(m);
    const float shrink = dti_exp2((*most - m) * scale);
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
        s[n][2 * i + k] = dti_exp2(s[n][2 * i + k] * scale - m * scale);
        *sum += s[n][2 * i + k];
    }
}

/* What rows i of two leave: the sum's logarithm, and the factor of y. */
DT_DEVICE float finish_row(const attention_job *j, const place *p, float most, float sum, int i)
{
    const int row = p->first + my_row() + i * 8;
    sum = row_sum(sum);
    if (j->lse != NULL && row < j->t && threadIdx.x % 4 == 0)
        j->lse[p->row0 + row] = most * j->scale + logf(sum);
    return 1 / sum;
}

DT_DEVICE void attend(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *next = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&next, ROWS, d, t);
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), to = whole_of(j, &p, j->to);
    const stream kv = stream_of(&xk, &xv, &next, keys, d, t);
    const int end = keys_end(j, &p);
    const float scale = j->scale * LOG2_E;
    float o[MOST_D / 8][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, over[2];
    clear(o, d / 8);
    load_tile(j, &xq, p.first, ROWS, d, &q, t);
    stream_load(j, &kv, 0, keys, d, t);
    dti_arrive();
    const left rows_q = left_of(&q, d, t);
    for (int key = 0; key < end; key += keys) {
        const tile k = stream_at(&kv, 0, key, keys, t), v = stream_at(&kv, 1, key, keys, t);
        float s[MOST_KEYS / 8][4];
        if (key + keys < end)
            stream_load(j, &kv, key + keys, keys, d, t);
        clear(s, keys / 8);
        product(s, &rows_q, &k, d, keys / 8, t);
        mask(j, &p, s, key, keys, false);
        soften(s, o, &most[0], &sum[0], scale, 0, keys, d);
        soften(s, o, &most[1], &sum[1], scale, 1, keys, d);
        product_of(o, s, &v, keys, d / 8, t);
        dti_arrive();
    }
    over[0] = finish_row(j, &p, most[0], sum[0], 0);
    over[1] = finish_row(j, &p, most[1], sum[1], 1);
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
    float lse[2];
    take_rows(j, &p, j->lse, lse);
    load_tile(j, &xq, p.first, ROWS, d, &q, t);
    dti_arrive();
    const left rows_q = left_of(&q, d, t);
    for (int key = 0; key < j->t; key += keys) {
        float s[MOST_KEYS / 8][4];
        load_tile(j, &xk, key, keys, d, &k, t);
        dti_arrive();
        soften_again(j, &p, &rows_q, &k, s, lse, key, keys, false, d, t);
        DT_UNROLL(8)
        for (int n = 0; n < keys / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            float *to =
                prob_at(j, &p, p.first + my_row() + i / 2 * 8, key + n * 8 + my_column() + i % 2);
            if (to != NULL)
                *to = s[n][i];
        }
        __syncthreads();
    }
}

/* --- backward ---
 * Backward of attention, twice over the scores: for dq rows are queries, for dk and dv they are
 * keys and the tiles are of queries, so that every block owns what it adds up. */

/* dy . y of each row of each head, which is the sum over keys of p times dp: eight lanes a row. */
DT_DEVICE void multiply_rows(const attention_job *j, dt_dtype t)
{
    const int all = j->n * j->heads * j->t, lane = (int)(threadIdx.x % DTI_WARP);
    for (int i = (int)(dti_first() / 8); i - lane / 8 < all; i += (int)(dti_stride() / 8)) {
        const int head = i / j->t, row = i % j->t;
        const int64_t at =
            ((int64_t)(head / j->heads) * j->t + row) * j->c + head % j->heads * j->d;
        double sum = 0;
        for (int c = lane % 8 * DTI_FEW; c < j->d && i < all; c += 8 * DTI_FEW) {
            float y[DTI_FEW], dy[DTI_FEW];
            dti_take(j->y, at + c, dti_few(c, j->d), j->wide, t, y);
            dti_take(j->dy, at + c, dti_few(c, j->d), j->wide, t, dy);
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                sum += (double)(dy[k] * y[k]);
        }
        for (int apart = 4; apart > 0; apart /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
        if (lane % 8 == 0 && i < all)
            j->delta[i] = (float)sum;
    }
}

/* Probabilities as forward kept them, for a tile from @other on: of keys, or of queries if keys are
 * rows. */
DT_DEVICE void read_prob(const attention_job *j, const place *p, float (*s)[4], int other,
    int columns, bool keys_are_rows)
{
    DT_UNROLL(8)
    for (int n = 0; n < columns / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const int row = p->first + my_row() + i / 2 * 8;
        const int column = other + n * 8 + my_column() + i % 2;
        const float *from = keys_are_rows ? prob_at(j, p, column, row) : prob_at(j, p, row, column);
        s[n][i] = from != NULL ? *from : 0;
    }
}

DT_DEVICE void backward_queries(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *next = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&next, ROWS, d, t), dy = take_tile(&next, ROWS, d, t);
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), xdy = whole_of(j, &p, j->dy);
    const rows to = part_of(j, &p, j->to, 0);
    const stream kv = stream_of(&xk, &xv, &next, keys, d, t);
    const int end = keys_end(j, &p), few = keys < FEW_KEYS ? keys : FEW_KEYS;
    float dq[MOST_D / 8][4], lse[2], delta[2];
    const float scale[2] = {j->scale, j->scale};
    clear(dq, d / 8);
    load_tile(j, &xq, p.first, ROWS, d, &q, t);
    load_tile(j, &xdy, p.first, ROWS, d, &dy, t);
    stream_load(j, &kv, 0, keys, d, t);
    take_rows(j, &p, j->lse, lse);
    take_rows(j, &p, j->delta, delta);
    dti_arrive();
    const left rows_q = left_of(&q, d, t), rows_dy = left_of(&dy, d, t);
    DT_UNROLL(1)
    for (int key = 0; key < end; key += few) {
        const tile k = stream_at(&kv, 0, key, keys, t), v = stream_at(&kv, 1, key, keys, t);
        float s[FEW_KEYS / 8][4], ds[FEW_KEYS / 8][4];
        if (key % keys == 0 && key + keys < end)
            stream_load(j, &kv, key + keys, keys, d, t);
        if (j->prob != NULL)
            read_prob(j, &p, s, key, few, false);
        else
            soften_again(j, &p, &rows_q, &k, s, lse, key, few, false, d, t);
        clear(ds, few / 8);
        product(ds, &rows_dy, &v, d, few / 8, t);
        DT_UNROLL(8)
        for (int n = 0; n < few / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            ds[n][i] = s[n][i] * (ds[n][i] - delta[i / 2]);
        product_of(dq, ds, &k, few, d / 8, t);
        if ((key + few) % keys == 0)
            dti_arrive();
    }
    dti_arrive();
    keep(&q, dq, scale, d / 8, t);
    __syncthreads();
    store_tile(j, &q, p.first, d, &to, j->to, t);
}

/* Numbers of a tile of queries, as stream_load() and stream_at(): logarithms, and delta behind all
 * of them. */
DT_DEVICE void load_sums(
    const attention_job *j, const place *p, float *sums, int query, int queries)
{
    float *to = sums + (query & (2 * queries - 1));
    const int i = (int)threadIdx.x, at = p->row0 + query + i;
    if (i < queries && j->lse != NULL)
        dti_copy_float(to + i, j->lse + at, query + i < j->t);
    if (i < queries)
        dti_copy_float(to + 2 * MOST_KEYS + i, j->delta + at, query + i < j->t);
}

/* The same with keys as rows: s is transposed. Queries that are not there are 0 and add nothing. */
DT_DEVICE void backward_keys(const attention_job *j, dt_dtype t, int d, int queries)
{
    DT_SHARED(shared);
    unsigned char *next = shared;
    const place p = place_of(j, false);
    const tile k = take_tile(&next, ROWS, d, t), v = take_tile(&next, ROWS, d, t);
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), xdy = whole_of(j, &p, j->dy);
    const rows to_k = part_of(j, &p, j->to, 1), to_v = part_of(j, &p, j->to, 2);
    const stream qdy = stream_of(&xq, &xdy, &next, queries, d, t);
    float *sums = (float *)(void *)next;
    const int first = j->causal ? p.first : 0, few = queries < FEW_KEYS ? queries : FEW_KEYS;
    float dk[MOST_D / 8][4], dv[MOST_D / 8][4];
    const float scale[2] = {j->scale, j->scale}, one[2] = {1, 1};
    clear(dk, d / 8);
    clear(dv, d / 8);
    load_tile(j, &xk, p.first, ROWS, d, &k, t);
    load_tile(j, &xv, p.first, ROWS, d, &v, t);
    stream_load(j, &qdy, first, queries, d, t);
    load_sums(j, &p, sums, first, queries);
    dti_arrive();
    const left rows_k = left_of(&k, d, t), rows_v = left_of(&v, d, t);
    DT_UNROLL(1)
    for (int query = first; query < j->t; query += few) {
        const tile q = stream_at(&qdy, 0, query, queries, t);
        const tile dy = stream_at(&qdy, 1, query, queries, t);
        const float *lse = sums + (query & (2 * queries - 1)), *delta = lse + 2 * MOST_KEYS;
        float s[FEW_KEYS / 8][4], ds[FEW_KEYS / 8][4];
        if (query % queries == 0 && query + queries < j->t) {
            stream_load(j, &qdy, query + queries, queries, d, t);
            load_sums(j, &p, sums, query + queries, queries);
        }
        if (j->prob != NULL)
            read_prob(j, &p, s, query, few, true);
        else
            soften_again(j, &p, &rows_k, &q, s, lse, query, few, true, d, t);
        product_of(dv, s, &dy, few, d / 8, t);
        clear(ds, few / 8);
        product(ds, &rows_v, &dy, d, few / 8, t);
        DT_UNROLL(8)
        for (int n = 0; n < few / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            ds[n][i] = s[n][i] * (ds[n][i] - delta[n * 8 + my_column() + i % 2]);
        product_of(dk, ds, &q, few, d / 8, t);
        if ((query + few) % queries == 0)
            dti_arrive();
    }
    dti_arrive();
    keep(&k, dk, scale, d / 8, t);
    keep(&v, dv, one, d / 8, t);
    __syncthreads();
    store_tile(j, &k, p.first, d, &to_k, j->to, t);
    store_tile(j, &v, p.first, d, &to_v, j->to, t);
}

/* --- the kernels of each type and width of a head --- */

/* @keys: positions in a tile that comes; @blocks: for so many on a multiprocessor at once there are
 * registers. */
#define ATTENTION_BOUNDS(blocks) ATTENTION_THREADS, blocks

#define ATTENTION_KERNELS(name, type, d, keys, blocks)                                             \
    DT_KERNEL_OF(ATTENTION_BOUNDS(blocks), attend_##name, attention_job)                           \
    {                                                                                              \
        attend(&given, type, d, keys);                                                             \
    }                                                                                              \
    DT_KERNEL_OF(ATTENTION_BOUNDS(blocks), write_prob_##name, attention_job)                       \
    {                                                                                              \
        write_prob(&given, type, d, keys);                                                         \
    }                                                                                              \
    DT_KERNEL_OF(ATTENTION_BOUNDS(blocks), backward_queries_##name, attention_job)                 \
    {                                                                                              \
        backward_queries(&given, type, d, keys);                                                   \
    }                                                                                              \
    DT_KERNEL_OF(ATTENTION_BOUNDS(blocks), backward_keys_##name, attention_job)                    \
    {                                                                                              \
        backward_keys(&given, type, d, keys);                                                      \
    }

/* clang-format off */
#define ATTENTION_WIDTHS(with) \
    with(f32_32,   DT_F32,  32,  64, 2) \
    with(f32_64,   DT_F32,  64,  32, 2) \
    with(f32_128,  DT_F32,  128, 16, 2) \
    with(f32_256,  DT_F32,  256, 16, 1) \
    with(bf16_32,  DT_BF16, 32,  64, 3) \
    with(bf16_64,  DT_BF16, 64,  64, 3) \
    with(bf16_128, DT_BF16, 128, 32, 2) \
    with(bf16_256, DT_BF16, 256, 16, 1)
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

#define ATTENTION_ROW(name, type, d, keys, blocks)                                                 \
    {type, d, keys, DT_KERNEL_POINTER(attend_##name), DT_KERNEL_POINTER(write_prob_##name),        \
        DT_KERNEL_POINTER(backward_queries_##name), DT_KERNEL_POINTER(backward_keys_##name)},
static const attention_width widths[] = {ATTENTION_WIDTHS(ATTENTION_ROW)};

/* Bytes of shared memory: tiles of 64 rows, tiles of keys, and numbers of queries. */
static size_t shared_bytes(const attention_width *w, int tall)
{
    const int values = (tall * ROWS + 4 * w->keys) * (w->d + PAD);
    return (size_t)values * dt_dtype_bytes(w->type) + 4 * MOST_KEYS * sizeof(float);
}

static size_t forward_shared(const attention_width *w)
{
    return shared_bytes(w, 1);
}

static size_t backward_shared(const attention_width *w)
{
    return shared_bytes(w, 2);
}

static attention_job attention_job_of(const dt_call *c)
{
    const dt_attention *o = (const dt_attention *)c->node->opts;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    attention_job j;
    memset(&j, 0, sizeof j);
    j.n = (int)c->n;
    j.t = (int)(x.h * x.w);
    j.c = (int)(x.c / 3);
    j.heads = (int)o->heads;
    j.d = j.c / j.heads;
    j.tiles = (j.t + ROWS - 1) / ROWS;
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

static size_t shared_of(const attention_width *w, dt_form_kind form)
{
    return form == DT_BACKWARD ? backward_shared(w) : forward_shared(w);
}

/* Whether a card by name has so much; of one that answers it shows when its kernels are made. */
static bool has_shared(const dt_call *c, size_t bytes)
{
    const dt_card *card = c->context != NULL ? c->context->card : NULL;
    return card == NULL || bytes <= (size_t)dt_card_limits_of(card)->shared;
}

/* What is smaller, if a head is too wide for a card. */
static const char *narrower(const dt_call *c)
{
    return c->dtype == DT_BF16 ? "set heads higher" : "set heads higher, or train.precision = bf16";
}

static bool is_naive(const dt_call *c)
{
    return ((const dt_attention *)c->node->opts)->kind == DTI_ATTENTION_NAIVE;
}

/* Whether kernels can count its values in 32 bits. */
static bool is_countable(const dt_call *c)
{
    const dt_attention *o = (const dt_attention *)c->node->opts;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    return x.c <= INT32_MAX && c->n * o->heads * x.h * x.w <= INT32_MAX / 2;
}

static dt_status attention_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    memset(f, 0, sizeof *f);
    if (!is_countable(c))
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': samples times heads times positions are too many for one launch; lower "
            "train.micro_batch",
            c->node->name);
    const attention_job j = attention_job_of(c);
    const attention_width *w = width_of(&j, c->dtype);
    if (w == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': a head of %d channels; the cuda device has kernels for up to %d: set "
            "heads higher, or device.kind = cpu",
            c->node->name, j.d, (int)MOST_D);
    if (!has_shared(c, shared_of(w, c->form)))
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': a head of %d channels in %s takes %zu bytes of shared memory, of which a "
            "block of '%s' has %d: %s",
            c->node->name, j.d, dt_dtype_name(c->dtype), shared_of(w, c->form),
            c->context->card->name, dt_card_limits_of(c->context->card)->shared, narrower(c));
    if (c->form == DT_BACKWARD || is_naive(c))
        f->work_bytes = (size_t)j.n * (size_t)j.heads * (size_t)j.t * sizeof(float);
    return DT_OK;
}

/* Kernels with more shared memory than usual have to be told so once: those that a form runs, as
 * backward's take twice as much as others and a card may not have that. */
static dt_status allow_shared(const attention_width *w, dt_form_kind form, dt_err *err)
{
    if (form == DT_BACKWARD) {
        DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->queries, backward_shared(w)));
        DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->keys_, backward_shared(w)));
    } else {
        DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->forward, forward_shared(w)));
        DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->prob, forward_shared(w)));
    }
    return DT_OK;
}

static dt_status attention_create(const dt_call *c, void **state, dt_err *err)
{
    const attention_job j = attention_job_of(c);
    const attention_width *w = width_of(&j, c->dtype);
    *state = NULL;
    DT_ASSERT(w != NULL);
    DT_TRY(err, allow_shared(w, c->form, err),
        "layer '%s': a head of %d channels in %s takes %zu bytes of shared memory, which the card "
        "does not have: %s",
        c->node->name, j.d, dt_dtype_name(c->dtype), shared_of(w, c->form), narrower(c));
    return DT_OK;
}

static dt_status attention_forward(
    const dt_call *c, const dt_args *a, attention_job *j, const attention_width *w, dt_err *err)
{
    const unsigned blocks = (unsigned)j->n * (unsigned)j->heads * (unsigned)j->tiles;
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
    const unsigned blocks = (unsigned)j->n * (unsigned)j->heads * (unsigned)j->tiles;
    float *saved = (float *)a->port[DT_S];
    j->y = a->port[DT_Y];
    j->dy = a->port[DT_DY];
    j->to = a->port[DT_DX];
    j->delta = (float *)a->port[DT_WORK];
    j->lse = is_naive(c) ? NULL : saved;
    j->prob = is_naive(c) ? saved : NULL;
    j->wide = j->wide && dti_wide(j->y) && dti_wide(j->dy) && dti_wide(j->to);
    const dti_grid grid = dti_grid_of((int64_t)j->n * j->heads * j->t * 8);
    DT_LAUNCH_OF(multiply_rows, c->dtype, grid, a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention backward, dy y", err));
    DT_LAUNCH_POINTER(w->queries, blocks, ATTENTION_THREADS, backward_shared(w), a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention backward, queries", err));
    DT_LAUNCH_POINTER(w->keys_, blocks, ATTENTION_THREADS, backward_shared(w), a->queue, *j);
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
