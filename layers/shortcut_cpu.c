#include <string.h>

#include "layers/cpu.h"
#include "layers/shortcut.h"
#include "layers/team.h"

/* Tasks are rows of pixels, counted through all samples: of y forward, of dx backward. */
struct job {
    dt_shape x, y;
    int64_t stride, front; /* front: channels of zeros before the input's */
    const float *from;
    float *to;
};

static void put(float *to, const float *from, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

static void zero(float *to, int64_t n)
{
    memset(to, 0, (size_t)n * sizeof *to);
}

static void forward_row(const void *job, int64_t r)
{
    const struct job *j = job;
    const int64_t n = r / j->y.h, p = r % j->y.h, c = j->x.c;
    const float *x = j->from + (n * j->x.h + p * j->stride) * j->x.w * c;
    float *y = j->to + r * j->y.w * j->y.c;
    for (int64_t q = 0; q < j->y.w; q++, y += j->y.c) {
        zero(y, j->front);
        put(y + j->front, x + q * j->stride * c, c);
        zero(y + j->front + c, j->y.c - j->front - c);
    }
}

static void backward_row(const void *job, int64_t r)
{
    const struct job *j = job;
    const int64_t n = r / j->x.h, p = r % j->x.h, c = j->x.c;
    float *dx = j->to + r * j->x.w * c;
    zero(dx, j->x.w * c);
    if (p % j->stride != 0)
        return;
    const float *dy = j->from + (n * j->y.h + p / j->stride) * j->y.w * j->y.c + j->front;
    for (int64_t q = 0; q < j->y.w; q++)
        put(dx + q * j->stride * c, dy + q * j->y.c, c);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shortcut *o = c->node->opts;
    const bool back = c->form == DT_BACKWARD;
    struct job j = {.x = dt_call_x(c),
        .y = c->node->info.y,
        .stride = o->stride,
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y]};
    j.front = (j.y.c - j.x.c) / 2;
    dt_team(a->n * (back ? j.x.h : j.y.h), back ? backward_row : forward_row, &j);
    return DT_OK;
}

const dt_kernels dt_shortcut_cpu = {.run = run};
