/* What a .cu file includes before anything else of the engine's: CUDA's runtime, then headers of
 * ours that are C, with C's linkage. A file that needs more of them wraps those likewise.
 *
 * Kernels are written in the common subset of CUDA C++ and C and take one struct, so that the very
 * same sources also run on the processor, thread after thread, where a test gives the words below
 * another meaning (DT_CUDA_HOST). */
#ifndef DT_ENGINE_CUDA_CUDA_CUH
#define DT_ENGINE_CUDA_CUDA_CUH

#ifndef DT_CUDA_HOST
#include <cuda_runtime.h>
#define DT_C_HEADERS extern "C" {
#define DT_C_HEADERS_END }
#define DT_DEVICE static __device__ __forceinline__
#define DT_KERNEL_OF(most, name, type)                                                             \
    static __global__ void __launch_bounds__(most) name(const __grid_constant__ type given)
#define DT_LAUNCH(kernel, grid, threads, queue, given)                                             \
    kernel<<<dim3((grid).x, (grid).y), (threads), 0, (cudaStream_t)(queue)>>>(given)
#define DT_READ16(p, type) (*(const type *)(p))
#define DT_WRITE16(p, type, v) (*(type *)(p) = (v))
#else
#define DT_C_HEADERS
#define DT_C_HEADERS_END
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

DT_C_HEADERS
#include "engine/cuda/cuda.h"
#include "engine/graph.h"
#include "engine/kernels.h"
DT_C_HEADERS_END

#endif
