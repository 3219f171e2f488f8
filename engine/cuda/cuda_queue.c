/* What is put on the queues of a CUDA device; nothing here waits for it. */
#include <cuda_runtime_api.h>
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/cuda_parts.h"

dt_status dti_cuda_events(void *self, int32_t n, dt_err *err)
{
    dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    for (; d->n_event < n; d->n_event++) {
        if (!dt_grow((void **)&d->event, &d->cap_event, (size_t)d->n_event, sizeof(cudaEvent_t)))
            return DT_FAIL(err, DT_E_NOMEM, "no memory for %" PRId32 " events", n);
        DT_CUDA_TRY(err, cudaEventCreateWithFlags(&d->event[d->n_event],
                             cudaEventDisableTiming | cudaEventBlockingSync));
    }
    return DT_OK;
}

dt_status dti_cuda_copy(void *self, int q, void *to, const void *from, uint64_t bytes, dt_err *err)
{
    const dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    if (bytes > 0)
        DT_CUDA_TRY(err, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, d->stream[q]));
    return DT_OK;
}

dt_status dti_cuda_fill(void *self, int q, void *to, int byte, uint64_t bytes, dt_err *err)
{
    const dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    if (bytes > 0)
        DT_CUDA_TRY(err, cudaMemsetAsync(to, byte, (size_t)bytes, d->stream[q]));
    return DT_OK;
}

bool dti_cuda_can_pack(const dt_codec *codec)
{
    return dt_cuda_codec_find(codec->name) != NULL;
}

dt_status dti_cuda_pack(void *self, int q, const dt_codec *codec, const void *from, size_t count,
    void *to, size_t bytes, int *overflow, dt_err *err)
{
    const dti_cuda_device *d = self;
    const dt_cuda_codec *c = dt_cuda_codec_find(codec->name);
    DT_ASSERT(c != NULL);
    DT_CHECK(dti_cuda_enter(err));
    return c->encode(dti_cuda_address(d, from), count, dti_cuda_address(d, to), bytes,
        dti_cuda_address(d, overflow), d->stream[q], err);
}

dt_status dti_cuda_unpack(void *self, int q, const dt_codec *codec, const void *from, size_t bytes,
    void *to, size_t count, dt_err *err)
{
    const dti_cuda_device *d = self;
    const dt_cuda_codec *c = dt_cuda_codec_find(codec->name);
    DT_ASSERT(c != NULL);
    DT_CHECK(dti_cuda_enter(err));
    return c->decode(dti_cuda_address(d, from), bytes, dti_cuda_address(d, to), count,
        &d->there->damaged, d->stream[q], err);
}

dt_status dti_cuda_launch(void *self, dt_launch fn, void *arg, dt_err *err)
{
    const dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    return fn(arg, d->stream[0], err);
}

dt_status dti_cuda_signal(void *self, int q, int32_t event, dt_err *err)
{
    const dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaEventRecord(d->event[event], d->stream[q]));
    return DT_OK;
}

dt_status dti_cuda_wait(void *self, int q, int32_t event, dt_err *err)
{
    const dti_cuda_device *d = self;
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaStreamWaitEvent(d->stream[q], d->event[event], 0));
    return DT_OK;
}

dt_status dti_cuda_gather(const dti_cuda_device *d, dt_err *err)
{
    for (int q = 1; q < d->queues; q++) {
        DT_CUDA_TRY(err, cudaEventRecord(d->joint[q], d->stream[q]));
        DT_CUDA_TRY(err, cudaStreamWaitEvent(d->stream[0], d->joint[q], 0));
    }
    return DT_OK;
}

dt_status dti_cuda_spread(const dti_cuda_device *d, dt_err *err)
{
    DT_CUDA_TRY(err, cudaEventRecord(d->joint[0], d->stream[0]));
    for (int q = 1; q < d->queues; q++)
        DT_CUDA_TRY(err, cudaStreamWaitEvent(d->stream[q], d->joint[0], 0));
    return DT_OK;
}

dt_status dti_cuda_join(void *self, dt_err *err)
{
    DT_CHECK(dti_cuda_enter(err));
    DT_CHECK(dti_cuda_gather(self, err));
    return dti_cuda_spread(self, err);
}
