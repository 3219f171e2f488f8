/* The mean of each channel on the card. */
#include "layers/cuda/cuda_kernel.cuh"

/* A thread works on up to eight channels of a sample: forward on all of its pixels, backward on
 * one. */
typedef struct global_job {
    const void *from;
    void *to;
    int64_t samples, pixels, channels, groups;
    bool wide;
} global_job;

enum { GLOBAL_BLOCK = 32 }; /* pixels added in single precision; blocks of them in double */

DT_DEVICE void global_forward(const global_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->samples * j->groups; i += dti_stride()) {
        const int64_t sample = dti_quotient(i, j->groups), c = (i - sample * j->groups) * DT_FEW;
        const int n = dti_few(c, j->channels);
        double sum[DT_FEW] = {0};
        float part[DT_FEW], v[DT_FEW];
        for (int64_t at = 0; at < j->pixels; at += GLOBAL_BLOCK) {
            const int64_t end = j->pixels - at < GLOBAL_BLOCK ? j->pixels : at + GLOBAL_BLOCK;
            DT_UNROLL(8)
            for (int k = 0; k < DT_FEW; k++)
                part[k] = 0;
            DT_UNROLL(4)
            for (int64_t p = at; p < end; p++) {
                dti_take(j->from, (sample * j->pixels + p) * j->channels + c, n, j->wide, t, v);
                DT_UNROLL(8)
                for (int k = 0; k < DT_FEW; k++)
                    part[k] += v[k];
            }
            DT_UNROLL(8)
            for (int k = 0; k < DT_FEW; k++)
                sum[k] += (double)part[k];
        }
        DT_UNROLL(8)
        for (int k = 0; k < DT_FEW; k++)
            part[k] = (float)(sum[k] / (double)j->pixels);
        dti_put(j->to, sample * j->channels + c, n, j->wide, t, part);
    }
}

DT_KERNELS(global_forward, global_job)

DT_DEVICE void global_backward(const global_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->pixels * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const int64_t pixel = dti_quotient(i, j->groups), c = (i - pixel * j->groups) * DT_FEW;
        const int64_t sample = dti_quotient(pixel, j->pixels);
        const int n = dti_few(c, j->channels);
        float v[DT_FEW];
        dti_take(j->from, sample * j->channels + c, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DT_FEW; k++)
            v[k] /= (float)j->pixels;
        dti_put(j->to, pixel * j->channels + c, n, j->wide, t, v);
    }
}

DT_KERNELS(global_backward, global_job)

static dt_status global_avgpool_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const bool back = c->form == DT_BACKWARD;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    global_job j;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.samples = a->n;
    j.pixels = x.h * x.w;
    j.channels = x.c;
    j.groups = dt_ceil_div(x.c, DT_FEW);
    j.wide = dt_wide(j.from) && dt_wide(j.to) && dti_wide_rows(x.c, c->dtype);
    if (back)
        DT_LAUNCH_OF(
            global_backward, c->dtype, dti_grid_of(a->n * j.pixels * j.groups), a->queue, j);
    else
        DT_LAUNCH_OF(global_forward, c->dtype, dti_grid_of(a->n * j.groups), a->queue, j);
    return dt_cuda_launched("global_avgpool", err);
}

DT_CUDA_TABLE(global_avgpool, NULL, NULL, global_avgpool_run, NULL);
