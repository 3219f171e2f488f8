/* Zeros around a map, on the processor. */
#include "layers/shape/zero_pad.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/value.h"

/* Tasks are rows, of y forward and of dx backward, counted through all samples. */
struct job {
    dt_shape x, y;
    int64_t top, left;
    size_t pixel; /* bytes of one */
    const char *from;
    char *to;
};

/* Where row @r of x lies within y. */
static size_t within(const struct job *j, int64_t sample, int64_t r)
{
    return (size_t)((sample * j->y.h + r + j->top) * j->y.w + j->left) * j->pixel;
}

static void forward_row(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->y.h, r = i % j->y.h - j->top;
    const size_t row = (size_t)j->y.w * j->pixel, inner = (size_t)j->x.w * j->pixel;
    char *y = j->to + (size_t)i * row;
    if (r < 0 || r >= j->x.h) {
        memset(y, 0, row);
        return;
    }
    const size_t left = (size_t)j->left * j->pixel;
    memset(y, 0, left);
    memcpy(y + left, j->from + (size_t)(sample * j->x.h + r) * inner, inner);
    memset(y + left + inner, 0, row - left - inner);
}

static void backward_row(const void *job, int64_t i)
{
    const struct job *j = job;
    const size_t inner = (size_t)j->x.w * j->pixel;
    memcpy(j->to + (size_t)i * inner, j->from + within(j, i / j->x.h, i % j->x.h), inner);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const bool back = c->form == DT_BACKWARD;
    const dti_zero_pad *o = c->node->opts;
    struct job j = {.x = dti_call_x(c), .y = c->node->info.y};
    j.top = dt_sides_h(o->pad);
    j.left = dt_sides_w(o->pad);
    j.pixel = (size_t)j.x.c * dt_dtype_bytes(c->dtype);
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    dti_run_tasks(a->n * (back ? j.x.h : j.y.h), back ? backward_row : forward_row, &j);
    return DT_OK;
}

const dt_kernels dt_zero_pad_cpu = {.run = run};
