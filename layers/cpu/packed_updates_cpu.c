/* The optimizers with moments in 8 bits on the processor: a block of values at a time, which task
 * by task are as many as of other updates. */
#include "engine/state_codes.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/tasks.h"
#include "layers/update/update.h"

_Static_assert(DTI_GRAIN % DT_STATE_BLOCK == 0, "no two tasks share a block");

/* A block in fp32. @v: of Adam. */
typedef struct block {
    float *w, m[DT_STATE_BLOCK], v[DT_STATE_BLOCK];
    const float *dw;
    int64_t n;
} block;

/* @move: the optimizer, by its numbers @k. @squares: it has a second moment. */
struct job {
    const dt_args *a;
    int64_t count;
    void (*move)(const void *k, block *b);
    const void *k;
    bool squares;
    dt_state_map first, second;
};

DT_CLONES static void move_sgd(const void *numbers, block *b)
{
    const dti_sgd k = *(const dti_sgd *)numbers;
    float *w = b->w, *m = b->m;
    const float *dw = b->dw;
#pragma omp simd
    for (int64_t i = 0; i < b->n; i++)
        dti_sgd_at(&k, dw[i], &w[i], &m[i]);
}

DT_CLONES static void move_adam(const void *numbers, block *b)
{
    const dti_adam k = *(const dti_adam *)numbers;
    float *w = b->w, *m = b->m, *v = b->v;
    const float *dw = b->dw;
#pragma omp simd
    for (int64_t i = 0; i < b->n; i++)
        dti_adam_at(&k, dw[i], &w[i], &m[i], &v[i]);
}

DT_CLONES static void move_lion(const void *numbers, block *b)
{
    const dti_lion k = *(const dti_lion *)numbers;
    float *w = b->w, *m = b->m;
    const float *dw = b->dw;
#pragma omp simd
    for (int64_t i = 0; i < b->n; i++)
        dti_lion_at(&k, dw[i], &w[i], &m[i]);
}

static void move_block(const struct job *j, dti_span s)
{
    const dt_args *a = j->a;
    const int64_t i = s.begin / DT_STATE_BLOCK;
    uint8_t *m = (uint8_t *)a->port[DT_M] + s.begin, *v = NULL;
    float *of_m = (float *)a->port[DTI_SCALES_OF(DT_M)] + i, *of_v = NULL;
    block b = {.w = (float *)a->port[DT_P] + s.begin,
        .dw = (const float *)a->port[DT_DP] + s.begin,
        .n = dti_span_count(s)};
    dt_state_unpack(&j->first, m, *of_m, b.m, b.n);
    if (j->squares) {
        v = (uint8_t *)a->port[DT_M + 1] + s.begin;
        of_v = (float *)a->port[DTI_SCALES_OF(DT_M + 1)] + i;
        dt_state_unpack(&j->second, v, *of_v, b.v, b.n);
    }
    j->move(j->k, &b);
    *of_m = dt_state_pack(&j->first, b.m, m, b.n);
    if (j->squares)
        *of_v = dt_state_pack(&j->second, b.v, v, b.n);
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, i);
    for (int64_t at = s.begin; at < s.end; at += DT_STATE_BLOCK)
        move_block(j, (dti_span){at, at + DT_STATE_BLOCK < s.end ? at + DT_STATE_BLOCK : s.end});
}

static dt_status run(const dt_call *c, const dt_args *a, void (*move)(const void *, block *),
    const void *k, bool squares)
{
    struct job j = {.a = a, .count = c->count, .move = move, .k = k, .squares = squares};
    dt_state_map_fill(&j.first, true, 0, 1);
    dt_state_map_fill(&j.second, false, 0, 1);
    dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), task, &j);
    return DT_OK;
}

static dt_status sgd8_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dti_sgd k = dti_sgd_of(&a->hyper, c->vector, c->rate);
    return run(c, a, move_sgd, &k, false);
}

static dt_status run_adam(const dt_call *c, const dt_args *a, bool decoupled)
{
    const dti_gradient g = dti_gradient_of(&a->hyper, c->vector, c->rate);
    const dti_adam k = dti_adam_for(dti_adam_of(&a->hyper), g, decoupled);
    return run(c, a, move_adam, &k, true);
}

static dt_status adam8_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    return run_adam(c, a, false);
}

static dt_status adamw8_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    return run_adam(c, a, true);
}

static dt_status lion8_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dti_lion k = dti_lion_of(&a->hyper, c->vector, c->rate);
    return run(c, a, move_lion, &k, false);
}

const dt_kernels dt_sgd8_cpu = {.run = sgd8_run};
const dt_kernels dt_adam8_cpu = {.run = adam8_run};
const dt_kernels dt_adamw8_cpu = {.run = adamw8_run};
const dt_kernels dt_lion8_cpu = {.run = lion8_run};
