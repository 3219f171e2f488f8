/* ReLU on the processor. */
#include "layers/cpu/cpu.h"
#include "layers/cpu/mask.h"

DT_INLINE void relu(const void *x, void *y, int64_t n, dt_dtype t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_store(y, i, t, dti_rectify(dti_load(x, i, t)));
}

#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void forward_##name(const void *x, void *y, uint8_t *mask, int64_t n)         \
    {                                                                                              \
        relu(x, y, n, t);                                                                          \
        if (mask != NULL)                                                                          \
            dti_mask_write(y, mask, n, t);                                                         \
    }

FOR_TYPE(f32, DT_F32)
FOR_TYPE(bf16, DT_BF16)

/* Tasks are pieces of one sample, because each sample's mask starts a byte. */
struct job {
    const dt_args *a;
    dt_dtype t;
    int64_t elements, pieces;
};

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->pieces;
    const dt_span s = dt_span_of(j->elements, DT_GRAIN, i % j->pieces);
    const int64_t at = sample * j->elements + s.begin;
    (j->t == DT_BF16 ? forward_bf16 : forward_f32)(dti_from(j->a->port[DT_X], at, j->t),
        dti_to(j->a->port[DT_Y], at, j->t), dti_mask_of(j->a, j->elements, sample, s.begin),
        s.end - s.begin);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    if (c->form == DT_BACKWARD) {
        dti_relu_gradient(c, a);
        return DT_OK;
    }
    const dt_shape x = dti_call_x(c);
    struct job j = {.a = a, .t = c->dtype, .elements = dt_shape_sample(&x)};
    j.pieces = dt_ceil_div(j.elements, DT_GRAIN);
    dti_run_tasks(a->n * j.pieces, forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_relu_cpu = {.run = run};
