/* Optimizers and the commit on the card, one tensor or many at a time. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/update/update.h"
DT_C_HEADERS_END

/* The optimizers, and the commits of running statistics: of as many tensors as a launch's table
 * holds. A network has hundreds, most of them small, and a launch for each would take longer than
 * the work. Tensors are cut into chunks, which are numbered from the first tensor's to the last's;
 * a block does every so many of them. Elements do not meet, so the cut changes no bit.
 *
 * The numbers of the step are read on the device: what is launched once runs in many steps. */
enum {
    UPDATE_TENSORS = 72,
    UPDATE_CHUNK = 4 * DTI_THREADS * DTI_FEW,
    UPDATE_BLOCKS = 1056 /* eight for each processor of a large card */
};

/* @from: the gradient, or what is committed
 * @m @v: momentum, or the first moment; the second
 * @first: number of its first chunk */
typedef struct update_tensor {
    float *w, *m, *v;
    const float *from;
    int64_t count;
    float rate;
    int32_t first;
    bool vector, wide;
} update_tensor;

typedef struct update_job {
    const dt_now *now;
    int32_t n, chunks;
    bool decoupled;
    update_tensor tensor[UPDATE_TENSORS];
} update_job;

/* What a kernel can be given on every card and driver. */
typedef char update_job_fits[sizeof(update_job) <= 4096 ? 1 : -1];

/* The last tensor that begins at this chunk or before it: one without elements has no chunk, and
 * begins where the next one does. */
DT_DEVICE update_tensor update_tensor_of(const update_job *j, int32_t chunk)
{
    int low = 0, high = j->n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (j->tensor[middle].first <= chunk)
            low = middle;
        else
            high = middle;
    }
    return j->tensor[low];
}

DT_DEVICE dti_span update_span_of(const update_tensor *t, int32_t chunk)
{
    return dti_span_of(t->count, UPDATE_CHUNK, chunk - t->first);
}

DT_DEVICE void sgd_few(const update_tensor *t, const dti_sgd *k, int64_t at, int n)
{
    float w[DTI_FEW], d[DTI_FEW], m[DTI_FEW];
    dti_take(t->w, at, n, t->wide, DT_F32, w);
    dti_take(t->from, at, n, t->wide, DT_F32, d);
    if (t->m == NULL) {
        DT_UNROLL(8)
        for (int i = 0; i < DTI_FEW; i++)
            dti_sgd_plain_at(k, d[i], &w[i]);
    } else {
        dti_take(t->m, at, n, t->wide, DT_F32, m);
        DT_UNROLL(8)
        for (int i = 0; i < DTI_FEW; i++)
            dti_sgd_at(k, d[i], &w[i], &m[i]);
        dti_put(t->m, at, n, t->wide, DT_F32, m);
    }
    dti_put(t->w, at, n, t->wide, DT_F32, w);
}

DT_KERNEL(update_sgd, update_job)
{
    const dt_hyper h = given.now->hyper;
    for (int32_t chunk = (int32_t)blockIdx.x; chunk < given.chunks; chunk += (int32_t)gridDim.x) {
        const update_tensor t = update_tensor_of(&given, chunk);
        const dti_span s = update_span_of(&t, chunk);
        const dti_sgd k = dti_sgd_of(&h, t.vector, t.rate);
        for (int64_t at = s.begin + threadIdx.x * DTI_FEW; at < s.end; at += DTI_THREADS * DTI_FEW)
            sgd_few(&t, &k, at, dti_few(at, s.end));
    }
}

DT_DEVICE void adam_few(const update_tensor *t, const dti_adam *k, int64_t at, int n)
{
    float w[DTI_FEW], d[DTI_FEW], m[DTI_FEW], v[DTI_FEW];
    dti_take(t->w, at, n, t->wide, DT_F32, w);
    dti_take(t->from, at, n, t->wide, DT_F32, d);
    dti_take(t->m, at, n, t->wide, DT_F32, m);
    dti_take(t->v, at, n, t->wide, DT_F32, v);
    DT_UNROLL(8)
    for (int i = 0; i < DTI_FEW; i++)
        dti_adam_at(k, d[i], &w[i], &m[i], &v[i]);
    dti_put(t->w, at, n, t->wide, DT_F32, w);
    dti_put(t->m, at, n, t->wide, DT_F32, m);
    dti_put(t->v, at, n, t->wide, DT_F32, v);
}

/* A thread of each block finds the numbers of the step. */
DT_KERNEL(update_adam, update_job)
{
    __shared__ dti_adam shared;
    const dt_hyper h = given.now->hyper;
    if (threadIdx.x == 0)
        shared = dti_adam_of(&h);
    __syncthreads();
    for (int32_t chunk = (int32_t)blockIdx.x; chunk < given.chunks; chunk += (int32_t)gridDim.x) {
        const update_tensor t = update_tensor_of(&given, chunk);
        const dti_span s = update_span_of(&t, chunk);
        const dti_adam k =
            dti_adam_for(shared, dti_gradient_of(&h, t.vector, t.rate), given.decoupled);
        for (int64_t at = s.begin + threadIdx.x * DTI_FEW; at < s.end; at += DTI_THREADS * DTI_FEW)
            adam_few(&t, &k, at, dti_few(at, s.end));
    }
}

DT_DEVICE void lion_few(const update_tensor *t, const dti_lion *k, int64_t at, int n)
{
    float w[DTI_FEW], d[DTI_FEW], m[DTI_FEW];
    dti_take(t->w, at, n, t->wide, DT_F32, w);
    dti_take(t->from, at, n, t->wide, DT_F32, d);
    dti_take(t->m, at, n, t->wide, DT_F32, m);
    DT_UNROLL(8)
    for (int i = 0; i < DTI_FEW; i++)
        dti_lion_at(k, d[i], &w[i], &m[i]);
    dti_put(t->w, at, n, t->wide, DT_F32, w);
    dti_put(t->m, at, n, t->wide, DT_F32, m);
}

DT_KERNEL(update_lion, update_job)
{
    const dt_hyper h = given.now->hyper;
    for (int32_t chunk = (int32_t)blockIdx.x; chunk < given.chunks; chunk += (int32_t)gridDim.x) {
        const update_tensor t = update_tensor_of(&given, chunk);
        const dti_span s = update_span_of(&t, chunk);
        const dti_lion k = dti_lion_of(&h, t.vector, t.rate);
        for (int64_t at = s.begin + threadIdx.x * DTI_FEW; at < s.end; at += DTI_THREADS * DTI_FEW)
            lion_few(&t, &k, at, dti_few(at, s.end));
    }
}

/* A copy, once the whole step has proved good. */
DT_KERNEL(update_commit, update_job)
{
    for (int32_t chunk = (int32_t)blockIdx.x; chunk < given.chunks; chunk += (int32_t)gridDim.x) {
        const update_tensor t = update_tensor_of(&given, chunk);
        const dti_span s = update_span_of(&t, chunk);
        for (int64_t at = s.begin + threadIdx.x * DTI_FEW; at < s.end;
             at += DTI_THREADS * DTI_FEW) {
            const int n = dti_few(at, s.end);
            float v[DTI_FEW];
            dti_take(t.from, at, n, t.wide, DT_F32, v);
            dti_put(t.w, at, n, t.wide, DT_F32, v);
        }
    }
}

static update_tensor update_tensor_for(const dt_call *c, const dt_args *a, int32_t first)
{
    update_tensor t;
    t.w = (float *)a->port[DT_P];
    t.m = (float *)a->port[DT_M];
    t.v = (float *)a->port[DT_M + 1];
    t.from = (const float *)(a->port[DT_DP] != NULL ? a->port[DT_DP] : a->port[DT_Q]);
    t.count = c->count;
    t.rate = c->rate;
    t.first = first;
    t.vector = c->vector;
    t.wide = dti_wide(t.w) && dti_wide(t.m) && dti_wide(t.v) && dti_wide(t.from);
    return t;
}

/* The first of these, as many as the table holds. */
static update_job update_job_of(const dt_call *const *c, const dt_args *a, int n, bool decoupled)
{
    update_job j;
    j.now = a->now;
    j.n = n < UPDATE_TENSORS ? n : UPDATE_TENSORS;
    j.chunks = 0;
    j.decoupled = decoupled;
    for (int i = 0; i < j.n; i++) {
        j.tensor[i] = update_tensor_for(c[i], &a[i], j.chunks);
        j.chunks += (int32_t)dti_ceil_div(c[i]->count, UPDATE_CHUNK);
    }
    return j;
}

static dti_grid update_grid(const update_job *j)
{
    const dti_grid g = {j->chunks < UPDATE_BLOCKS ? (unsigned)j->chunks : UPDATE_BLOCKS, 1};
    return g;
}

typedef enum update_op {
    UPDATE_SGD,
    UPDATE_ADAM,
    UPDATE_ADAMW,
    UPDATE_LION,
    UPDATE_COMMIT
} update_op;

static dt_status update_launch(update_op op, const update_job j, void *queue, dt_err *err)
{
    if (j.chunks == 0)
        return DT_OK;
    if (op == UPDATE_SGD)
        DT_LAUNCH(update_sgd, update_grid(&j), DTI_THREADS, queue, j);
    else if (op == UPDATE_COMMIT)
        DT_LAUNCH(update_commit, update_grid(&j), DTI_THREADS, queue, j);
    else if (op == UPDATE_LION)
        DT_LAUNCH(update_lion, update_grid(&j), DTI_THREADS, queue, j);
    else
        DT_LAUNCH(update_adam, update_grid(&j), DTI_THREADS, queue, j);
    return dt_cuda_launched("update", err);
}

static dt_status update_all(
    update_op op, const dt_call *const *c, const dt_args *a, int n, dt_err *err)
{
    for (int i = 0; i < n; i += UPDATE_TENSORS) {
        const update_job j = update_job_of(c + i, a + i, n - i, op == UPDATE_ADAMW);
        DT_CHECK(update_launch(op, j, a->queue, err));
    }
    return DT_OK;
}

#define UPDATE_TABLE(name, op)                                                                     \
    static dt_status name##_run_many(                                                              \
        const dt_call *const *c, const dt_args *a, int n, dt_err *err)                             \
    {                                                                                              \
        return update_all(op, c, a, n, err);                                                       \
    }                                                                                              \
    static dt_status name##_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)      \
    {                                                                                              \
        (void)state;                                                                               \
        return update_all(op, &c, a, 1, err);                                                      \
    }                                                                                              \
    DT_CUDA_TABLE(name, NULL, NULL, name##_run, name##_run_many)

UPDATE_TABLE(sgd, UPDATE_SGD);
UPDATE_TABLE(adam, UPDATE_ADAM);
UPDATE_TABLE(adamw, UPDATE_ADAMW);
UPDATE_TABLE(lion, UPDATE_LION);
UPDATE_TABLE(commit, UPDATE_COMMIT);
