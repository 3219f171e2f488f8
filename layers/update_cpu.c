#include <string.h>

#include "layers/cpu.h"
#include "layers/team.h"

/* The ops of update: sgd and commit. */

struct job {
    const dt_args *a;
    int64_t count;
};

DT_CLONES static void descend(float *w, const float *dw, int64_t n, dt_hyper h)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        w[i] -= h.lr * (dw[i] + h.weight_decay * w[i]);
}

DT_CLONES static void descend_with_momentum(
    float *w, float *v, const float *dw, int64_t n, dt_hyper h)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        v[i] = h.momentum * v[i] + (dw[i] + h.weight_decay * w[i]);
        w[i] -= h.lr * v[i];
    }
}

static void sgd_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span s = dt_span_of(j->count, DT_GRAIN, i);
    float *w = (float *)j->a->port[DT_P] + s.begin;
    const float *dw = (const float *)j->a->port[DT_DP] + s.begin;
    if (j->a->port[DT_M] == NULL)
        descend(w, dw, s.end - s.begin, j->a->hyper);
    else
        descend_with_momentum(
            w, (float *)j->a->port[DT_M] + s.begin, dw, s.end - s.begin, j->a->hyper);
}

static dt_status sgd_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = {a, c->count};
    dt_team(dt_ceil_div(j.count, DT_GRAIN), sgd_task, &j);
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
