#include "layers/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/update.h"
DT_C_HEADERS_END

/* The optimizers, a parameter a launch. The numbers of the step are read on the device: what is
 * launched once runs in many steps. */
typedef struct update_job {
    float *w, *m, *v; /* m: momentum, or the first moment; v: the second */
    const float *dw;
    const dt_now *now;
    int64_t count;
    bool vector, decoupled, wide;
} update_job;

DT_KERNEL(update_sgd, update_job)
{
    const dt_hyper h = given.now->hyper;
    const dt_gradient gradient = dt_gradient_of(&h, given.vector);
    for (int64_t at = dt_first() * DT_FEW; at < given.count; at += dt_step() * DT_FEW) {
        const int n = dt_few(at, given.count);
        float w[DT_FEW], d[DT_FEW], m[DT_FEW];
        dt_take(given.w, at, n, given.wide, DT_F32, w);
        dt_take(given.dw, at, n, given.wide, DT_F32, d);
        if (given.m != NULL)
            dt_take(given.m, at, n, given.wide, DT_F32, m);
        DT_UNROLL(8)
        for (int k = 0; k < DT_FEW; k++) {
            const float g = dt_gradient_at(gradient, d[k], w[k]);
            const float fast = given.m != NULL ? h.momentum * m[k] + g : g;
            m[k] = fast;
            /* Nesterov: a step further along the momentum than the momentum has got. */
            w[k] -= h.lr * (given.m != NULL && h.nesterov ? g + h.momentum * fast : fast);
        }
        dt_put(given.w, at, n, given.wide, DT_F32, w);
        if (given.m != NULL)
            dt_put(given.m, at, n, given.wide, DT_F32, m);
    }
}

/* One thread of each block finds the numbers of the step. */
DT_KERNEL(update_adam, update_job)
{
    __shared__ dt_adam shared;
    if (threadIdx.x == 0) {
        const dt_hyper h = given.now->hyper;
        shared = dt_adam_of(&h, given.now->step, given.vector, given.decoupled);
    }
    __syncthreads();
    const dt_adam k = shared;
    for (int64_t at = dt_first() * DT_FEW; at < given.count; at += dt_step() * DT_FEW) {
        const int n = dt_few(at, given.count);
        float w[DT_FEW], d[DT_FEW], m[DT_FEW], v[DT_FEW];
        dt_take(given.w, at, n, given.wide, DT_F32, w);
        dt_take(given.dw, at, n, given.wide, DT_F32, d);
        dt_take(given.m, at, n, given.wide, DT_F32, m);
        dt_take(given.v, at, n, given.wide, DT_F32, v);
        DT_UNROLL(8)
        for (int i = 0; i < DT_FEW; i++)
            dt_adam_at(&k, d[i], &w[i], &m[i], &v[i]);
        dt_put(given.w, at, n, given.wide, DT_F32, w);
        dt_put(given.m, at, n, given.wide, DT_F32, m);
        dt_put(given.v, at, n, given.wide, DT_F32, v);
    }
}

enum { UPDATE_BLOCKS = 1056 }; /* eight for each processor of a large card */

static dt_grid update_grid(int64_t count)
{
    dt_grid g = dt_grid_of(dt_ceil_div(count, DT_FEW));
    if (g.x > UPDATE_BLOCKS)
        g.x = UPDATE_BLOCKS;
    return g;
}

static update_job update_job_of(const dt_call *c, const dt_args *a, bool decoupled)
{
    update_job j;
    j.w = (float *)a->port[DT_P];
    j.m = (float *)a->port[DT_M];
    j.v = (float *)a->port[DT_M + 1];
    j.dw = (const float *)a->port[DT_DP];
    j.now = a->now;
    j.count = c->count;
    j.vector = c->vector;
    j.decoupled = decoupled;
    j.wide = dt_wide(j.w) && dt_wide(j.m) && dt_wide(j.v) && dt_wide(j.dw);
    return j;
}

static dt_status sgd_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const update_job j = update_job_of(c, a, false);
    DT_LAUNCH(update_sgd, update_grid(j.count), DT_THREADS, a->queue, j);
    return dt_cuda_launched("sgd", err);
}

static dt_status adam_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const update_job j = update_job_of(c, a, false);
    DT_LAUNCH(update_adam, update_grid(j.count), DT_THREADS, a->queue, j);
    return dt_cuda_launched("adam", err);
}

static dt_status adamw_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const update_job j = update_job_of(c, a, true);
    DT_LAUNCH(update_adam, update_grid(j.count), DT_THREADS, a->queue, j);
    return dt_cuda_launched("adamw", err);
}

/* A copy, once the whole step has proved good. */
static dt_status commit_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    DT_CUDA_TRY(err, cudaMemcpyAsync(a->port[DT_P], a->port[DT_Q], (size_t)c->count * sizeof(float),
                         cudaMemcpyDeviceToDevice, (cudaStream_t)a->queue));
    return DT_OK;
}

DT_CUDA_TABLE(sgd) = {NULL, NULL, NULL, sgd_run, NULL, NULL, NULL};
DT_CUDA_TABLE(adam) = {NULL, NULL, NULL, adam_run, NULL, NULL, NULL};
DT_CUDA_TABLE(adamw) = {NULL, NULL, NULL, adamw_run, NULL, NULL, NULL};
DT_CUDA_TABLE(commit) = {NULL, NULL, NULL, commit_run, NULL, NULL, NULL};
