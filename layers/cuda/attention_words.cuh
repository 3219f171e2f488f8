/* What attention's kernels need of a card beyond cuda_kernel.cuh: products of small matrices by a
 * warp, words of shared memory, more of that than a kernel has by itself. For the processor there
 * are the same products of fragments, as PTX lays them out, so that a test sees a wrong index. */
#ifndef DT_LAYERS_CUDA_ATTENTION_WORDS_CUH
#define DT_LAYERS_CUDA_ATTENTION_WORDS_CUH

#include "layers/cuda/cuda_kernel.cuh"

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
    return of + threadIdx.x / DT_WARP * DT_WARP;
}

/* Sums of a lane: row g or g + 8, column i or i + 1. */
static inline void dti_mma_tf32(
    float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1)
{
    const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    const struct dti_fragment *f = dti_bring(a, b);
    const unsigned g = threadIdx.x % DT_WARP / 4, column = threadIdx.x % 4 * 2;
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
    const unsigned g = threadIdx.x % DT_WARP / 4, column = threadIdx.x % 4 * 2;
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

#endif
