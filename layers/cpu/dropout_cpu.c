/* Dropout on the processor. */
#include "layers/elementwise/dropout.h"

#include <math.h>
#include <string.h>

#include "engine/base/draw.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"
#include "layers/elementwise/curves.h"
#include "layers/value.h"

enum { PIECE = 1 << 12, BLOCK = 256 }; /* elements of a task; numbers drawn at a time */
_Static_assert(BLOCK % (4 * DT_DRAW_LANES) == 0, "a block has whole vectors of draws");

struct job {
    const dt_args *a;
    const void *from;
    void *to;
    dt_dtype t;
    int64_t elements, pieces; /* of a sample */
    uint32_t least;           /* 24-bit draws below it are dropped */
    float scale;
    dt_draw_fn *draw;
};

/* Draws of 24 bits below @least drop a value. */
DT_CLONES static void apply(
    const float *x, const uint32_t *u, uint32_t least, float scale, float *y, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++)
        y[i] = dti_select(u[i] >> 8 < least, 0.0f, x[i] * scale);
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->pieces;
    const dti_span s = dti_span_of(j->elements, PIECE, i % j->pieces);
    const uint64_t first = (uint64_t)(j->a->sample0 + sample) * ((uint64_t)(j->elements + 3) / 4);
    uint32_t u[BLOCK];
    float buffer[BLOCK];
    for (int64_t e = s.begin; e < s.end; e += BLOCK) {
        const int64_t n = s.end - e < BLOCK ? s.end - e : BLOCK;
        const int64_t at = sample * j->elements + e;
        j->draw(j->a->seed, DT_RANDOM_DROPOUT, (uint32_t)j->a->layer, (uint64_t)j->a->step,
            first + (uint64_t)e / 4, u, dti_ceil_div(n, 4));
        float *y = dti_values_target(j->t, j->to, at, buffer);
        apply(dti_values_read(j->t, j->from, at, buffer, n), u, j->least, j->scale, y, (int)n);
        dti_values_write(j->t, j->to, at, y, n);
    }
}

static void copy_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->a->n * j->elements, DTI_GRAIN, i);
    memcpy(dti_to(j->to, s.begin, j->t), dti_from(j->from, s.begin, j->t),
        (size_t)(s.end - s.begin) * dt_dtype_bytes(j->t));
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_dropout *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    const bool back = c->form == DT_BACKWARD;
    struct job j = {
        .a = a,
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y],
        .t = c->dtype,
        .elements = dt_shape_sample(&x),
        .least = (uint32_t)ceil(o->rate * 0x1p24),
        .scale = o->rate < 1 ? (float)(1 / (1 - o->rate)) : 0,
        .draw = dt_draw_best(),
    };
    j.pieces = dti_ceil_div(j.elements, PIECE);
    if (c->form != DT_EVAL)
        dti_run_tasks(a->n * j.pieces, task, &j);
    else if (j.from != j.to)
        dti_run_tasks(dti_ceil_div(a->n * j.elements, DTI_GRAIN), copy_task, &j);
    return DT_OK;
}

const dt_kernels dt_dropout_cpu = {.run = run};
