/* Stretches of work that are kept: a graph, made by capturing what is put on the queues. */
#include <cuda_runtime_api.h>

#include "engine/cuda/cuda.h"
#include "engine/cuda/cuda_parts.h"

dt_status dti_cuda_record(void *self, dt_err *err)
{
    dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_finish(d, err));
    DT_CUDA_TRY(err, cudaStreamBeginCapture(d->stream[0], cudaStreamCaptureModeThreadLocal));
    const dt_status st = dti_cuda_spread(d, err);
    if (st != DT_OK) {
        cudaGraph_t graph = NULL;
        (void)cudaStreamEndCapture(d->stream[0], &graph);
        (void)cudaGetLastError();
        if (graph != NULL)
            (void)cudaGraphDestroy(graph);
    }
    return st;
}

/* The capture is ended whatever happened in it. */
dt_status dti_cuda_recorded(void *self, void **kept, dt_err *err)
{
    const dti_cuda_device *d = self;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *kept = NULL;
    DT_CHECK(dti_cuda_enter(err));
    dt_status st = dti_cuda_gather(d, err);
    const cudaError_t e = cudaStreamEndCapture(d->stream[0], &graph);
    if (st == DT_OK)
        st = dt_cuda_status((int)e, "cudaStreamEndCapture", err);
    if (st == DT_OK)
        st =
            dt_cuda_status((int)cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate", err);
    if (st == DT_OK) /* so that no replay has to make room on the device */
        st = dt_cuda_status((int)cudaGraphUpload(exec, d->stream[0]), "cudaGraphUpload", err);
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    if (st == DT_OK)
        *kept = exec;
    else if (exec != NULL)
        (void)cudaGraphExecDestroy(exec);
    return st;
}

dt_status dti_cuda_replay(void *self, void *kept, dt_err *err)
{
    const dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaGraphLaunch(kept, d->stream[0]));
    return DT_OK;
}

void dti_cuda_forget(void *self, void *kept)
{
    (void)self;
    (void)cudaGraphExecDestroy(kept);
}
