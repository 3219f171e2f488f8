/* Zeros around a map, on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/shape/zero_pad.h"
DT_C_HEADERS_END

/* A thread makes up to eight channels of a pixel: of y forward, of dx backward. */
typedef struct zero_pad_job {
    const void *from;
    void *to;
    dt_shape x, y;
    int64_t top, left, samples, groups;
    bool wide;
} zero_pad_job;

DT_DEVICE void zero_pad_forward(const zero_pad_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->y.h * j->y.w * j->groups, channels = j->x.c;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->y.h, j->y.w, j->groups);
        const int64_t c = p.group * DTI_FEW, row = p.row - j->top, col = p.col - j->left;
        const int64_t y = ((p.sample * j->y.h + p.row) * j->y.w + p.col) * channels;
        const int n = dti_few(c, channels);
        float v[DTI_FEW] = {0};
        if (row >= 0 && row < j->x.h && col >= 0 && col < j->x.w)
            dti_take(j->from, ((p.sample * j->x.h + row) * j->x.w + col) * channels + c, n, j->wide,
                t, v);
        dti_put(j->to, y + c, n, j->wide, t, v);
    }
}

DT_KERNELS(zero_pad_forward, zero_pad_job)

DT_DEVICE void zero_pad_backward(const zero_pad_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->x.h * j->x.w * j->groups, channels = j->x.c;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->x.h, j->x.w, j->groups);
        const int64_t c = p.group * DTI_FEW, row = p.row + j->top, col = p.col + j->left;
        const int64_t x = ((p.sample * j->x.h + p.row) * j->x.w + p.col) * channels;
        const int n = dti_few(c, channels);
        float v[DTI_FEW];
        dti_take(
            j->from, ((p.sample * j->y.h + row) * j->y.w + col) * channels + c, n, j->wide, t, v);
        dti_put(j->to, x + c, n, j->wide, t, v);
    }
}

DT_KERNELS(zero_pad_backward, zero_pad_job)

static dt_status zero_pad_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const bool back = c->form == DT_BACKWARD;
    const dti_zero_pad *o = (const dti_zero_pad *)c->node->opts;
    zero_pad_job j;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.x = dt_graph_shape(c->graph, c->node->in[0]);
    j.y = c->node->info.y;
    j.top = dt_sides_h(o->pad);
    j.left = dt_sides_w(o->pad);
    j.samples = a->n;
    j.groups = dti_ceil_div(j.x.c, DTI_FEW);
    j.wide = dti_wide(j.from) && dti_wide(j.to) && dti_wide_rows(j.x.c, c->dtype);
    const dt_shape *made = back ? &j.x : &j.y;
    const int64_t items = j.samples * made->h * made->w * j.groups;
    if (back)
        DT_LAUNCH_OF(zero_pad_backward, c->dtype, dti_grid_of(items), a->queue, j);
    else
        DT_LAUNCH_OF(zero_pad_forward, c->dtype, dti_grid_of(items), a->queue, j);
    return dt_cuda_launched("zero_pad", err);
}

DT_CUDA_TABLE(zero_pad, NULL, NULL, zero_pad_run, NULL);
