/* Adam and AdamW on the processor. */
#include "layers/cpu/cpu.h"
#include "layers/cpu/tasks.h"
#include "layers/update/update.h"

struct job {
    const dt_args *a;
    int64_t count;
    dti_adam k;
};

static struct job job_of(const dt_call *c, const dt_args *a, bool decoupled)
{
    const dti_gradient g = dti_gradient_of(&a->hyper, c->vector, c->rate);
    return (struct job){a, c->count, dti_adam_for(dti_adam_of(&a->hyper), g, decoupled)};
}

DT_CLONES static void descend(
    const struct job *j, float *w, float *m, float *v, const float *dw, int64_t n)
{
    const dti_adam k = j->k;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_adam_at(&k, dw[i], &w[i], &m[i], &v[i]);
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, i);
    descend(j, (float *)j->a->port[DT_P] + s.begin, (float *)j->a->port[DT_M] + s.begin,
        (float *)j->a->port[DT_M + 1] + s.begin, (const float *)j->a->port[DT_DP] + s.begin,
        s.end - s.begin);
}

static dt_status adam_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a, false);
    dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), task, &j);
    return DT_OK;
}

static dt_status adamw_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a, true);
    dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), task, &j);
    return DT_OK;
}

const dt_kernels dt_adam_cpu = {.run = adam_run};
const dt_kernels dt_adamw_cpu = {.run = adamw_run};
