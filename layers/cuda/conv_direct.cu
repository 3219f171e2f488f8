/* Convolutions from their definition on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/cuda/conv_direct.h"
DT_C_HEADERS_END

typedef struct direct_job {
    dti_cudnn_problem p;
    dti_cudnn_bytes b;
    int64_t count;
} direct_job;

DT_KERNEL(direct, direct_job)
{
    const dti_cudnn_problem *p = &given.p;
    const dt_dtype t = dti_direct_type(p);
    for (int64_t i = dti_first(); i < given.count; i += dti_stride())
        if (p->direction == DTI_CUDNN_FORWARD)
            dti_store(given.b.y, i, t, dti_direct_y(p, given.b.x, given.b.weight, i));
        else if (p->direction == DTI_CUDNN_DATA)
            dti_store(given.b.x, i, t, dti_direct_dx(p, given.b.y, given.b.weight, i));
        else
            dti_store(given.b.weight, i, DT_F32, dti_direct_dw(p, given.b.x, given.b.y, i));
}

dt_status dti_conv_direct(
    const dti_cudnn_problem *p, void *queue, const dti_cudnn_bytes *bytes, dt_err *err)
{
    direct_job j;
    j.p = *p;
    j.b = *bytes;
    j.count = p->direction == DTI_CUDNN_FORWARD ? p->n * p->p * p->q * p->out
              : p->direction == DTI_CUDNN_DATA  ? p->n * p->h * p->w * p->c
                                                : dti_cudnn_weights(p);
    DT_LAUNCH(direct, dti_grid_of(j.count), DTI_THREADS, queue, j);
    return dt_cuda_launched("direct convolution", err);
}
