/* Activations by a curve on the processor. */
#include "layers/elementwise/activations.h"

#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"
#include "layers/elementwise/rough_curves.h"

/* Blocks of floats between reading and writing, which all curves share: so each curve is compiled
 * over floats alone, and compilers make vectors of it. */
enum { BLOCK = 256 };

/* Over a block: values; or gradients of the curve's values by its slope there. What is written may
 * be what is read. */
typedef void value_loop(const float *x, float *y, int n);
typedef void slope_loop(const float *saved, const float *dy, float *dx, int n);

/* A curve, and the same for values that are rounded afterwards. */
typedef struct curve {
    value_loop *value, *rounded_value;
    slope_loop *slope, *rounded_slope;
} curve;

#define LOOPS(name, f, t)                                                                          \
    DT_CLONES static void name##_value(const float *x, float *y, int n)                            \
    {                                                                                              \
        _Pragma("omp simd") for (int i = 0; i < n; i++) y[i] = dti_typed_value(f, t, x[i]);        \
    }                                                                                              \
    DT_CLONES static void name##_slope(const float *saved, const float *dy, float *dx, int n)      \
    {                                                                                              \
        _Pragma("omp simd") for (int i = 0; i < n; i++) dx[i] =                                    \
            dy[i] * dti_typed_slope(f, t, saved[i]);                                               \
    }

#define CURVE(name, f)                                                                             \
    LOOPS(name, f, DT_F32)                                                                         \
    LOOPS(rounded_##name, f, DT_BF16)                                                              \
    static const curve name##_curve = {                                                            \
        name##_value, rounded_##name##_value, name##_slope, rounded_##name##_slope};

CURVE(gelu, DTI_GELU)
CURVE(gelu_tanh, DTI_GELU_TANH)
CURVE(hardsigmoid, DTI_HARDSIGMOID)
CURVE(hardswish, DTI_HARDSWISH)
CURVE(relu6, DTI_RELU6)
CURVE(sigmoid, DTI_SIGMOID)
CURVE(silu, DTI_SILU)
CURVE(tanh, DTI_TANH)

struct job {
    value_loop *value;
    slope_loop *slope;
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
    float buffer[2][BLOCK];
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, task);
    for (int64_t at = s.begin; at < s.end; at += BLOCK) {
        const int n = block_at(s, at);
        float *y = dti_values_target(j->t, j->to, at, buffer[1]);
        j->value(dti_values_read(j->t, j->from, at, buffer[0], n), y, n);
        dti_values_write(j->t, j->to, at, y, n);
    }
}

static void backward_task(const void *job, int64_t task)
{
    float buffer[3][BLOCK];
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, task);
    for (int64_t at = s.begin; at < s.end; at += BLOCK) {
        const int n = block_at(s, at);
        const float *saved = dti_values_read(j->t, j->saved, at, buffer[0], n);
        const float *dy = dti_values_read(j->t, j->from, at, buffer[1], n);
        float *dx = dti_values_target(j->t, j->to, at, buffer[2]);
        j->slope(saved, dy, dx, n);
        dti_values_write(j->t, j->to, at, dx, n);
    }
}

static dt_status run(const curve *f, dt_port saved, const dt_call *c, const dt_args *a)
{
    const bool back = c->form == DT_BACKWARD;
    const bool rounded = c->dtype == DT_BF16;
    const struct job j = {.value = rounded ? f->rounded_value : f->value,
        .slope = rounded ? f->rounded_slope : f->slope,
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
