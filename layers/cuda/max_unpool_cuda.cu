/* Max unpooling on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/pool/max_unpool.h"
#include "layers/pool/pool.h"
DT_C_HEADERS_END

/* A thread makes an element: of y or of the stash forward, of dx backward. */
typedef struct unpool_job {
    const void *x, *position, *dy;
    void *y, *dx;
    uint8_t *index;
    dti_windows p;
    dt_shape xs, ys;
    int64_t samples;
} unpool_job;

/* The stash's place of a position. */
DT_DEVICE int unpool_place(const unpool_job *j, float position)
{
    const int64_t places = j->p.h.kernel * j->p.w.kernel;
    const bool whole = position >= 0.0f && position < (float)places;
    const int at = whole ? (int)position : 0;
    return whole && (float)at == position ? at : (int)DTI_UNPOOL_NOWHERE;
}

DT_DEVICE void unpool_note(const unpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * dt_shape_sample(&j->xs);
    for (int64_t i = dti_first(); i < items; i += dti_stride())
        j->index[i] = (uint8_t)unpool_place(j, dti_load(j->position, i, t));
}

DT_KERNELS(unpool_note, unpool_job)

/* The window of row or column @r, and its place there; false where no window reaches. */
DT_DEVICE bool unpool_window(
    const dti_window_side *p, int64_t r, int64_t windows, int64_t *window, int64_t *place)
{
    *window = dti_quotient(r + p->pad, p->stride);
    *place = r + p->pad - *window * p->stride;
    return *window < windows && *place < p->kernel;
}

DT_DEVICE void unpool_forward(const unpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * dt_shape_sample(&j->ys);
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->ys.h, j->ys.w, j->ys.c);
        int64_t row, col, r, q;
        float v = 0;
        if (unpool_window(&j->p.h, p.row, j->xs.h, &row, &r) &&
            unpool_window(&j->p.w, p.col, j->xs.w, &col, &q)) {
            const int64_t e = ((p.sample * j->xs.h + row) * j->xs.w + col) * j->xs.c + p.group;
            const int place = unpool_place(j, dti_load(j->position, e, t));
            v = place == r * j->p.w.kernel + q ? dti_load(j->x, e, t) : 0.0f;
        }
        dti_store(j->y, i, t, v);
    }
}

DT_KERNELS(unpool_forward, unpool_job)

DT_DEVICE void unpool_backward(const unpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * dt_shape_sample(&j->xs), wide = j->p.w.kernel;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->xs.h, j->xs.w, j->xs.c);
        const int at = j->index[i];
        const int64_t r = p.row * j->p.h.stride - j->p.h.pad + dti_quotient(at, wide);
        const int64_t q = p.col * j->p.w.stride - j->p.w.pad + (at - dti_quotient(at, wide) * wide);
        const bool inside =
            at < j->p.h.kernel * wide && r >= 0 && r < j->ys.h && q >= 0 && q < j->ys.w;
        const int64_t from = ((p.sample * j->ys.h + r) * j->ys.w + q) * j->ys.c + p.group;
        dti_store(j->dx, i, t, inside ? dti_load(j->dy, from, t) : 0.0f);
    }
}

DT_KERNELS(unpool_backward, unpool_job)

/* Zeros: positions are no smooth function of anything. */
DT_DEVICE void unpool_clear(const unpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * dt_shape_sample(&j->xs);
    for (int64_t i = dti_first(); i < items; i += dti_stride())
        dti_store(j->dx, i, t, 0.0f);
}

DT_KERNELS(unpool_clear, unpool_job)

static dt_status unpool_gradients(unpool_job j, const dt_call *c, const dt_args *a, dt_err *err)
{
    const dti_grid g = dti_grid_of(j.samples * dt_shape_sample(&j.xs));
    if (j.dx != NULL)
        DT_LAUNCH_OF(unpool_backward, c->dtype, g, a->queue, j);
    j.dx = a->port[DT_DX + 1];
    if (j.dx != NULL)
        DT_LAUNCH_OF(unpool_clear, c->dtype, g, a->queue, j);
    return dt_cuda_launched("max_unpool backward", err);
}

static dt_status max_unpool_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_max_unpool *o = (const dt_max_unpool *)c->node->opts;
    unpool_job j;
    memset(&j, 0, sizeof j);
    j.x = a->port[DT_X];
    j.position = a->port[DT_X + 1];
    j.dy = a->port[DT_DY];
    j.y = a->port[DT_Y];
    j.dx = a->port[DT_DX];
    j.index = (uint8_t *)a->port[DT_S];
    j.p = dti_windows_of(o->kernel, o->stride, o->pad, false);
    j.xs = dt_graph_shape(c->graph, c->node->in[0]);
    j.ys = c->node->info.y;
    j.samples = a->n;
    if (c->form == DT_BACKWARD)
        return unpool_gradients(j, c, a, err);
    if (j.index != NULL) {
        const dti_grid g = dti_grid_of(j.samples * dt_shape_sample(&j.xs));
        DT_LAUNCH_OF(unpool_note, c->dtype, g, a->queue, j);
    }
    DT_LAUNCH_OF(
        unpool_forward, c->dtype, dti_grid_of(j.samples * dt_shape_sample(&j.ys)), a->queue, j);
    return dt_cuda_launched("max_unpool forward", err);
}

DT_CUDA_TABLE(max_unpool, NULL, NULL, max_unpool_run, NULL);
