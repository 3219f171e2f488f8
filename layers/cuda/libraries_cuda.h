/* NVIDIA's libraries as one session has them: what dt_context.libraries is for a CUDA device. */
#ifndef DT_LAYERS_CUDA_LIBRARIES_CUDA_H
#define DT_LAYERS_CUDA_LIBRARIES_CUDA_H

#include "engine/context.h"
#include "layers/cublas/cublas_cuda.h"
#include "layers/cudnn/cudnn_cuda.h"

typedef struct dti_cuda_libraries {
    dti_cudnn *cudnn;
    dti_cublas *cublas;
} dti_cuda_libraries;

/* As in dt_device_module: what close takes is a dti_cuda_libraries. *out is NULL on failure. */
dt_status dt_cuda_libraries_open(void **out, const dt_card *card, dt_err *err) DT_NODISCARD;
void dt_cuda_libraries_close(void *libraries);

static inline dti_cudnn *dti_cuda_cudnn(const dt_call *c)
{
    return ((const dti_cuda_libraries *)c->context->libraries)->cudnn;
}

static inline dti_cublas *dti_cuda_cublas(const dt_call *c)
{
    return ((const dti_cuda_libraries *)c->context->libraries)->cublas;
}

#endif
