/* Opening and closing NVIDIA's libraries for a session. */
#include "layers/cuda/libraries_cuda.h"

#include "engine/base/alloc.h"

void dt_cuda_libraries_close(void *libraries)
{
    dti_cuda_libraries *l = libraries;
    if (l == NULL)
        return;
    dti_cudnn_close(l->cudnn);
    dti_cublas_close(l->cublas);
    dt_free(l);
}

dt_status dt_cuda_libraries_open(void **out, const dt_card *card, dt_err *err)
{
    *out = NULL;
    dti_cuda_libraries *l = dt_alloc(1, sizeof *l);
    if (l == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the card's libraries");
    dt_status st = dti_cudnn_open(&l->cudnn, card, err);
    if (st == DT_OK)
        st = dti_cublas_open(&l->cublas, card, err);
    if (st != DT_OK) {
        dt_cuda_libraries_close(l);
        return st;
    }
    *out = l;
    return DT_OK;
}
