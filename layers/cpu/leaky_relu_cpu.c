/* Leaky ReLU on the processor. */
#include "layers/elementwise/leaky_relu.h"

#include "layers/cpu/cpu.h"
#include "layers/elementwise/curves.h"
#include "layers/value.h"

/* Forward and backward are one: what is above zero in @sign goes through, the rest times the slope.
 * In forward @sign and @from are x; in backward y and dy. */
struct job {
    dt_dtype type;
    float slope;
    int64_t count;
    const void *sign, *from;
    void *to;
};

DT_INLINE void piece(struct job j, dti_span s, dt_dtype t)
{
#pragma omp simd
    for (int64_t i = s.begin; i < s.end; i++) {
        const float v = dti_load(j.from, i, t), sign = dti_load(j.sign, i, t);
        const float below = dti_select(sign <= 0.0f, j.slope * v, sign); /* which is no number */
        dti_store(j.to, i, t, dti_select(sign > 0.0f, v, below));
    }
}

DT_CLONES static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->count, DTI_GRAIN, i);
    if (j->type == DT_BF16)
        piece(*j, s, DT_BF16);
    else
        piece(*j, s, DT_F32);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const bool back = c->form == DT_BACKWARD;
    const struct job j = {.type = c->dtype,
        .slope = (float)((const dt_leaky_relu *)c->node->opts)->slope,
        .count = a->n * dt_shape_sample(&c->node->info.y),
        .sign = a->port[back ? DT_Y : DT_X],
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y]};
    dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), task, &j);
    return DT_OK;
}

const dt_kernels dt_leaky_relu_cpu = {.run = run};
