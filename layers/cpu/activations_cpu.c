/* Activations by a curve on the processor. */
#include "layers/activations.h"

#include "layers/cpu/cpu.h"
#include "layers/activation_curves.h"
#include "layers/value.h"

/* Blocks of floats between loading and storing: compilers make vectors of curves over one type. */
enum { BLOCK = 256 };

DT_INLINE void load_block(const void *from, float *restrict to, int n, dt_dtype t)
{
#pragma omp simd
    for (int i = 0; i < n; i++)
        to[i] = dti_load(from, i, t);
}

DT_INLINE void store_block(const float *restrict from, void *to, int n, dt_dtype t)
{
#pragma omp simd
    for (int i = 0; i < n; i++)
        dti_store(to, i, t, from[i]);
}

DT_INLINE void forward_loop(dti_curve f, dt_dtype t, const void *x, void *y, int64_t n)
{
    float v[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int m = n - at < BLOCK ? (int)(n - at) : BLOCK;
        load_block(dti_from(x, at, t), v, m, t);
#pragma omp simd
        for (int i = 0; i < m; i++)
            v[i] = dti_curve_value(f, v[i]);
        store_block(v, dti_to(y, at, t), m, t);
    }
}

DT_INLINE void backward_loop(
    dti_curve f, dt_dtype t, const void *saved, const void *dy, void *dx, int64_t n)
{
    float v[BLOCK], d[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int m = n - at < BLOCK ? (int)(n - at) : BLOCK;
        load_block(dti_from(saved, at, t), v, m, t);
        load_block(dti_from(dy, at, t), d, m, t);
#pragma omp simd
        for (int i = 0; i < m; i++)
            v[i] = d[i] * dti_curve_slope(f, v[i]);
        store_block(v, dti_to(dx, at, t), m, t);
    }
}

typedef void forward_fn(const void *x, void *y, int64_t n);
typedef void backward_fn(const void *saved, const void *dy, void *dx, int64_t n);

#define LOOPS(name, f, t)                                                                          \
    DT_CLONES static void name##_forward(const void *x, void *y, int64_t n)                        \
    {                                                                                              \
        forward_loop(f, t, x, y, n);                                                               \
    }                                                                                              \
    DT_CLONES static void name##_backward(const void *saved, const void *dy, void *dx, int64_t n)  \
    {                                                                                              \
        backward_loop(f, t, saved, dy, dx, n);                                                     \
    }

typedef struct loops {
    forward_fn *forward;
    backward_fn *backward;
} loops;

/* Both, of either type. */
#define CURVE(name, f)                                                                             \
    LOOPS(name##_f32, f, DT_F32)                                                                   \
    LOOPS(name##_bf16, f, DT_BF16)                                                                 \
    static const loops name##_loops[DT_DTYPES] = {                                                 \
        [DT_F32] = {name##_f32_forward, name##_f32_backward},                                      \
        [DT_BF16] = {name##_bf16_forward, name##_bf16_backward},                                   \
    };

CURVE(gelu, DTI_GELU)
CURVE(gelu_tanh, DTI_GELU_TANH)
CURVE(hardsigmoid, DTI_HARDSIGMOID)
CURVE(hardswish, DTI_HARDSWISH)
CURVE(relu6, DTI_RELU6)
CURVE(sigmoid, DTI_SIGMOID)
CURVE(silu, DTI_SILU)
CURVE(tanh, DTI_TANH)

struct job {
    loops loops;
    dt_dtype t;
    int64_t count;
    const void *saved, *from; /* from: x or dy */
    void *to;
};

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span s = dt_span_of(j->count, DT_GRAIN, i);
    j->loops.forward(
        dti_from(j->from, s.begin, j->t), dti_to(j->to, s.begin, j->t), s.end - s.begin);
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span s = dt_span_of(j->count, DT_GRAIN, i);
    j->loops.backward(dti_from(j->saved, s.begin, j->t), dti_from(j->from, s.begin, j->t),
        dti_to(j->to, s.begin, j->t), s.end - s.begin);
}

static dt_status run(const loops *f, dt_port saved, const dt_call *c, const dt_args *a)
{
    const bool back = c->form == DT_BACKWARD;
    const struct job j = {.loops = f[c->dtype],
        .t = c->dtype,
        .count = a->n * dt_shape_sample(&c->node->info.y),
        .saved = a->port[saved],
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y]};
    dti_run_tasks(dt_ceil_div(j.count, DT_GRAIN), back ? backward_task : forward_task, &j);
    return DT_OK;
}

static dt_status gelu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_gelu *o = c->node->opts;
    return run(o->approximate == DT_GELU_TANH ? gelu_tanh_loops : gelu_loops, DT_X, c, a);
}

const dt_kernels dt_gelu_cpu = {.run = gelu_run};

/* A layer without options, whose slope is had from a port. */
#define LAYER(name, saved)                                                                         \
    static dt_status name##_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)      \
    {                                                                                              \
        (void)state, (void)err;                                                                    \
        return run(name##_loops, saved, c, a);                                                     \
    }                                                                                              \
    const dt_kernels dt_##name##_cpu = {.run = name##_run};

LAYER(hardsigmoid, DT_Y)
LAYER(hardswish, DT_X)
LAYER(relu6, DT_Y)
LAYER(sigmoid, DT_Y)
LAYER(silu, DT_X)
LAYER(tanh, DT_Y)
