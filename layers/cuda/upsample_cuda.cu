/* Upsampling on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/shape/upsample.h"
DT_C_HEADERS_END

/* A thread makes up to eight channels of a pixel: of y forward, of dx backward. */
typedef struct upsample_job {
    const void *from;
    void *to;
    int64_t h, w, channels, factor, samples, groups; /* h, w: of x */
    bool wide;
} upsample_job;

DT_DEVICE void upsample_forward(const upsample_job *j, dt_dtype t)
{
    const int64_t h = j->h * j->factor, w = j->w * j->factor;
    for (int64_t i = dti_first(); i < j->samples * h * w * j->groups; i += dti_stride()) {
        const dti_place p = dti_place_of(i, h, w, j->groups);
        const int64_t c = p.group * DTI_FEW, y = ((p.sample * h + p.row) * w + p.col) * j->channels;
        const int64_t row = p.sample * j->h + dti_quotient(p.row, j->factor);
        const int64_t x = (row * j->w + dti_quotient(p.col, j->factor)) * j->channels;
        const int n = dti_few(c, j->channels);
        float v[DTI_FEW];
        dti_take(j->from, x + c, n, j->wide, t, v);
        dti_put(j->to, y + c, n, j->wide, t, v);
    }
}

DT_KERNELS(upsample_forward, upsample_job)

DT_DEVICE void upsample_backward(const upsample_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->h * j->w * j->groups, wide = j->w * j->factor;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->h, j->w, j->groups);
        const int64_t c = p.group * DTI_FEW, line = p.sample * j->h + p.row;
        const int n = dti_few(c, j->channels);
        float sum[DTI_FEW] = {0}, v[DTI_FEW];
        for (int64_t r = 0; r < j->factor; r++)
            for (int64_t q = 0; q < j->factor; q++) {
                const int64_t pixel = (line * j->factor + r) * wide + p.col * j->factor + q;
                dti_take(j->from, pixel * j->channels + c, n, j->wide, t, v);
                DT_UNROLL(8)
                for (int k = 0; k < DTI_FEW; k++)
                    sum[k] += v[k];
            }
        dti_put(j->to, (line * j->w + p.col) * j->channels + c, n, j->wide, t, sum);
    }
}

DT_KERNELS(upsample_backward, upsample_job)

static dt_status upsample_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const bool back = c->form == DT_BACKWARD;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    upsample_job j;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.h = x.h;
    j.w = x.w;
    j.channels = x.c;
    j.factor = ((const dt_upsample *)c->node->opts)->factor;
    j.samples = a->n;
    j.groups = dti_ceil_div(x.c, DTI_FEW);
    j.wide = dti_wide(j.from) && dti_wide(j.to) && dti_wide_rows(x.c, c->dtype);
    const int64_t items = j.samples * j.h * j.w * j.groups;
    if (back)
        DT_LAUNCH_OF(upsample_backward, c->dtype, dti_grid_of(items), a->queue, j);
    else
        DT_LAUNCH_OF(
            upsample_forward, c->dtype, dti_grid_of(items * j.factor * j.factor), a->queue, j);
    return dt_cuda_launched("upsample", err);
}

DT_CUDA_TABLE(upsample, NULL, NULL, upsample_run, NULL);
