/* Stochastic gradient descent and the commit on the processor. */
#include "layers/update/update.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/tasks.h"

struct job {
    const dt_args *a;
    int64_t count;
    dti_sgd k;
};

DT_CLONES static void descend(const struct job *j, float *w, const float *dw, int64_t n)
{
    const dti_sgd k = j->k;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_sgd_plain_at(&k, dw[i], &w[i]);
}

DT_CLONES static void descend_with_momentum(
    const struct job *j, float *w, float *v, const float *dw, int64_t n)
{
    const dti_sgd k = j->k;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_sgd_at(&k, dw[i], &w[i], &v[i]);
}

static void sgd_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, i);
    const int64_t n = s.end - s.begin;
    float *w = (float *)j->a->port[DT_P] + s.begin;
    const float *dw = (const float *)j->a->port[DT_DP] + s.begin;
    if (j->a->port[DT_M] == NULL)
        descend(j, w, dw, n);
    else
        descend_with_momentum(j, w, (float *)j->a->port[DT_M] + s.begin, dw, n);
}

static dt_status sgd_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = {a, c->count, dti_sgd_of(&a->hyper, c->vector, c->rate)};
    dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), sgd_task, &j);
    return DT_OK;
}

static dt_status commit_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    memcpy(a->port[DT_P], a->port[DT_Q], (size_t)c->count * sizeof(float));
    return DT_OK;
}

const dt_kernels dt_sgd_cpu = {.run = sgd_run};
const dt_kernels dt_commit_cpu = {.run = commit_run};
