/* The driver of a CUDA device: opened and closed here, where the library's versions are checked.
 * The card is CUDA's number 0: CUDA_VISIBLE_DEVICES says which that is. */
#include "engine/cuda/cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn_graph.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/cuda/cuda_parts.h"

enum { CARD = 0 };

dt_status dti_cuda_enter(dt_err *err)
{
    static _Thread_local bool in;
    if (!in)
        DT_CUDA_TRY(err, cudaSetDevice(CARD));
    in = true;
    return DT_OK;
}

/* Programs and libraries of different versions meet here (exit 8), not in the middle of a run. */
static dt_status check_versions(dt_err *err)
{
    const size_t dnn = cudnnGetVersion(), lt = cublasLtGetVersion();
    if (dnn / 10000 != CUDNN_MAJOR)
        return DT_FAIL(err, DT_E_DEVICE,
            "libcudnn is version %zu, and this program was built with cuDNN %d.%d: install cuDNN "
            "%d, or build it again",
            dnn, CUDNN_MAJOR, CUDNN_MINOR, CUDNN_MAJOR);
    if (lt / 10000 != CUBLAS_VER_MAJOR)
        return DT_FAIL(err, DT_E_DEVICE,
            "libcublasLt is version %zu, and this program was built with %d.%d: install the CUDA "
            "toolkit it was built with, or build it again",
            lt, CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR);
    return DT_OK;
}

static dt_status make_queues(dti_cuda_device *d, int queues, dt_err *err)
{
    d->stream = dt_alloc((size_t)queues, sizeof(cudaStream_t));
    d->joint = dt_alloc((size_t)queues, sizeof(cudaEvent_t));
    if (d->stream == NULL || d->joint == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the device's queues");
    for (; d->queues < queues; d->queues++) {
        const int q = d->queues;
        DT_CUDA_TRY(err, cudaStreamCreateWithFlags(&d->stream[q], cudaStreamNonBlocking));
        const cudaError_t e = cudaEventCreateWithFlags(&d->joint[q], cudaEventDisableTiming);
        if (e != cudaSuccess) {
            (void)cudaStreamDestroy(d->stream[q]);
            return dt_cuda_status((int)e, "cudaEventCreateWithFlags", err);
        }
    }
    return DT_OK;
}

static void cuda_close(void *self)
{
    dti_cuda_device *d = self;
    for (int q = 0; q < d->queues; q++)
        (void)cudaStreamSynchronize(d->stream[q]);
    for (int32_t i = 0; i < d->n_event; i++)
        (void)cudaEventDestroy(d->event[i]);
    for (int q = 0; q < d->queues; q++) {
        (void)cudaEventDestroy(d->joint[q]);
        (void)cudaStreamDestroy(d->stream[q]);
    }
    dti_cuda_unpin(d, d->here);
    for (size_t i = 0; i < d->n_range; i++)
        if (d->range[i].registered)
            (void)cudaHostUnregister(d->range[i].host);
    (void)cudaGetLastError();
    dt_free(d->stream);
    dt_free(d->joint);
    dt_free(d->event);
    dt_free(d->range);
    dt_free(d);
}

static dt_status set_up(dti_cuda_device *d, int queues, dt_err *err)
{
    void *here;
    DT_CHECK(check_versions(err));
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaFree(NULL)); /* makes the context, or says why not */
    DT_CHECK(make_queues(d, queues, err));
    DT_CHECK(dti_cuda_pin(d, sizeof *d->here, &here, err));
    d->here = here;
    d->there = dti_cuda_address(d, here);
    memset(d->here, 0, sizeof *d->here);
    return DT_OK;
}

static dt_status cuda_open(int queues, void **self, dt_err *err)
{
    *self = NULL;
    if (!dt_cuda_answers(err))
        return DT_E_DEVICE;
    dti_cuda_device *d = dt_alloc(1, sizeof *d);
    if (d == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a device");
    const dt_status st = set_up(d, queues, err);
    if (st != DT_OK) {
        cuda_close(d);
        return st;
    }
    *self = d;
    return DT_OK;
}

static dt_status cuda_facts(void *self, dt_driver_facts *f, dt_err *err)
{
    struct cudaDeviceProp p;
    size_t free = 0, all = 0;
    int driver = 0, runtime = 0;
    (void)self;
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaGetDeviceProperties(&p, CARD));
    DT_CUDA_TRY(err, cudaMemGetInfo(&free, &all));
    DT_CUDA_TRY(err, cudaDriverGetVersion(&driver));
    DT_CUDA_TRY(err, cudaRuntimeGetVersion(&runtime));
    const size_t dnn = cudnnGetVersion();
    *f = (dt_driver_facts){.bytes = all, .free = free};
    snprintf(f->about, sizeof f->about,
        "%.60s, compute capability %d.%d, driver %d.%d, CUDA %d.%d, cuDNN %zu.%zu.%zu", p.name,
        p.major, p.minor, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
        dnn / 10000, dnn / 100 % 100, dnn % 100);
    return DT_OK;
}

const dt_driver dt_cuda_driver = {
    .name = "cuda",
    .launch_costs = true,
    .open = cuda_open,
    .close = cuda_close,
    .facts = cuda_facts,
    .reserve = dti_cuda_reserve,
    .release = dti_cuda_release,
    .pin = dti_cuda_pin,
    .unpin = dti_cuda_unpin,
    .reach = dti_cuda_reach,
    .events = dti_cuda_events,
    .copy = dti_cuda_copy,
    .fill = dti_cuda_fill,
    .can_pack = dti_cuda_can_pack,
    .pack = dti_cuda_pack,
    .unpack = dti_cuda_unpack,
    .launch = dti_cuda_launch,
    .signal = dti_cuda_signal,
    .wait = dti_cuda_wait,
    .join = dti_cuda_join,
    .finish = dti_cuda_finish,
    .finish_queue = dti_cuda_finish_queue,
    .finish_event = dti_cuda_finish_event,
    .holds = dti_cuda_holds,
    .squares = dti_cuda_squares,
    .record = dti_cuda_record,
    .recorded = dti_cuda_recorded,
    .replay = dti_cuda_replay,
    .forget = dti_cuda_forget,
};
