/* What losses on the card share. */
#ifndef DT_LAYERS_CUDA_LOSS_CUH
#define DT_LAYERS_CUDA_LOSS_CUH

#include "engine/label.h"
#include "layers/cuda/cuda_kernel.cuh"

/* Of rows of scores whose label counts: whole numbers in double precision, exact to 2^53. */
typedef struct loss_sums {
    double loss, top1, top5, nonfinite, rows;
} loss_sums;

/* One block: what its threads have found out about all rows, added to the metrics, or in their
 * place. */
DT_DEVICE void dti_loss_tell(loss_sums s, bool accumulate, dt_metrics *m, double *shared)
{
    s.loss = dti_block_sum(s.loss, shared);
    s.top1 = dti_block_sum(s.top1, shared);
    s.top5 = dti_block_sum(s.top5, shared);
    s.nonfinite = dti_block_sum(s.nonfinite, shared);
    s.rows = dti_block_sum(s.rows, shared);
    if (threadIdx.x > 0)
        return;
    if (!accumulate)
        memset(m, 0, sizeof *m);
    m->loss_sum += s.loss;
    m->count += (int64_t)s.rows;
    m->top1 += (int64_t)s.top1;
    m->top5 += (int64_t)s.top5;
    m->nonfinite += (int64_t)s.nonfinite;
}

#endif
