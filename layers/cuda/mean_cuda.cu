/* Means along an axis, or of each channel of a map, on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/pool/mean.h"
DT_C_HEADERS_END

/* A thread works on up to eight neighbouring means: forward on all of their values, backward on one
 * of each. @outer: counted through all samples; see dti_mean_view. */
typedef struct mean_job {
    const void *from;
    void *to;
    int64_t outer, count, inner, groups;
    bool wide;
} mean_job;

enum { MEAN_BLOCK = 32 }; /* values added in single precision; blocks of them in double */

DT_DEVICE void mean_forward(const mean_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->outer * j->groups; i += dti_stride()) {
        const int64_t outer = dti_quotient(i, j->groups), c = (i - outer * j->groups) * DTI_FEW;
        const int n = dti_few(c, j->inner);
        double sum[DTI_FEW] = {0};
        float part[DTI_FEW], v[DTI_FEW];
        for (int64_t at = 0; at < j->count; at += MEAN_BLOCK) {
            const int64_t end = j->count - at < MEAN_BLOCK ? j->count : at + MEAN_BLOCK;
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                part[k] = 0;
            DT_UNROLL(4)
            for (int64_t p = at; p < end; p++) {
                dti_take(j->from, (outer * j->count + p) * j->inner + c, n, j->wide, t, v);
                DT_UNROLL(8)
                for (int k = 0; k < DTI_FEW; k++)
                    part[k] += v[k];
            }
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                sum[k] += (double)part[k];
        }
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            part[k] = (float)(sum[k] / (double)j->count);
        dti_put(j->to, outer * j->inner + c, n, j->wide, t, part);
    }
}

DT_KERNELS(mean_forward, mean_job)

DT_DEVICE void mean_backward(const mean_job *j, dt_dtype t)
{
    const int64_t items = j->outer * j->count * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const int64_t at = dti_quotient(i, j->groups), c = (i - at * j->groups) * DTI_FEW;
        const int64_t outer = dti_quotient(at, j->count);
        const int n = dti_few(c, j->inner);
        float v[DTI_FEW];
        dti_take(j->from, outer * j->inner + c, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] /= (float)j->count;
        dti_put(j->to, at * j->inner + c, n, j->wide, t, v);
    }
}

DT_KERNELS(mean_backward, mean_job)

static dt_status mean_launch(const dt_call *c, const dt_args *a, int over, dt_err *err)
{
    const bool back = c->form == DT_BACKWARD;
    const dti_mean_view v = dti_mean_view_of(dt_graph_shape(c->graph, c->node->in[0]), over);
    mean_job j;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.outer = a->n * v.outer;
    j.count = v.count;
    j.inner = v.inner;
    j.groups = dti_ceil_div(v.inner, DTI_FEW);
    j.wide = dti_wide(j.from) && dti_wide(j.to) && dti_wide_rows(v.inner, c->dtype);
    if (back)
        DT_LAUNCH_OF(
            mean_backward, c->dtype, dti_grid_of(j.outer * j.count * j.groups), a->queue, j);
    else
        DT_LAUNCH_OF(mean_forward, c->dtype, dti_grid_of(j.outer * j.groups), a->queue, j);
    return dt_cuda_launched("mean", err);
}

static dt_status mean_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    return mean_launch(c, a, ((const dti_mean *)c->node->opts)->over, err);
}

static dt_status global_avgpool_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    return mean_launch(c, a, DTI_MEAN_SPACE, err);
}

DT_CUDA_TABLE(mean, NULL, NULL, mean_run, NULL);
DT_CUDA_TABLE(global_avgpool, NULL, NULL, global_avgpool_run, NULL);
