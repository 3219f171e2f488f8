/* Average pooling on the card, of windows and to a given size. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/pool/adaptive_avgpool.h"
#include "layers/pool/avgpool.h"
#include "layers/pool/pool.h"
DT_C_HEADERS_END

/* Means over windows: of avgpool, and of adaptive_avgpool, whose windows cut the map into as many
 * parts as the output has pixels. A thread works on one pixel (of y forward, of x backward) and up
 * to eight channels; backward gathers, in the order of windows. */
typedef struct avgpool_job {
    const void *from;
    void *to;
    dti_windows p;
    bool adaptive, include_pad, wide;
    dt_shape x, y;
    int64_t samples, groups;
} avgpool_job;

/* Part i of @n when @size pixels are cut into n. */
DT_DEVICE dti_span avgpool_part(int64_t i, int64_t n, int64_t size)
{
    dti_span s;
    s.begin = dti_quotient(i * size, n);
    s.end = dti_quotient((i + 1) * size + n - 1, n);
    return s;
}

/* Pixels of window i, of @windows, along one side. */
DT_DEVICE dti_span avgpool_span(
    const avgpool_job *j, const dti_window_side *p, int64_t i, int64_t size, int64_t windows)
{
    return j->adaptive ? avgpool_part(i, windows, size) : dti_window_span(p, i, size);
}

/* And how many they count as. */
DT_DEVICE int64_t avgpool_length(
    const avgpool_job *j, const dti_window_side *p, int64_t i, int64_t size, int64_t windows)
{
    const dti_span inside = avgpool_span(j, p, i, size, windows);
    const int64_t begin = i * p->stride - p->pad, end = begin + p->kernel;
    const int64_t most = size + p->pad;
    if (j->adaptive || !j->include_pad)
        return inside.end - inside.begin;
    return (end < most ? end : most) - begin;
}

/* Windows that hold pixel r. The parts' formula is its own inverse. */
DT_DEVICE dti_span avgpool_windows(
    const avgpool_job *j, const dti_window_side *p, int64_t r, int64_t size, int64_t windows)
{
    const dti_span here = {r, r + 1};
    return j->adaptive ? avgpool_part(r, size, windows) : dti_windows_reaching(p, here, windows);
}

DT_DEVICE float avgpool_over(const avgpool_job *j, int64_t row, int64_t col)
{
    return (float)(avgpool_length(j, &j->p.h, row, j->x.h, j->y.h) *
                   avgpool_length(j, &j->p.w, col, j->x.w, j->y.w));
}

/* Sums row by row first, which keeps the error of large windows small. */
DT_DEVICE void avgpool_forward(const avgpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->y.h * j->y.w * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->y.h, j->y.w, j->groups);
        const dti_span h = avgpool_span(j, &j->p.h, p.row, j->x.h, j->y.h);
        const dti_span w = avgpool_span(j, &j->p.w, p.col, j->x.w, j->y.w);
        const int64_t c = p.group * DTI_FEW;
        const int n = dti_few(c, j->x.c);
        const float over = avgpool_over(j, p.row, p.col);
        float sum[DTI_FEW] = {0}, v[DTI_FEW];
        for (int64_t r = h.begin; r < h.end; r++) {
            float line[DTI_FEW] = {0};
            for (int64_t q = w.begin; q < w.end; q++) {
                dti_take(
                    j->from, ((p.sample * j->x.h + r) * j->x.w + q) * j->x.c + c, n, j->wide, t, v);
                DT_UNROLL(8)
                for (int k = 0; k < DTI_FEW; k++)
                    line[k] += v[k];
            }
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                sum[k] += line[k];
        }
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            sum[k] /= over;
        dti_put(
            j->to, ((p.sample * j->y.h + p.row) * j->y.w + p.col) * j->y.c + c, n, j->wide, t, sum);
    }
}

DT_KERNELS(avgpool_forward, avgpool_job)

DT_DEVICE void avgpool_backward(const avgpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->x.h * j->x.w * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->x.h, j->x.w, j->groups);
        const dti_span rows = avgpool_windows(j, &j->p.h, p.row, j->x.h, j->y.h);
        const dti_span cols = avgpool_windows(j, &j->p.w, p.col, j->x.w, j->y.w);
        const int64_t c = p.group * DTI_FEW;
        const int n = dti_few(c, j->x.c);
        float sum[DTI_FEW] = {0}, v[DTI_FEW];
        for (int64_t r = rows.begin; r < rows.end; r++)
            for (int64_t q = cols.begin; q < cols.end; q++) {
                const float over = avgpool_over(j, r, q);
                dti_take(
                    j->from, ((p.sample * j->y.h + r) * j->y.w + q) * j->y.c + c, n, j->wide, t, v);
                DT_UNROLL(8)
                for (int k = 0; k < DTI_FEW; k++)
                    sum[k] += v[k] / over;
            }
        dti_put(
            j->to, ((p.sample * j->x.h + p.row) * j->x.w + p.col) * j->x.c + c, n, j->wide, t, sum);
    }
}

DT_KERNELS(avgpool_backward, avgpool_job)

static dt_status avgpool_launch(avgpool_job j, const dt_call *c, const dt_args *a, dt_err *err)
{
    const bool back = c->form == DT_BACKWARD;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.x = dt_graph_shape(c->graph, c->node->in[0]);
    j.y = c->node->info.y;
    j.samples = a->n;
    j.groups = dti_ceil_div(j.x.c, DTI_FEW);
    j.wide = dti_wide(j.from) && dti_wide(j.to) && dti_wide_rows(j.x.c, c->dtype);
    if (back) {
        const dti_grid g = dti_grid_of(j.samples * j.x.h * j.x.w * j.groups);
        DT_LAUNCH_OF(avgpool_backward, c->dtype, g, a->queue, j);
    } else {
        const dti_grid g = dti_grid_of(j.samples * j.y.h * j.y.w * j.groups);
        DT_LAUNCH_OF(avgpool_forward, c->dtype, g, a->queue, j);
    }
    return dt_cuda_launched(c->node->desc->name, err);
}

static dt_status avgpool_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_avgpool *o = (const dt_avgpool *)c->node->opts;
    avgpool_job j;
    memset(&j, 0, sizeof j);
    j.p = dti_windows_of(o->kernel, o->stride, o->pad, o->ceil);
    j.include_pad = o->include_pad;
    return avgpool_launch(j, c, a, err);
}

static dt_status adaptive_avgpool_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    avgpool_job j;
    memset(&j, 0, sizeof j);
    j.adaptive = true;
    return avgpool_launch(j, c, a, err);
}

DT_CUDA_TABLE(avgpool, NULL, NULL, avgpool_run, NULL);
DT_CUDA_TABLE(adaptive_avgpool, NULL, NULL, adaptive_avgpool_run, NULL);
