/* The driver's own kernels (cuda_kernels.cu): what a checked run and the norm of gradients ask of
 * the device. */
#ifndef DT_ENGINE_CUDA_CUDA_KERNELS_H
#define DT_ENGINE_CUDA_CUDA_KERNELS_H

#include "engine/driver.h"

/* What they leave for the host, in pinned memory that both reach.
 * @partial: sums of squares, by block: the host adds them up in their order */
enum { DTI_CUDA_BLOCKS = 512, DTI_CUDA_THREADS = 256 };
typedef struct dti_cuda_answer {
    double partial[DTI_SQUARES][DTI_CUDA_BLOCKS];
    int differs, damaged;
} dti_cuda_answer;

/* Blocks for so many floats, of each of which a sum is left, or words of 16 bytes. */
static inline unsigned dti_cuda_blocks(int64_t count)
{
    const int64_t each = 4 * DTI_CUDA_THREADS, n = (count + each - 1) / each;
    return n < 1 ? 1 : n < DTI_CUDA_BLOCKS ? (unsigned)n : (unsigned)DTI_CUDA_BLOCKS;
}

/* Launch; the answer is there when the queue has done them. @partial and @answer are the device's
 * addresses of it. */
dt_status dti_cuda_launch_squares(
    const dt_floats *of, double *partial, void *queue, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_launch_differs(const void *from, uint64_t bytes, int byte,
    dti_cuda_answer *answer, void *queue, dt_err *err) DT_NODISCARD;

#endif
