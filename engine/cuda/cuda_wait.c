/* Waiting for a CUDA device, and what it is asked that has to be waited for. */
#include <cuda_runtime_api.h>

#include "engine/cuda/cuda.h"
#include "engine/cuda/cuda_parts.h"

/* What an unpacking kernel had to say. */
static dt_status undamaged(dti_cuda_device *d, dt_err *err)
{
    if (d->here->damaged == 0)
        return DT_OK;
    d->here->damaged = 0;
    return DT_FAIL(
        err, DT_E_DATA, "packed bytes are not what was packed; they were changed or cut since");
}

dt_status dti_cuda_finish_queue(void *self, int q, dt_err *err)
{
    dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaStreamSynchronize(d->stream[q]));
    return undamaged(d, err);
}

dt_status dti_cuda_finish(void *self, dt_err *err)
{
    dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    for (int q = 0; q < d->queues; q++)
        DT_CUDA_TRY(err, cudaStreamSynchronize(d->stream[q]));
    return undamaged(d, err);
}

dt_status dti_cuda_finish_event(void *self, int32_t event, dt_err *err)
{
    const dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaEventSynchronize(d->event[event]));
    return DT_OK;
}

dt_status dti_cuda_holds(
    void *self, const void *from, uint64_t bytes, int byte, bool *yes, dt_err *err)
{
    dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_finish(d, err));
    d->here->differs = 0;
    DT_CHECK(dti_cuda_launch_differs(
        dti_cuda_address(d, from), bytes, byte, d->there, d->stream[0], err));
    DT_CHECK(dti_cuda_finish_queue(d, 0, err));
    *yes = d->here->differs == 0;
    return DT_OK;
}

/* All are launched before the first is waited for. */
dt_status dti_cuda_squares(void *self, const dt_floats *of, size_t n, double *sum, dt_err *err)
{
    dti_cuda_device *d = self;
    DT_ASSERT(n <= DT_SQUARES);
    DT_CHECK(dti_cuda_finish(d, err));
    for (size_t i = 0; i < n; i++) {
        const dt_floats there = {dti_cuda_address(d, of[i].at), of[i].count};
        DT_CHECK(dti_cuda_launch_squares(&there, d->there->partial[i], d->stream[0], err));
    }
    DT_CHECK(dti_cuda_finish_queue(d, 0, err));
    for (size_t i = 0; i < n; i++) {
        sum[i] = 0;
        for (unsigned k = 0; k < dti_cuda_blocks(of[i].count); k++)
            sum[i] += d->here->partial[i][k];
    }
    return DT_OK;
}
