/* Lion on the processor. */
#include "layers/cpu/cpu.h"
#include "layers/cpu/tasks.h"
#include "layers/update/update.h"

struct job {
    const dt_args *a;
    int64_t count;
    dti_lion k;
};

DT_CLONES static void descend(const struct job *j, float *w, float *m, const float *dw, int64_t n)
{
    const dti_lion k = j->k;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_lion_at(&k, dw[i], &w[i], &m[i]);
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, i);
    descend(j, (float *)j->a->port[DT_P] + s.begin, (float *)j->a->port[DT_M] + s.begin,
        (const float *)j->a->port[DT_DP] + s.begin, dti_span_count(s));
}

static dt_status lion_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = {a, c->count, dti_lion_of(&a->hyper, c->vector, c->rate)};
    dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), task, &j);
    return DT_OK;
}

const dt_kernels dt_lion_cpu = {.run = lion_run};
