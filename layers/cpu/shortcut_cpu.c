/* The shortcut on the processor. */
#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/shape/shortcut.h"
#include "layers/cpu/tasks.h"

/* Tasks are rows of pixels, counted through all samples: of y forward, of dx backward. */
struct job {
    dt_shape x, y;
    int64_t stride, front; /* front: channels of zeros before the input's */
    int64_t each;          /* bytes of a value, which is only copied */
    const char *from;
    char *to;
};

static void put(const struct job *j, char *to, const char *from, int64_t n)
{
    memcpy(to, from, (size_t)(n * j->each));
}

static void zero(const struct job *j, char *to, int64_t n)
{
    memset(to, 0, (size_t)(n * j->each));
}

static void forward_row(const void *job, int64_t r)
{
    const struct job *j = job;
    const int64_t n = r / j->y.h, p = r % j->y.h, c = j->x.c;
    const char *x = j->from + (n * j->x.h + p * j->stride) * j->x.w * c * j->each;
    char *y = j->to + r * j->y.w * j->y.c * j->each;
    for (int64_t q = 0; q < j->y.w; q++, y += j->y.c * j->each) {
        zero(j, y, j->front);
        put(j, y + j->front * j->each, x + q * j->stride * c * j->each, c);
        zero(j, y + (j->front + c) * j->each, j->y.c - j->front - c);
    }
}

static void backward_row(const void *job, int64_t r)
{
    const struct job *j = job;
    const int64_t n = r / j->x.h, p = r % j->x.h, c = j->x.c;
    char *dx = j->to + r * j->x.w * c * j->each;
    zero(j, dx, j->x.w * c);
    if (p % j->stride != 0)
        return;
    const int64_t row = (n * j->y.h + p / j->stride) * j->y.w * j->y.c;
    const char *dy = j->from + (row + j->front) * j->each;
    for (int64_t q = 0; q < j->y.w; q++)
        put(j, dx + q * j->stride * c * j->each, dy + q * j->y.c * j->each, c);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shortcut *o = c->node->opts;
    const bool back = c->form == DT_BACKWARD;
    struct job j = {.x = dti_call_x(c),
        .y = c->node->info.y,
        .stride = o->stride,
        .each = (int64_t)dt_dtype_bytes(c->dtype),
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y]};
    j.front = (j.y.c - j.x.c) / 2;
    dti_run_tasks(a->n * (back ? j.x.h : j.y.h), back ? backward_row : forward_row, &j);
    return DT_OK;
}

const dt_kernels dt_shortcut_cpu = {.run = run};
