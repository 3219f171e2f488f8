#include "layers/cpu.h"
#include "layers/team.h"

/* The add layer and the sum op: y = x0 + x1 + ..., from left to right. */

struct job {
    const dt_args *a;
    int64_t count;
    int n_in;
};

/* y may be a or b. */
DT_CLONES static void add(const float *a, const float *b, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span s = dt_span_of(j->count, DT_GRAIN, i);
    float *y = (float *)j->a->port[DT_Y] + s.begin;
    const float *sum = (const float *)j->a->port[DT_X] + s.begin;
    for (int k = 1; k < j->n_in; k++) {
        add(sum, (const float *)j->a->port[DT_X + k] + s.begin, y, s.end - s.begin);
        sum = y;
    }
}

static dt_status add_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = {a, a->n * dt_shape_sample(&c->node->info.y), c->node->n_in};
    dt_team(dt_ceil_div(j.count, DT_GRAIN), task, &j);
    return DT_OK;
}

static dt_status sum_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = {a, c->count, 2};
    dt_team(dt_ceil_div(j.count, DT_GRAIN), task, &j);
    return DT_OK;
}

const dt_kernels dt_add_cpu = {.run = add_run};
const dt_kernels dt_sum_cpu = {.run = sum_run};
