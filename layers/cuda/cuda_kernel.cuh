/* What kernels of layers share. A body that serves both types of values takes the type as its last
 * parameter, a constant wherever it becomes part of a kernel.
 *
 * Threads work on groups of up to eight neighbouring values, which they hold in registers as fp32.
 * No atomic operation and no sum in an order that depends on anything but shapes. */
#ifndef DT_LAYERS_CUDA_CUDA_KERNEL_CUH
#define DT_LAYERS_CUDA_CUDA_KERNEL_CUH

#include "engine/cuda/cuda.cuh"

#ifndef DT_CUDA_HOST
#define DT_CUDA_TABLE(name, facts, create, run, run_many)                                          \
    extern "C" const dt_kernels dt_##name##_cuda = {                                               \
        facts, create, NULL, run, NULL, NULL, NULL, NULL, run_many, NULL, NULL}
#define DT_PRAGMA(text) _Pragma(#text)
#define DT_UNROLL(n) DT_PRAGMA(unroll n)
#endif

DT_C_HEADERS
#include "layers/cuda/cuda.h"
#include "layers/elementwise/curves.h"
#include "layers/value.h"
DT_C_HEADERS_END

enum { DTI_THREADS = 256, DTI_WARP = 32, DTI_FEW = 8, DTI_MOST_BLOCKS = 1 << 15 };

#define DT_KERNEL(name, type) DT_KERNEL_OF(DTI_THREADS, name, type)

/* A kernel for each type of values, and the launch of the one that fits. */
#define DT_KERNELS(name, type)                                                                     \
    DT_KERNEL(name##_f32, type)                                                                    \
    {                                                                                              \
        name(&given, DT_F32);                                                                      \
    }                                                                                              \
    DT_KERNEL(name##_bf16, type)                                                                   \
    {                                                                                              \
        name(&given, DT_BF16);                                                                     \
    }
#define DT_LAUNCH_OF(name, t, grid, queue, given)                                                  \
    do {                                                                                           \
        if ((t) == DT_BF16)                                                                        \
            DT_LAUNCH(name##_bf16, grid, DTI_THREADS, queue, given);                               \
        else                                                                                       \
            DT_LAUNCH(name##_f32, grid, DTI_THREADS, queue, given);                                \
    } while (0)

/* Blocks of a launch. What they have to do may be more: kernels go on with dti_stride(), and
 * samples or rows that y counts with gridDim.y. */
typedef struct dti_grid {
    unsigned x, y;
} dti_grid;

static inline unsigned dti_blocks(int64_t items, int64_t each)
{
    const int64_t n = dti_ceil_div(items, each);
    if (n > DTI_MOST_BLOCKS)
        return DTI_MOST_BLOCKS;
    return n < 1 ? 1 : (unsigned)n;
}

/* So many items, a thread each. */
static inline dti_grid dti_grid_of(int64_t items)
{
    const dti_grid g = {dti_blocks(items, DTI_THREADS), 1};
    return g;
}

/* Of x items, a thread each, of each of y others. */
static inline dti_grid dti_grid_2d(int64_t x, int64_t y)
{
    const dti_grid g = {dti_blocks(x, DTI_THREADS), dti_blocks(y, 1)};
    return g;
}

/* Whether every value that is a multiple of eight elements after @p begins at 16 bytes. */
DT_BOTH static inline bool dti_wide(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* Whether rows of so many values keep that. */
static inline bool dti_wide_rows(int64_t values, dt_dtype t)
{
    return (uint64_t)values * dt_dtype_bytes(t) % 16 == 0;
}

DT_DEVICE int64_t dti_first(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

DT_DEVICE int64_t dti_stride(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* How many of eight are left from @at on. */
DT_DEVICE int dti_few(int64_t at, int64_t end)
{
    return end - at < DTI_FEW ? (int)(end - at) : DTI_FEW;
}

/* Item i of samples times h times w times @groups. */
typedef struct dti_place {
    int64_t sample, row, col, group;
} dti_place;

DT_DEVICE dti_place dti_place_of(int64_t i, int64_t h, int64_t w, int64_t groups)
{
    dti_place p;
    const int64_t pixel = dti_quotient(i, groups), line = dti_quotient(pixel, w);
    p.group = i - pixel * groups;
    p.col = pixel - line * w;
    p.sample = dti_quotient(line, h);
    p.row = line - p.sample * h;
    return p;
}

DT_DEVICE float dti_low_bf16(uint32_t pair)
{
    return dti_float(pair << 16);
}

DT_DEVICE float dti_high_bf16(uint32_t pair)
{
    return dti_float(pair & 0xFFFF0000u);
}

/* The device rounds two at a time, to the same bits as dt_bf16_from_float() but for those of a NaN.
 */
DT_DEVICE uint32_t dti_bf16_pair(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (uint32_t)dt_bf16_from_float(low) | (uint32_t)dt_bf16_from_float(high) << 16;
#endif
}

/* Values [at, at + n) of @p, zeros behind them. @wide: that eight of them begin at 16 bytes. */
DT_DEVICE void dti_take(const void *p, int64_t at, int n, bool wide, dt_dtype t, float *v)
{
    if (wide && n == DTI_FEW && t == DT_BF16) {
        const uint4 u = DT_READ16((const dt_bf16 *)p + at, uint4);
        v[0] = dti_low_bf16(u.x), v[1] = dti_high_bf16(u.x);
        v[2] = dti_low_bf16(u.y), v[3] = dti_high_bf16(u.y);
        v[4] = dti_low_bf16(u.z), v[5] = dti_high_bf16(u.z);
        v[6] = dti_low_bf16(u.w), v[7] = dti_high_bf16(u.w);
    } else if (wide && n == DTI_FEW) {
        const float4 a = DT_READ16((const float *)p + at, float4);
        const float4 b = DT_READ16((const float *)p + at + 4, float4);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else {
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] = k < n ? dti_load(p, at + k, t) : 0.0f;
    }
}

DT_DEVICE void dti_put(void *p, int64_t at, int n, bool wide, dt_dtype t, const float *v)
{
    if (wide && n == DTI_FEW && t == DT_BF16) {
        uint4 u;
        u.x = dti_bf16_pair(v[0], v[1]), u.y = dti_bf16_pair(v[2], v[3]);
        u.z = dti_bf16_pair(v[4], v[5]), u.w = dti_bf16_pair(v[6], v[7]);
        DT_WRITE16((dt_bf16 *)p + at, uint4, u);
    } else if (wide && n == DTI_FEW) {
        float4 a, b;
        a.x = v[0], a.y = v[1], a.z = v[2], a.w = v[3];
        b.x = v[4], b.y = v[5], b.z = v[6], b.w = v[7];
        DT_WRITE16((float *)p + at, float4, a);
        DT_WRITE16((float *)p + at + 4, float4, b);
    } else {
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            if (k < n)
                dti_store(p, at + k, t, v[k]);
    }
}

/* Sums and maxima over the 32 threads of a warp, all of which call: each gets the same bits. */
DT_DEVICE double dti_warp_sum(double v)
{
    for (int apart = DTI_WARP / 2; apart > 0; apart /= 2)
        v += __shfl_xor_sync(0xFFFFFFFFu, v, apart);
    return v;
}

DT_DEVICE double dti_warp_max(double v)
{
    for (int apart = DTI_WARP / 2; apart > 0; apart /= 2) {
        const double other = __shfl_xor_sync(0xFFFFFFFFu, v, apart);
        v = other > v ? other : v;
    }
    return v;
}

/* The same over a block of up to DTI_THREADS, whole warps; @shared: a double for each warp, in
 * shared memory. */
DT_DEVICE double dti_block_sum(double v, double *shared)
{
    const int warps = (int)blockDim.x / DTI_WARP;
    v = dti_warp_sum(v);
    if (threadIdx.x % DTI_WARP == 0)
        shared[threadIdx.x / DTI_WARP] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < warps; i++)
        v += shared[i];
    __syncthreads();
    return v;
}

DT_DEVICE double dti_block_max(double v, double *shared)
{
    const int warps = (int)blockDim.x / DTI_WARP;
    v = dti_warp_max(v);
    if (threadIdx.x % DTI_WARP == 0)
        shared[threadIdx.x / DTI_WARP] = v;
    __syncthreads();
    v = shared[0];
    for (int i = 1; i < warps; i++)
        v = shared[i] > v ? shared[i] : v;
    __syncthreads();
    return v;
}

#endif
