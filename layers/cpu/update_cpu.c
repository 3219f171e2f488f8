/* Stochastic gradient descent and the commit on the processor. */
#include "layers/update.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/tasks.h"

/* The ops of update: sgd and commit. */

struct job {
    const dt_args *a;
    int64_t count;
    float lr, momentum;
    dti_gradient g;
};

DT_CLONES static void descend(const struct job *j, float *w, const float *dw, int64_t n)
{
    const struct job k = *j;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        w[i] -= k.lr * dti_gradient_at(k.g, dw[i], w[i]);
}

DT_CLONES static void descend_with_momentum(
    const struct job *j, float *w, float *v, const float *dw, int64_t n)
{
    const struct job k = *j;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        v[i] = k.momentum * v[i] + dti_gradient_at(k.g, dw[i], w[i]);
        w[i] -= k.lr * v[i];
    }
}

/* Nesterov: a step further along the momentum than the momentum has got. */
DT_CLONES static void descend_ahead(
    const struct job *j, float *w, float *v, const float *dw, int64_t n)
{
    const struct job k = *j;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = dti_gradient_at(k.g, dw[i], w[i]);
        v[i] = k.momentum * v[i] + g;
        w[i] -= k.lr * (g + k.momentum * v[i]);
    }
}

static void sgd_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, i);
    const int64_t n = s.end - s.begin;
    float *w = (float *)j->a->port[DT_P] + s.begin;
    const float *dw = (const float *)j->a->port[DT_DP] + s.begin;
    if (j->a->port[DT_M] == NULL) {
        descend(j, w, dw, n);
        return;
    }
    float *v = (float *)j->a->port[DT_M] + s.begin;
    if (j->a->hyper.nesterov)
        descend_ahead(j, w, v, dw, n);
    else
        descend_with_momentum(j, w, v, dw, n);
}

static dt_status sgd_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_hyper *h = &a->hyper;
    const dti_gradient g = dti_gradient_of(h, c->vector, c->rate);
    const struct job j = {a, c->count, (float)g.lr, h->momentum, g};
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
