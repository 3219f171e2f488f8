/* The driver's own kernels: what a checked run and the norm of gradients ask of the device. */
#include "engine/cuda.cuh"

extern "C" {
#include "engine/cuda_parts.h"
}

enum { THREADS = DTI_CUDA_THREADS };

/* Each thread adds up its share and a block its threads, always in the same order. */
static __global__ void sum_squares(const float *__restrict__ from, int64_t count, double *partial)
{
    __shared__ double share[THREADS];
    double sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * THREADS) {
        const double v = (double)from[i];
        sum += v * v;
    }
    share[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            share[threadIdx.x] += share[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        partial[blockIdx.x] = share[0];
}

/* Bytes before and behind whole words are looked at by the first threads. */
static __global__ void find_others(
    const unsigned char *from, uint64_t bytes, unsigned byte, int *differs)
{
    const uint64_t before = (uintptr_t)from % 16 == 0 ? 0 : 16 - (uintptr_t)from % 16;
    const uint64_t head = before < bytes ? before : bytes;
    const uint64_t words = (bytes - head) / 16, tail = head + 16 * words;
    const uint4 *const word = (const uint4 *)(const void *)(from + head);
    const uint64_t first = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const unsigned same = byte * 0x01010101u;
    bool other = false;
    for (uint64_t i = first; i < words; i += (uint64_t)gridDim.x * THREADS) {
        const uint4 w = word[i];
        other = other || w.x != same || w.y != same || w.z != same || w.w != same;
    }
    if (first < head)
        other = other || from[first] != byte;
    if (first < bytes - tail)
        other = other || from[tail + first] != byte;
    if (other)
        *(volatile int *)differs = 1; /* whoever writes, writes this */
}

extern "C" dt_status dti_cuda_launch_squares(
    const dt_floats *of, double *partial, void *queue, dt_err *err)
{
    sum_squares<<<dti_cuda_blocks(of->count), THREADS, 0, (cudaStream_t)queue>>>(
        of->at, of->count, partial);
    return dt_cuda_launched("the sum of squares", err);
}

extern "C" dt_status dti_cuda_launch_differs(
    const void *from, uint64_t bytes, int byte, dti_cuda_answer *answer, void *queue, dt_err *err)
{
    find_others<<<DTI_CUDA_BLOCKS, THREADS, 0, (cudaStream_t)queue>>>(
        (const unsigned char *)from, bytes, (unsigned)byte & 0xFFu, &answer->differs);
    return dt_cuda_launched("the look at bytes", err);
}
