/* Activations by a curve on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/elementwise/activations.h"
#include "layers/elementwise/rough_curves.h"
DT_C_HEADERS_END

typedef struct curve_job {
    const void *saved, *from; /* from: x or dy */
    void *to;
    int64_t count;
    bool wide;
} curve_job;

DT_DEVICE void curve_forward(const curve_job *j, dti_curve f, dt_dtype t)
{
    for (int64_t at = dti_first() * DTI_FEW; at < j->count; at += dti_stride() * DTI_FEW) {
        const int n = dti_few(at, j->count);
        float v[DTI_FEW];
        dti_take(j->from, at, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] = dti_typed_value(f, t, v[k]);
        dti_put(j->to, at, n, j->wide, t, v);
    }
}

DT_DEVICE void curve_backward(const curve_job *j, dti_curve f, dt_dtype t)
{
    for (int64_t at = dti_first() * DTI_FEW; at < j->count; at += dti_stride() * DTI_FEW) {
        const int n = dti_few(at, j->count);
        float v[DTI_FEW], d[DTI_FEW];
        dti_take(j->saved, at, n, j->wide, t, v);
        dti_take(j->from, at, n, j->wide, t, d);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            d[k] *= dti_typed_slope(f, t, v[k]);
        dti_put(j->to, at, n, j->wide, t, d);
    }
}

#define CURVE(name, f)                                                                             \
    DT_DEVICE void name##_forward(const curve_job *j, dt_dtype t)                                  \
    {                                                                                              \
        curve_forward(j, f, t);                                                                    \
    }                                                                                              \
    DT_DEVICE void name##_backward(const curve_job *j, dt_dtype t)                                 \
    {                                                                                              \
        curve_backward(j, f, t);                                                                   \
    }                                                                                              \
    DT_KERNELS(name##_forward, curve_job)                                                          \
    DT_KERNELS(name##_backward, curve_job)                                                         \
    static void name##_launch(const curve_job *given, bool back, dt_dtype t, void *queue)          \
    {                                                                                              \
        const curve_job j = *given;                                                                \
        const dti_grid g = dti_grid_of(dti_ceil_div(j.count, DTI_FEW));                            \
        if (back)                                                                                  \
            DT_LAUNCH_OF(name##_backward, t, g, queue, j);                                         \
        else                                                                                       \
            DT_LAUNCH_OF(name##_forward, t, g, queue, j);                                          \
    }

CURVE(curve_gelu, DTI_GELU)
CURVE(curve_gelu_tanh, DTI_GELU_TANH)
CURVE(curve_hardsigmoid, DTI_HARDSIGMOID)
CURVE(curve_hardswish, DTI_HARDSWISH)
CURVE(curve_relu6, DTI_RELU6)
CURVE(curve_sigmoid, DTI_SIGMOID)
CURVE(curve_silu, DTI_SILU)
CURVE(curve_tanh, DTI_TANH)

typedef void curve_launch(const curve_job *j, bool back, dt_dtype t, void *queue);

static dt_status curve_run(
    curve_launch *launch, dt_port saved, const dt_call *c, const dt_args *a, dt_err *err)
{
    const bool back = c->form == DT_BACKWARD;
    curve_job j;
    j.saved = back ? a->port[saved] : NULL;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.count = a->n * dt_shape_sample(&c->node->info.y);
    j.wide = dti_wide(j.saved) && dti_wide(j.from) && dti_wide(j.to);
    launch(&j, back, c->dtype, a->queue);
    return dt_cuda_launched(c->node->desc->name, err);
}

static dt_status gelu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_gelu *o = (const dt_gelu *)c->node->opts;
    const bool approximate = o->approximate == DT_GELU_TANH;
    return curve_run(approximate ? curve_gelu_tanh_launch : curve_gelu_launch, DT_X, c, a, err);
}

DT_CUDA_TABLE(gelu, NULL, NULL, gelu_run, NULL);

/* A layer without options, whose slope is had from a port. */
#define CURVE_LAYER(name, saved)                                                                   \
    static dt_status name##_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)      \
    {                                                                                              \
        (void)state;                                                                               \
        return curve_run(curve_##name##_launch, saved, c, a, err);                                 \
    }                                                                                              \
    DT_CUDA_TABLE(name, NULL, NULL, name##_run, NULL);

CURVE_LAYER(hardsigmoid, DT_Y)
CURVE_LAYER(hardswish, DT_X)
CURVE_LAYER(relu6, DT_Y)
CURVE_LAYER(sigmoid, DT_Y)
CURVE_LAYER(silu, DT_X)
CURVE_LAYER(tanh, DT_Y)
