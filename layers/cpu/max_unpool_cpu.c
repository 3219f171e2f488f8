/* Max unpooling on the processor. */
#include "layers/pool/max_unpool.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/pool/pool.h"
#include "layers/value.h"

/* Tasks are rows of windows, of all samples; no two windows share a pixel. */
struct job {
    const dt_args *a;
    dt_dtype t;
    dti_windows p;
    dt_shape x, y;
};

/* What a position is in the stash. */
DT_INLINE uint8_t place_of(const struct job *j, float position)
{
    const int64_t places = j->p.h.kernel * j->p.w.kernel;
    const bool whole = position >= 0.0f && position < (float)places;
    const int at = whole ? (int)position : 0;
    return whole && (float)at == position ? (uint8_t)at : DTI_UNPOOL_NOWHERE;
}

/* The pixel of the window in row, col that is its place @at: its first element in y or dy; -1 where
 * there is none. */
DT_INLINE int64_t pixel_at(const struct job *j, int64_t sample, int64_t row, int64_t col, int at)
{
    const int64_t wide = j->p.w.kernel;
    const int64_t r = row * j->p.h.stride - j->p.h.pad + at / wide;
    const int64_t q = col * j->p.w.stride - j->p.w.pad + at % wide;
    const bool inside = at < j->p.h.kernel * wide && r >= 0 && r < j->y.h && q >= 0 && q < j->y.w;
    return inside ? ((sample * j->y.h + r) * j->y.w + q) * j->y.c : -1;
}

/* Rows of y that belong to a row of windows: up to the next one's; the first has those above, the
 * last those below. */
static dti_span own_rows(const struct job *j, int64_t row)
{
    const int64_t begin = row * j->p.h.stride - j->p.h.pad, end = begin + j->p.h.stride;
    const bool last = row + 1 == j->x.h || end > j->y.h;
    return (dti_span){begin > 0 ? begin : 0, last ? j->y.h : end};
}

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->x.h, row = i % j->x.h, c_all = j->x.c;
    const dti_span own = own_rows(j, row);
    void *y = j->a->port[DT_Y];
    uint8_t *index = j->a->port[DT_S];
    if (own.begin < own.end)
        memset(dti_to(y, (sample * j->y.h + own.begin) * j->y.w * c_all, j->t), 0,
            (size_t)((own.end - own.begin) * j->y.w * c_all) * dt_dtype_bytes(j->t));
    for (int64_t col = 0; col < j->x.w; col++)
        for (int64_t c = 0; c < c_all; c++) {
            const int64_t e = (i * j->x.w + col) * c_all + c;
            const uint8_t at = place_of(j, dti_load(j->a->port[DT_X + 1], e, j->t));
            const int64_t to = pixel_at(j, sample, row, col, at);
            if (index != NULL)
                index[e] = at;
            if (to >= 0)
                dti_store(y, to + c, j->t, dti_load(j->a->port[DT_X], e, j->t));
        }
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->x.h, row = i % j->x.h, c_all = j->x.c;
    const uint8_t *index = j->a->port[DT_S];
    for (int64_t col = 0; col < j->x.w && j->a->port[DT_DX] != NULL; col++)
        for (int64_t c = 0; c < c_all; c++) {
            const int64_t e = (i * j->x.w + col) * c_all + c;
            const int64_t from = pixel_at(j, sample, row, col, index[e]);
            dti_store(j->a->port[DT_DX], e, j->t,
                from >= 0 ? dti_load(j->a->port[DT_DY], from + c, j->t) : 0.0f);
        }
    const size_t bytes = (size_t)(j->x.w * c_all) * dt_dtype_bytes(j->t);
    if (j->a->port[DT_DX + 1] != NULL) /* positions are no smooth function of anything */
        memset((char *)j->a->port[DT_DX + 1] + (size_t)i * bytes, 0, bytes);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_max_unpool *o = c->node->opts;
    const struct job j = {.a = a,
        .t = c->dtype,
        .p = dti_windows_of(o->kernel, o->stride, o->pad, false),
        .x = dti_call_x(c),
        .y = c->node->info.y};
    dti_run_tasks(a->n * j.x.h, c->form == DT_BACKWARD ? backward_task : forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_max_unpool_cpu = {.run = run};
