/* Memory: the card's, and the host's that its copies and kernels reach. */
#include <cuda_runtime_api.h>
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/cuda_parts.h"

enum { ALIGNMENT = 256 };

/* Note memory of the host, under the address that the device has for it. */
static dt_status add_range(dti_cuda_device *d, dti_cuda_range r, dt_err *err)
{
    void *there = NULL;
    DT_CHECK(dt_cuda_status(
        (int)cudaHostGetDevicePointer(&there, r.host, 0), "cudaHostGetDevicePointer", err));
    r.there = there;
    if (!dt_grow((void **)&d->range, &d->cap_range, d->n_range, sizeof *d->range))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to note what the device reaches");
    d->range[d->n_range++] = r;
    return DT_OK;
}

void *dti_cuda_address(const dti_cuda_device *d, const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    for (size_t i = 0; i < d->n_range; i++) {
        const uintptr_t from = (uintptr_t)d->range[i].host;
        if (at >= from && at - from < d->range[i].bytes)
            return d->range[i].there + (at - from);
    }
    return (void *)at;
}

dt_status dti_cuda_pin(void *self, uint64_t bytes, void **base, dt_err *err)
{
    dti_cuda_device *d = self;
    *base = NULL;
    DT_CHECK(dti_cuda_enter(err));
    const size_t room = bytes > 0 ? (size_t)bytes : 1;
    DT_TRY(err,
        dt_cuda_status((int)cudaHostAlloc(base, room, cudaHostAllocPortable | cudaHostAllocMapped),
            "cudaHostAlloc", err),
        "%" PRIu64 " bytes of the host's memory that stay in place: lower memory.host_budget or "
        "train.batch",
        bytes);
    const dt_status st =
        add_range(d, (dti_cuda_range){.host = *base, .bytes = room, .pinned = true}, err);
    if (st != DT_OK) {
        (void)cudaFreeHost(*base);
        *base = NULL;
    }
    return st;
}

void dti_cuda_unpin(void *self, void *base)
{
    dti_cuda_device *d = self;
    for (size_t i = 0; base != NULL && i < d->n_range; i++)
        if (d->range[i].host == base && d->range[i].pinned) {
            d->range[i] = d->range[--d->n_range];
            (void)cudaFreeHost(base);
            return;
        }
}

dt_status dti_cuda_reach(void *self, const void *base, uint64_t bytes, dt_err *err)
{
    dti_cuda_device *d = self;
    void *const host = (void *)(uintptr_t)base;
    DT_CHECK(dti_cuda_enter(err));
    if (bytes == 0)
        return DT_OK;
    const cudaError_t e =
        cudaHostRegister(host, (size_t)bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (e == cudaErrorHostMemoryAlreadyRegistered)
        (void)cudaGetLastError();
    else
        DT_TRY(err, dt_cuda_status((int)e, "cudaHostRegister", err),
            "%" PRIu64 " bytes of the host's memory must stay in place: lower memory.host_budget, "
            "or raise the limit on locked memory (ulimit -l)",
            bytes);
    const dt_status st = add_range(
        d, (dti_cuda_range){.host = host, .bytes = bytes, .registered = e == cudaSuccess}, err);
    if (st != DT_OK && e == cudaSuccess)
        (void)cudaHostUnregister(host);
    return st;
}

dt_status dti_cuda_reserve(void *self, uint64_t bytes, void **base, dt_err *err)
{
    size_t free = 0, all = 0;
    (void)self;
    *base = NULL;
    DT_CHECK(dti_cuda_enter(err));
    DT_CUDA_TRY(err, cudaMemGetInfo(&free, &all));
    DT_TRY(err,
        dt_cuda_status((int)cudaMalloc(base, bytes > 0 ? (size_t)bytes : 1), "cudaMalloc", err),
        "the run needs %.2f GiB of the card, of whose %.2f GiB %.2f are free and %.2f taken, by "
        "this process and others; end those, lower train.batch or train.micro_batch, or set "
        "memory.device_budget to be told what fits",
        (double)bytes / 0x1p30, (double)all / 0x1p30, (double)free / 0x1p30,
        (double)(all - free) / 0x1p30);
    DT_ASSERT((uintptr_t)*base % ALIGNMENT == 0);
    return DT_OK;
}

void dti_cuda_release(void *self, void *base)
{
    (void)self;
    (void)cudaFree(base);
}
