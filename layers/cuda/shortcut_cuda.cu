/* The shortcut on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/shape/shortcut.h"
DT_C_HEADERS_END

/* A thread makes up to eight channels of a pixel: of y forward, of dx backward. */
typedef struct shortcut_job {
    const void *from;
    void *to;
    dt_shape x, y;
    int64_t stride, front, samples, groups; /* front: channels of zeros before the input's */
    bool wide;
} shortcut_job;

DT_DEVICE void shortcut_forward(const shortcut_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->y.h * j->y.w * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->y.h, j->y.w, j->groups);
        const int64_t c = p.group * DTI_FEW;
        const int64_t row = p.sample * j->x.h + p.row * j->stride;
        const int64_t x = (row * j->x.w + p.col * j->stride) * j->x.c - j->front;
        const int64_t y = ((p.sample * j->y.h + p.row) * j->y.w + p.col) * j->y.c;
        float v[DTI_FEW];
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++) {
            const bool inside = c + k >= j->front && c + k < j->front + j->x.c;
            v[k] = inside ? dti_load(j->from, x + c + k, t) : 0.0f;
        }
        dti_put(j->to, y + c, dti_few(c, j->y.c), j->wide, t, v);
    }
}

DT_KERNELS(shortcut_forward, shortcut_job)

DT_DEVICE void shortcut_backward(const shortcut_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->x.h * j->x.w * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->x.h, j->x.w, j->groups);
        const int64_t c = p.group * DTI_FEW;
        const int64_t row = dti_quotient(p.row, j->stride), col = dti_quotient(p.col, j->stride);
        const bool taken = row * j->stride == p.row && col * j->stride == p.col;
        const int64_t y = ((p.sample * j->y.h + row) * j->y.w + col) * j->y.c + j->front;
        const int64_t x = ((p.sample * j->x.h + p.row) * j->x.w + p.col) * j->x.c;
        const int n = dti_few(c, j->x.c);
        float v[DTI_FEW];
        dti_take(j->from, y + c, taken ? n : 0, false, t, v);
        dti_put(j->to, x + c, n, j->wide, t, v);
    }
}

DT_KERNELS(shortcut_backward, shortcut_job)

static dt_status shortcut_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shortcut *o = (const dt_shortcut *)c->node->opts;
    const bool back = c->form == DT_BACKWARD;
    shortcut_job j;
    j.x = dt_graph_shape(c->graph, c->node->in[0]);
    j.y = c->node->info.y;
    const dt_shape made = back ? j.x : j.y;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.stride = o->stride;
    j.front = (j.y.c - j.x.c) / 2;
    j.samples = a->n;
    j.groups = dti_ceil_div(made.c, DTI_FEW);
    j.wide = dti_wide(j.to) && dti_wide_rows(made.c, c->dtype);
    const dti_grid g = dti_grid_of(j.samples * made.h * made.w * j.groups);
    if (back)
        DT_LAUNCH_OF(shortcut_backward, c->dtype, g, a->queue, j);
    else
        DT_LAUNCH_OF(shortcut_forward, c->dtype, g, a->queue, j);
    return dt_cuda_launched("shortcut", err);
}

DT_CUDA_TABLE(shortcut, NULL, NULL, shortcut_run, NULL);
