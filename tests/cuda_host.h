/* The words of CUDA for the processor, so that a test can include the sources of kernels as C and
 * run them without a card: blocks one after another, the threads of a block in turns that change
 * at barriers and where a warp exchanges values. Shared memory is static. A test that runs kernels
 * with threads in one order and in the other finds most missing barriers.
 *
 * A launch runs at once, and of CUDA's runtime there is what kernels' files call; with DT_CARD the
 * runtime is the model of tests/card, whose queues launches join. */
#ifndef DT_TESTS_CUDA_HOST_H
#define DT_TESTS_CUDA_HOST_H

#define DT_CUDA_HOST

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/kernels.h"

#ifdef DT_CARD
#include <cuda_runtime_api.h>
#undef __shared__
#else
typedef struct uint4 {
    uint32_t x, y, z, w;
} uint4;

typedef struct float4 {
    float x, y, z, w;
} float4;
#endif

typedef struct dt_host_index {
    unsigned x, y, z;
} dt_host_index;

/* Of the thread whose turn it is. */
extern dt_host_index dt_host_thread, dt_host_block, dt_host_threads, dt_host_blocks;
#define threadIdx dt_host_thread
#define blockIdx dt_host_block
#define blockDim dt_host_threads
#define gridDim dt_host_blocks

#define __shared__ static
#define DT_DEVICE static inline
#define DT_UNROLL(n)

void dt_host_barrier(void);
#define __syncthreads dt_host_barrier
double dt_host_shuffle_xor(double v, int lanes);
#define __shfl_xor_sync(mask, v, lanes) dt_host_shuffle_xor((v), (lanes))
unsigned dt_host_ballot(int yes);
#define __ballot_sync(mask, yes) dt_host_ballot(yes)

/* A wide access to bytes that do not begin at 16 is an error of the device. */
void dt_host_aligned(const void *p);
static inline uint4 dt_host_uint4(const void *p)
{
    uint4 v;
    dt_host_aligned(p);
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float4 dt_host_float4(const void *p)
{
    float4 v;
    dt_host_aligned(p);
    memcpy(&v, p, sizeof v);
    return v;
}

#define DT_READ16(p, type) dt_host_##type(p)
#define DT_WRITE16(p, type, v) (dt_host_aligned(p), (void)memcpy((p), &(v), sizeof(type)))

/* @shared: bytes of shared memory that the launch adds to the kernel's own */
typedef struct dt_host_job {
    void (*kernel)(const void *given);
    unsigned x, y, threads;
    size_t shared;
} dt_host_job;

/* Run the kernel for every thread; the last threads and blocks first if @backwards. */
extern bool dt_host_backwards;
extern unsigned long dt_host_launches; /* so far */
void dt_host_run(const dt_host_job *job, const void *given);

/* What a launch does: runs the job, or puts it and a copy of what it is given on a queue. */
void dt_host_launch(void *queue, const dt_host_job *job, const void *given, size_t bytes);

#define DT_KERNEL_OF(most, name, type)                                                             \
    static void name(const type given);                                                            \
    static void name##_thread(const void *given)                                                   \
    {                                                                                              \
        name(*(const type *)given);                                                                \
    }                                                                                              \
    static void name(const type given)
#define DT_HOST_LAUNCH(kernel, x, y, threads, shared, queue, given)                                \
    dt_host_launch((queue), &(const dt_host_job){(kernel), (x), (y), (threads), (shared)},         \
        &(given), sizeof(given))
#define DT_LAUNCH(kernel, grid, threads, queue, given)                                             \
    DT_HOST_LAUNCH(kernel##_thread, (grid).x, (grid).y, threads, 0, queue, given)

#ifdef DT_CARD
#define DT_CUDA_TABLE(name, facts, create, run, run_many)                                          \
    const dt_kernels dt_##name##_cuda = {facts, create, NULL, run, NULL, NULL, NULL, run_many, NULL}
#define DT_CUDA_CODEC(name)                                                                        \
    extern const dt_cuda_codec dt_cuda_codec_##name;                                               \
    const dt_cuda_codec dt_cuda_codec_##name
#else
#define DT_CUDA_TABLE(name, facts, create, run, run_many)                                          \
    static const dt_kernels dt_##name##_host = {                                                   \
        facts, create, NULL, run, NULL, NULL, NULL, run_many, NULL}
#define DT_CUDA_CODEC(name) static const dt_cuda_codec dt_cuda_codec_##name

typedef void *cudaStream_t;
static inline int cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t queue)
{
    (void)queue;
    memset(to, byte, bytes);
    return 0;
}

static inline int cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, int kind, cudaStream_t queue)
{
    (void)queue, (void)kind;
    memcpy(to, from, bytes);
    return 0;
}

enum { cudaMemcpyDeviceToDevice = 3, cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

static inline int cudaFuncSetAttribute(const void *kernel, int name, int value)
{
    (void)kernel, (void)name, (void)value;
    return 0;
}

static inline dt_status dt_cuda_launched(const char *what, dt_err *err)
{
    (void)what, (void)err;
    return DT_OK;
}

static inline dt_status dt_cuda_status(int error, const char *call, dt_err *err)
{
    return error == 0 ? DT_OK : DT_FAIL(err, DT_E_DEVICE, "%s", call);
}
#endif

#endif
