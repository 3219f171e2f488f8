/* The driver of a CUDA device. */
#include "engine/cuda/cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn_graph.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/cuda/cuda_kernels.h"

enum { ALIGNMENT = 256 };

/* Memory of the host that the device reaches, and under which address it does.
 * @pinned: made by pin; @registered: by reach, unless it was before */
typedef struct cuda_range {
    char *host, *there;
    uint64_t bytes;
    bool pinned, registered;
} cuda_range;

typedef struct cuda_device {
    int queues;
    cudaStream_t *stream; /* by queue */
    cudaEvent_t *joint;   /* by queue, for join and record */
    int32_t n_event;
    size_t cap_event;
    cudaEvent_t *event;
    int32_t n_stamp;
    size_t cap_stamp;
    cudaEvent_t *stamp; /* these keep times, and nobody waits for them */
    size_t n_range, cap_range;
    cuda_range *range;
    dti_cuda_answer *here, *there; /* the same bytes: the host's address, the device's */
} cuda_device;

/* ---- memory: the card's, and the host's that its copies and kernels reach ---- */

/* Note memory of the host, under the address that the device has for it. */
static dt_status add_range(cuda_device *d, cuda_range r, dt_err *err)
{
    void *there = NULL;
    DT_CHECK(dti_cuda_status(
        (int)cudaHostGetDevicePointer(&there, r.host, 0), "cudaHostGetDevicePointer", err));
    r.there = there;
    if (!dt_grow(&d->range, &d->cap_range, d->n_range, sizeof *d->range))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to note what the device reaches");
    d->range[d->n_range++] = r;
    return DT_OK;
}

static void *cuda_address(const cuda_device *d, const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    for (size_t i = 0; i < d->n_range; i++) {
        const uintptr_t from = (uintptr_t)d->range[i].host;
        if (at >= from && at - from < d->range[i].bytes)
            return d->range[i].there + (at - from);
    }
    return (void *)at;
}

static dt_status cuda_pin(void *self, uint64_t bytes, void **base, dt_err *err)
{
    cuda_device *d = self;
    *base = NULL;
    DT_CHECK(dt_cuda_enter(err));
    const size_t room = bytes > 0 ? (size_t)bytes : 1;
    DT_TRY(err,
        dti_cuda_status((int)cudaHostAlloc(base, room, cudaHostAllocPortable | cudaHostAllocMapped),
            "cudaHostAlloc", err),
        "%" PRIu64 " bytes of the host's memory that stay in place: lower memory.host_budget or "
        "train.batch",
        bytes);
    const dt_status st =
        add_range(d, (cuda_range){.host = *base, .bytes = room, .pinned = true}, err);
    if (st != DT_OK) {
        (void)cudaFreeHost(*base);
        *base = NULL;
    }
    return st;
}

static void cuda_unpin(void *self, void *base)
{
    cuda_device *d = self;
    for (size_t i = 0; base != NULL && i < d->n_range; i++)
        if (d->range[i].host == base && d->range[i].pinned) {
            d->range[i] = d->range[--d->n_range];
            (void)cudaFreeHost(base);
            return;
        }
}

static dt_status cuda_reach(void *self, const void *base, uint64_t bytes, dt_err *err)
{
    cuda_device *d = self;
    void *const host = (void *)(uintptr_t)base;
    DT_CHECK(dt_cuda_enter(err));
    if (bytes == 0)
        return DT_OK;
    const cudaError_t e =
        cudaHostRegister(host, (size_t)bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (e == cudaErrorHostMemoryAlreadyRegistered)
        (void)cudaGetLastError();
    else
        DT_TRY(err, dti_cuda_status((int)e, "cudaHostRegister", err),
            "%" PRIu64 " bytes of the host's memory must stay in place: lower memory.host_budget, "
            "or raise the limit on locked memory (ulimit -l)",
            bytes);
    const dt_status st = add_range(
        d, (cuda_range){.host = host, .bytes = bytes, .registered = e == cudaSuccess}, err);
    if (st != DT_OK && e == cudaSuccess)
        (void)cudaHostUnregister(host);
    return st;
}

static dt_status cuda_reserve(void *self, uint64_t bytes, void **base, dt_err *err)
{
    size_t free = 0, all = 0;
    (void)self;
    *base = NULL;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaMemGetInfo(&free, &all));
    DT_TRY(err,
        dti_cuda_status((int)cudaMalloc(base, bytes > 0 ? (size_t)bytes : 1), "cudaMalloc", err),
        "the run needs %.2f GiB of the card, of whose %.2f GiB %.2f are free and %.2f taken, by "
        "this process and others; end those, lower train.batch or train.micro_batch, or set "
        "memory.device_budget to be told what fits",
        (double)bytes / 0x1p30, (double)all / 0x1p30, (double)free / 0x1p30,
        (double)(all - free) / 0x1p30);
    DT_ASSERT((uintptr_t)*base % ALIGNMENT == 0);
    return DT_OK;
}

static void cuda_release(void *self, void *base)
{
    (void)self;
    (void)cudaFree(base);
}

/* ---- what is put on queues: nothing here waits for it ---- */

static dt_status cuda_events(void *self, int32_t n, dt_err *err)
{
    cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    for (; d->n_event < n; d->n_event++) {
        if (!dt_grow(&d->event, &d->cap_event, (size_t)d->n_event, sizeof(cudaEvent_t)))
            return DT_FAIL(err, DT_E_NOMEM, "no memory for %" PRId32 " events", n);
        DT_CUDA_TRY(err, cudaEventCreateWithFlags(&d->event[d->n_event],
                             cudaEventDisableTiming | cudaEventBlockingSync));
    }
    return DT_OK;
}

static dt_status cuda_copy(
    void *self, int q, void *to, const void *from, uint64_t bytes, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    if (bytes > 0)
        DT_CUDA_TRY(err, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, d->stream[q]));
    return DT_OK;
}

static dt_status cuda_fill(void *self, int q, void *to, int byte, uint64_t bytes, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    if (bytes > 0)
        DT_CUDA_TRY(err, cudaMemsetAsync(to, byte, (size_t)bytes, d->stream[q]));
    return DT_OK;
}

static bool cuda_can_pack(const dt_codec *codec)
{
    return dt_cuda_codec_find(codec->name) != NULL;
}

static dt_status cuda_pack(void *self, int q, const dt_codec *codec, const void *from, size_t count,
    void *to, size_t bytes, int *overflow, dt_err *err)
{
    const cuda_device *d = self;
    const dt_cuda_codec *c = dt_cuda_codec_find(codec->name);
    DT_ASSERT(c != NULL);
    DT_CHECK(dt_cuda_enter(err));
    return c->encode(cuda_address(d, from), count, cuda_address(d, to), bytes,
        cuda_address(d, overflow), d->stream[q], err);
}

static dt_status cuda_unpack(void *self, int q, const dt_codec *codec, const void *from,
    size_t bytes, void *to, size_t count, dt_err *err)
{
    const cuda_device *d = self;
    const dt_cuda_codec *c = dt_cuda_codec_find(codec->name);
    DT_ASSERT(c != NULL);
    DT_CHECK(dt_cuda_enter(err));
    return c->decode(cuda_address(d, from), bytes, cuda_address(d, to), count, &d->there->damaged,
        d->stream[q], err);
}

static dt_status cuda_launch(void *self, dt_launch fn, void *arg, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    return fn(arg, d->stream[0], err);
}

static dt_status cuda_signal(void *self, int q, int32_t event, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaEventRecord(d->event[event], d->stream[q]));
    return DT_OK;
}

static dt_status cuda_wait(void *self, int q, int32_t event, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaStreamWaitEvent(d->stream[q], d->event[event], 0));
    return DT_OK;
}

/* Queue 0 waits for all others, or they for it. */
static dt_status cuda_gather(const cuda_device *d, dt_err *err)
{
    for (int q = 1; q < d->queues; q++) {
        DT_CUDA_TRY(err, cudaEventRecord(d->joint[q], d->stream[q]));
        DT_CUDA_TRY(err, cudaStreamWaitEvent(d->stream[0], d->joint[q], 0));
    }
    return DT_OK;
}

static dt_status cuda_spread(const cuda_device *d, dt_err *err)
{
    DT_CUDA_TRY(err, cudaEventRecord(d->joint[0], d->stream[0]));
    for (int q = 1; q < d->queues; q++)
        DT_CUDA_TRY(err, cudaStreamWaitEvent(d->stream[q], d->joint[0], 0));
    return DT_OK;
}

static dt_status cuda_join(void *self, dt_err *err)
{
    DT_CHECK(dt_cuda_enter(err));
    DT_CHECK(cuda_gather(self, err));
    return cuda_spread(self, err);
}

/* ---- waiting, and what is asked that has to be waited for ---- */

/* What an unpacking kernel had to say. */
static dt_status undamaged(cuda_device *d, dt_err *err)
{
    if (d->here->damaged == 0)
        return DT_OK;
    d->here->damaged = 0;
    return DT_FAIL(
        err, DT_E_DATA, "packed bytes are not what was packed; they were changed or cut since");
}

static dt_status cuda_finish_queue(void *self, int q, dt_err *err)
{
    cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaStreamSynchronize(d->stream[q]));
    return undamaged(d, err);
}

static dt_status cuda_finish(void *self, dt_err *err)
{
    cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    for (int q = 0; q < d->queues; q++)
        DT_CUDA_TRY(err, cudaStreamSynchronize(d->stream[q]));
    return undamaged(d, err);
}

static dt_status cuda_finish_event(void *self, int32_t event, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaEventSynchronize(d->event[event]));
    return DT_OK;
}

static dt_status cuda_holds(
    void *self, const void *from, uint64_t bytes, int byte, bool *yes, dt_err *err)
{
    cuda_device *d = self;
    DT_CHECK(cuda_finish(d, err));
    d->here->differs = 0;
    DT_CHECK(
        dti_cuda_launch_differs(cuda_address(d, from), bytes, byte, d->there, d->stream[0], err));
    DT_CHECK(cuda_finish_queue(d, 0, err));
    *yes = d->here->differs == 0;
    return DT_OK;
}

/* All are launched before the first is waited for. */
static dt_status cuda_squares(void *self, const dt_floats *of, size_t n, double *sum, dt_err *err)
{
    cuda_device *d = self;
    DT_ASSERT(n <= DTI_SQUARES);
    DT_CHECK(cuda_finish(d, err));
    for (size_t i = 0; i < n; i++) {
        const dt_floats there = {cuda_address(d, of[i].at), of[i].count};
        DT_CHECK(dti_cuda_launch_squares(&there, d->there->partial[i], d->stream[0], err));
    }
    DT_CHECK(cuda_finish_queue(d, 0, err));
    for (size_t i = 0; i < n; i++) {
        sum[i] = 0;
        for (unsigned k = 0; k < dti_cuda_blocks(of[i].count); k++)
            sum[i] += d->here->partial[i][k];
    }
    return DT_OK;
}

/* ---- work that is kept: a graph, made by capturing what is put on the queues ---- */

static dt_status cuda_record(void *self, dt_err *err)
{
    cuda_device *d = self;
    DT_CHECK(cuda_finish(d, err));
    DT_CUDA_TRY(err, cudaStreamBeginCapture(d->stream[0], cudaStreamCaptureModeThreadLocal));
    const dt_status st = cuda_spread(d, err);
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
static dt_status cuda_recorded(void *self, void **kept, dt_err *err)
{
    const cuda_device *d = self;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *kept = NULL;
    DT_CHECK(dt_cuda_enter(err));
    dt_status st = cuda_gather(d, err);
    const cudaError_t e = cudaStreamEndCapture(d->stream[0], &graph);
    if (st == DT_OK)
        st = dti_cuda_status((int)e, "cudaStreamEndCapture", err);
    if (st == DT_OK)
        st = dti_cuda_status(
            (int)cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate", err);
    if (st == DT_OK) /* so that no replay has to make room on the device */
        st = dti_cuda_status((int)cudaGraphUpload(exec, d->stream[0]), "cudaGraphUpload", err);
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    if (st == DT_OK)
        *kept = exec;
    else if (exec != NULL)
        (void)cudaGraphExecDestroy(exec);
    return st;
}

static dt_status cuda_replay(void *self, void *kept, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaGraphLaunch(kept, d->stream[0]));
    return DT_OK;
}

static void cuda_forget(void *self, void *kept)
{
    (void)self;
    (void)cudaGraphExecDestroy(kept);
}

/* ---- stamps: when work was done ---- */

static dt_status cuda_stamps(void *self, int32_t n, dt_err *err)
{
    cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    for (; d->n_stamp < n; d->n_stamp++) {
        if (!dt_grow(&d->stamp, &d->cap_stamp, (size_t)d->n_stamp, sizeof(cudaEvent_t)))
            return DT_FAIL(err, DT_E_NOMEM, "no memory for %" PRId32 " stamps", n);
        DT_CUDA_TRY(err, cudaEventCreateWithFlags(&d->stamp[d->n_stamp], cudaEventDefault));
    }
    return DT_OK;
}

static dt_status cuda_stamp(void *self, int q, int32_t i, dt_err *err)
{
    const cuda_device *d = self;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaEventRecord(d->stamp[i], d->stream[q]));
    return DT_OK;
}

static dt_status cuda_elapsed(void *self, int32_t from, int32_t to, double *seconds, dt_err *err)
{
    const cuda_device *d = self;
    float ms = 0;
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaEventElapsedTime(&ms, d->stamp[from], d->stamp[to]));
    *seconds = 1e-3 * (double)ms;
    return DT_OK;
}

/* ---- opening and closing ---- */

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

static dt_status make_queues(cuda_device *d, int queues, dt_err *err)
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
            return dti_cuda_status((int)e, "cudaEventCreateWithFlags", err);
        }
    }
    return DT_OK;
}

static void cuda_close(void *self)
{
    cuda_device *d = self;
    for (int q = 0; q < d->queues; q++)
        (void)cudaStreamSynchronize(d->stream[q]);
    for (int32_t i = 0; i < d->n_event; i++)
        (void)cudaEventDestroy(d->event[i]);
    for (int32_t i = 0; i < d->n_stamp; i++)
        (void)cudaEventDestroy(d->stamp[i]);
    for (int q = 0; q < d->queues; q++) {
        (void)cudaEventDestroy(d->joint[q]);
        (void)cudaStreamDestroy(d->stream[q]);
    }
    cuda_unpin(d, d->here);
    for (size_t i = 0; i < d->n_range; i++)
        if (d->range[i].registered)
            (void)cudaHostUnregister(d->range[i].host);
    (void)cudaGetLastError();
    dt_free(d->stream);
    dt_free(d->joint);
    dt_free(d->event);
    dt_free(d->stamp);
    dt_free(d->range);
    dt_free(d);
}

static dt_status set_up(cuda_device *d, int queues, dt_err *err)
{
    void *here;
    DT_CHECK(check_versions(err));
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaFree(NULL)); /* makes the context, or says why not */
    DT_CHECK(make_queues(d, queues, err));
    DT_CHECK(cuda_pin(d, sizeof *d->here, &here, err));
    d->here = here;
    d->there = cuda_address(d, here);
    memset(d->here, 0, sizeof *d->here);
    return DT_OK;
}

static dt_status cuda_open(int queues, void **self, dt_err *err)
{
    *self = NULL;
    if (!dt_cuda_answers(err))
        return DT_E_DEVICE;
    cuda_device *d = dt_alloc(1, sizeof *d);
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
    DT_CHECK(dt_cuda_enter(err));
    DT_CUDA_TRY(err, cudaGetDeviceProperties(&p, DTI_CUDA_CARD));
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

static int cuda_meant(void)
{
    int card = -1;
    if (cudaGetDevice(&card) == cudaSuccess)
        return card;
    (void)cudaGetLastError();
    return -1;
}

static void cuda_mean(int card)
{
    if (card >= 0 && cudaSetDevice(card) != cudaSuccess)
        (void)cudaGetLastError();
}

const dt_driver dt_cuda_driver = {
    .name = "cuda",
    .launch_costs = true,
    .open = cuda_open,
    .close = cuda_close,
    .facts = cuda_facts,
    .reserve = cuda_reserve,
    .release = cuda_release,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .reach = cuda_reach,
    .events = cuda_events,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .can_pack = cuda_can_pack,
    .pack = cuda_pack,
    .unpack = cuda_unpack,
    .launch = cuda_launch,
    .signal = cuda_signal,
    .wait = cuda_wait,
    .join = cuda_join,
    .finish = cuda_finish,
    .finish_queue = cuda_finish_queue,
    .finish_event = cuda_finish_event,
    .holds = cuda_holds,
    .squares = cuda_squares,
    .record = cuda_record,
    .recorded = cuda_recorded,
    .replay = cuda_replay,
    .forget = cuda_forget,
    .stamps = cuda_stamps,
    .stamp = cuda_stamp,
    .elapsed = cuda_elapsed,
    .meant = cuda_meant,
    .mean = cuda_mean,
};
