/* Upsampling on the processor. */
#include "layers/shape/upsample.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/value.h"

enum { TILE = 64 }; /* channels added up at a time */

/* Tasks are rows of x, counted through all samples; each row makes, or is made from, factor rows of
 * the large map. */
struct job {
    dt_shape x;
    int64_t factor;
    dt_dtype t;
    const void *from;
    void *to;
};

static void forward_row(const void *job, int64_t r)
{
    const struct job *j = job;
    const int64_t w = j->x.w, c = j->x.c, wide = w * j->factor * c;
    const size_t pixel = (size_t)c * dt_dtype_bytes(j->t), row = pixel * (size_t)(w * j->factor);
    char *y = dti_to(j->to, r * j->factor * wide, j->t), *at = y;
    const char *x = dti_from(j->from, r * w * c, j->t);
    for (int64_t q = 0; q < w; q++, x += pixel)
        for (int64_t k = 0; k < j->factor; k++, at += pixel)
            memcpy(at, x, pixel);
    for (int64_t k = 1; k < j->factor; k++)
        memcpy(y + (size_t)k * row, y, row);
}

/* dy: the first channel wanted of the first pixel. */
DT_INLINE void sum_block(
    const void *dy, void *dx, int64_t c, int64_t factor, int64_t wide, int n, dt_dtype t)
{
    float sum[TILE] = {0};
    for (int64_t i = 0; i < factor; i++)
        for (int64_t k = 0; k < factor; k++) {
            const void *v = dti_from(dy, i * wide + k * c, t);
#pragma omp simd
            for (int e = 0; e < n; e++)
                sum[e] += dti_load(v, e, t);
        }
#pragma omp simd
    for (int e = 0; e < n; e++)
        dti_store(dx, e, t, sum[e]);
}

DT_INLINE void sum_row(const struct job *j, int64_t r, dt_dtype t)
{
    const int64_t w = j->x.w, c = j->x.c, wide = w * j->factor * c;
    for (int64_t q = 0; q < w; q++)
        for (int64_t at = 0; at < c; at += TILE)
            sum_block(dti_from(j->from, r * j->factor * wide + q * j->factor * c + at, t),
                dti_to(j->to, (r * w + q) * c + at, t), c, j->factor, wide,
                c - at < TILE ? (int)(c - at) : TILE, t);
}

DT_CLONES static void sum_row_f32(const struct job *j, int64_t r)
{
    sum_row(j, r, DT_F32);
}

DT_CLONES static void sum_row_bf16(const struct job *j, int64_t r)
{
    sum_row(j, r, DT_BF16);
}

static void backward_row(const void *job, int64_t r)
{
    const struct job *j = job;
    if (j->t == DT_BF16)
        sum_row_bf16(j, r);
    else
        sum_row_f32(j, r);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const bool back = c->form == DT_BACKWARD;
    const struct job j = {.x = dti_call_x(c),
        .factor = ((const dt_upsample *)c->node->opts)->factor,
        .t = c->dtype,
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y]};
    dti_run_tasks(a->n * j.x.h, back ? backward_row : forward_row, &j);
    return DT_OK;
}

const dt_kernels dt_upsample_cpu = {.run = run};
