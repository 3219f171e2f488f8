/* Inside the CUDA driver: kernels of its own. */
#ifndef DT_ENGINE_CUDA_PARTS_H
#define DT_ENGINE_CUDA_PARTS_H

#include "engine/error.h"

/* What a kernel leaves for the host, in pinned memory that both reach.
 * @partial: sums of squares, by block: the host adds them up in their order */
enum { DTI_CUDA_BLOCKS = 512, DTI_CUDA_THREADS = 256 };
typedef struct dti_cuda_answer {
    double partial[DTI_CUDA_BLOCKS];
    int differs, damaged;
} dti_cuda_answer;

/* Launch; the answer is there when the queue has done them. @answer is the device's address of it.
 */
dt_status dti_cuda_squares(const float *from, int64_t count, dti_cuda_answer *answer, void *queue,
    dt_err *err) DT_NODISCARD;
dt_status dti_cuda_differs(const void *from, uint64_t bytes, int byte, dti_cuda_answer *answer,
    void *queue, dt_err *err) DT_NODISCARD;

#endif
