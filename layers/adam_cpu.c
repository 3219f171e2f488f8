#include <math.h>

#include "layers/cpu.h"
#include "layers/team.h"
#include "layers/update.h"

/* Numbers of a step, the same for all elements. */
struct job {
    const dt_args *a;
    int64_t count;
    float scale, decay;             /* of the gradient; share of the weight added to it */
    float keep1, keep2, new1, new2; /* of the moments and of the gradient in them */
    float shrink, rate, over, eps;  /* of the weight; lr / correction1; 1 / sqrt(correction2) */
};

/* Corrections are computed in double precision: 1 - beta^t loses digits in single. */
static struct job job_of(const dt_call *c, const dt_args *a, bool decoupled)
{
    const dt_hyper *h = &a->hyper;
    const double t = (double)(a->step + 1), lr = (double)h->lr;
    const float decay = dt_update_decay(c, h);
    return (struct job){.a = a,
        .count = c->count,
        .scale = dt_update_scale(h),
        .decay = decoupled ? 0.0f : decay,
        .keep1 = (float)h->beta1,
        .keep2 = (float)h->beta2,
        .new1 = (float)(1 - h->beta1),
        .new2 = (float)(1 - h->beta2),
        .shrink = decoupled ? (float)(1 - lr * (double)decay) : 1.0f,
        .rate = (float)(lr / (1 - pow(h->beta1, t))),
        .over = (float)(1 / sqrt(1 - pow(h->beta2, t))),
        .eps = h->eps};
}

DT_CLONES static void descend(
    const struct job *j, float *w, float *m, float *v, const float *dw, int64_t n)
{
    const struct job k = *j;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = dw[i] * k.scale + k.decay * w[i];
        m[i] = k.keep1 * m[i] + k.new1 * g;
        v[i] = k.keep2 * v[i] + k.new2 * (g * g);
        w[i] = k.shrink * w[i] - k.rate * m[i] / (sqrtf(v[i]) * k.over + k.eps);
    }
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span s = dt_span_of(j->count, DT_GRAIN, i);
    descend(j, (float *)j->a->port[DT_P] + s.begin, (float *)j->a->port[DT_M] + s.begin,
        (float *)j->a->port[DT_M + 1] + s.begin, (const float *)j->a->port[DT_DP] + s.begin,
        s.end - s.begin);
}

static dt_status adam_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a, false);
    dt_team(dt_ceil_div(j.count, DT_GRAIN), task, &j);
    return DT_OK;
}

static dt_status adamw_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a, true);
    dt_team(dt_ceil_div(j.count, DT_GRAIN), task, &j);
    return DT_OK;
}

const dt_kernels dt_adam_cpu = {.run = adam_run};
const dt_kernels dt_adamw_cpu = {.run = adamw_run};
