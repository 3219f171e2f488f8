/* Activations by a curve on the processor. */
#include "layers/activations.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/activation_curves.h"
#include "layers/value.h"

/* Blocks of floats between loading and storing, which all curves share: so each curve is compiled
 * over floats alone, and compilers make vectors of it. */
enum { BLOCK = 256 };

DT_CLONES static void load_block(const void *from, float *restrict to, int n, dt_dtype t)
{
    if (t == DT_F32) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
#pragma omp simd
    for (int i = 0; i < n; i++)
        to[i] = dti_load(from, i, DT_BF16);
}

DT_CLONES static void store_block(const float *restrict from, void *to, int n, dt_dtype t)
{
    if (t == DT_F32) {
        memcpy(to, from, (size_t)n * sizeof *from);
        return;
    }
#pragma omp simd
    for (int i = 0; i < n; i++)
        dti_store(to, i, DT_BF16, from[i]);
}

/* A curve over a block, in place; and gradients of its values by its slope there. */
typedef struct curve {
    void (*value)(float *v, int n);
    void (*slope)(const float *restrict saved, float *restrict d, int n);
} curve;

#define CURVE(name, f)                                                                             \
    DT_CLONES static void name##_value(float *v, int n)                                            \
    {                                                                                              \
        _Pragma("omp simd") for (int i = 0; i < n; i++) v[i] = dti_curve_value(f, v[i]);           \
    }                                                                                              \
    DT_CLONES static void name##_slope(const float *restrict saved, float *restrict d, int n)      \
    {                                                                                              \
        _Pragma("omp simd") for (int i = 0; i < n; i++) d[i] =                                     \
            d[i] * dti_curve_slope(f, saved[i]);                                                   \
    }                                                                                              \
    static const curve name##_curve = {name##_value, name##_slope};

CURVE(gelu, DTI_GELU)
CURVE(gelu_tanh, DTI_GELU_TANH)
CURVE(hardsigmoid, DTI_HARDSIGMOID)
CURVE(hardswish, DTI_HARDSWISH)
CURVE(relu6, DTI_RELU6)
CURVE(sigmoid, DTI_SIGMOID)
CURVE(silu, DTI_SILU)
CURVE(tanh, DTI_TANH)

struct job {
    const curve *curve;
    dt_dtype t;
    int64_t count;
    const void *saved, *from; /* from: x or dy */
    void *to;
};

static int block_at(dti_span s, int64_t at)
{
    return s.end - at < BLOCK ? (int)(s.end - at) : BLOCK;
}

static void forward_task(const void *job, int64_t task)
{
    float v[BLOCK];
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, task);
    for (int64_t at = s.begin; at < s.end; at += BLOCK) {
        const int n = block_at(s, at);
        load_block(dti_from(j->from, at, j->t), v, n, j->t);
        j->curve->value(v, n);
        store_block(v, dti_to(j->to, at, j->t), n, j->t);
    }
}

static void backward_task(const void *job, int64_t task)
{
    float v[BLOCK], d[BLOCK];
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, task);
    for (int64_t at = s.begin; at < s.end; at += BLOCK) {
        const int n = block_at(s, at);
        load_block(dti_from(j->saved, at, j->t), v, n, j->t);
        load_block(dti_from(j->from, at, j->t), d, n, j->t);
        j->curve->slope(v, d, n);
        store_block(d, dti_to(j->to, at, j->t), n, j->t);
    }
}

static dt_status run(const curve *f, dt_port saved, const dt_call *c, const dt_args *a)
{
    const bool back = c->form == DT_BACKWARD;
    const struct job j = {.curve = f,
        .t = c->dtype,
        .count = a->n * dt_shape_sample(&c->node->info.y),
        .saved = a->port[saved],
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y]};
    dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), back ? backward_task : forward_task, &j);
    return DT_OK;
}

static dt_status gelu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_gelu *o = c->node->opts;
    return run(o->approximate == DT_GELU_TANH ? &gelu_tanh_curve : &gelu_curve, DT_X, c, a);
}

const dt_kernels dt_gelu_cpu = {.run = gelu_run};

/* A layer without options, whose slope is had from a port. */
#define LAYER(name, saved)                                                                         \
    static dt_status name##_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)      \
    {                                                                                              \
        (void)state, (void)err;                                                                    \
        return run(&name##_curve, saved, c, a);                                                    \
    }                                                                                              \
    const dt_kernels dt_##name##_cpu = {.run = name##_run};

LAYER(hardsigmoid, DT_Y)
LAYER(hardswish, DT_X)
LAYER(relu6, DT_Y)
LAYER(sigmoid, DT_Y)
LAYER(silu, DT_X)
LAYER(tanh, DT_Y)
