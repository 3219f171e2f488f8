/* Axes in another order, on the processor. */
#include "layers/shape/permute.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/value.h"

/* Tasks are rows of the result, counted through all samples: neighbours along its channels. */
struct job {
    const void *from;
    void *to;
    dt_dtype type;
    dti_permute_walk walk;
    int64_t rows, each; /* each: rows of a task */
};

static void copy_row(const struct job *j, int64_t row)
{
    const int64_t *side = j->walk.side, *step = j->walk.step, line = row / side[1];
    const int64_t from = line / side[0] * (side[0] * side[1] * side[2]) + line % side[0] * step[0] +
                         row % side[1] * step[1];
    const int64_t to = row * side[2];
    const dt_dtype t = j->type;
    if (step[2] == 1)
        memcpy(
            dti_to(j->to, to, t), dti_from(j->from, from, t), (size_t)side[2] * dt_dtype_bytes(t));
    else if (t == DT_BF16)
        for (int64_t k = 0; k < side[2]; k++)
            ((dt_bf16 *)j->to)[to + k] = ((const dt_bf16 *)j->from)[from + k * step[2]];
    else
        for (int64_t k = 0; k < side[2]; k++)
            ((float *)j->to)[to + k] = ((const float *)j->from)[from + k * step[2]];
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, j->each, i);
    for (int64_t r = s.begin; r < s.end; r++)
        copy_row(j, r);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const bool back = c->form == DT_BACKWARD;
    const dti_permute *o = c->node->opts;
    struct job j = {.from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y],
        .type = c->dtype,
        .walk = dti_permute_walk_of(dti_call_x(c), o->order, back)};
    j.rows = a->n * j.walk.side[0] * j.walk.side[1];
    j.each = dti_ceil_div(DTI_GRAIN, j.walk.side[2]);
    dti_run_tasks(dti_ceil_div(j.rows, j.each), task, &j);
    return DT_OK;
}

const dt_kernels dt_permute_cpu = {.run = run};
