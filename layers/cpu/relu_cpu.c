/* ReLU on the processor, and the gradient that it shares with add behind which a ReLU stands. */
#include "layers/cpu/cpu.h"
#include "layers/cpu/mask.h"

DT_INLINE void relu(const void *x, void *y, int64_t n, dt_dtype t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_store(y, i, t, dti_rectify(dti_load(x, i, t)));
}

/* dx[i] = on ? dy[i] : 0, as bits. The value is read in both cases, so that no branch is in a loop.
 */
DT_INLINE void pass_on(const void *dy, void *dx, int64_t i, bool on, dt_dtype t)
{
    if (t == DT_BF16) {
        const dt_bf16 given = ((const dt_bf16 *)dy)[i];
        ((dt_bf16 *)dx)[i] = on ? given : 0;
    } else {
        const float given = ((const float *)dy)[i];
        ((float *)dx)[i] = on ? given : 0.0f;
    }
}

/* dx may be dy. */
DT_INLINE void of_y(const void *y, const void *dy, void *dx, int64_t n, dt_dtype t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        pass_on(dy, dx, i, !(dti_load(y, i, t) <= 0.0f), t);
}

/* Bit e % 8 of byte e / 8 says whether element e hands its gradient on. */
DT_INLINE void of_mask(const uint8_t *mask, const void *dy, void *dx, int64_t n, dt_dtype t)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint32_t bits = mask[i / 8];
#pragma omp simd
        for (uint32_t k = 0; k < 8; k++)
            pass_on(dy, dx, i + k, (bits & 1u << k) != 0, t);
    }
    for (; i < n; i++)
        pass_on(dy, dx, i, ((unsigned)mask[i / 8] & 1u << (i % 8)) != 0, t);
}

#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void forward_##name(const void *x, void *y, uint8_t *mask, int64_t n)         \
    {                                                                                              \
        relu(x, y, n, t);                                                                          \
        if (mask != NULL)                                                                          \
            dti_mask_write(y, mask, n, t);                                                         \
    }                                                                                              \
    DT_CLONES static void gradient_##name(                                                         \
        const void *y, const uint8_t *mask, const void *dy, void *dx, int64_t n)                   \
    {                                                                                              \
        if (mask != NULL)                                                                          \
            of_mask(mask, dy, dx, n, t);                                                           \
        else                                                                                       \
            of_y(y, dy, dx, n, t);                                                                 \
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
    const dti_span s = dti_span_of(j->elements, DTI_GRAIN, i % j->pieces);
    const int64_t at = sample * j->elements + s.begin;
    (j->t == DT_BF16 ? forward_bf16 : forward_f32)(dti_from(j->a->port[DT_X], at, j->t),
        dti_to(j->a->port[DT_Y], at, j->t), dti_mask_of(j->a, j->elements, sample, s.begin),
        s.end - s.begin);
}

static void gradient_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->pieces;
    const dti_span s = dti_span_of(j->elements, DTI_GRAIN, i % j->pieces);
    const int64_t at = sample * j->elements + s.begin;
    const uint8_t *mask = dti_mask_of(j->a, j->elements, sample, s.begin);
    const void *y = mask == NULL ? dti_from(j->a->port[DT_Y], at, j->t) : NULL;
    (j->t == DT_BF16 ? gradient_bf16 : gradient_f32)(y, mask, dti_from(j->a->port[DT_DY], at, j->t),
        dti_to(j->a->port[DT_DX], at, j->t), s.end - s.begin);
}

static void run_tasks(const dt_call *c, const dt_args *a, dti_task *task)
{
    struct job j = {.a = a, .t = c->dtype, .elements = dt_shape_sample(&c->node->info.y)};
    j.pieces = dti_ceil_div(j.elements, DTI_GRAIN);
    dti_run_tasks(a->n * j.pieces, task, &j);
}

void dti_relu_forward(const dt_call *c, const dt_args *a)
{
    run_tasks(c, a, forward_task);
}

void dti_relu_gradient(const dt_call *c, const dt_args *a)
{
    run_tasks(c, a, gradient_task);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    run_tasks(c, a, c->form == DT_BACKWARD ? gradient_task : forward_task);
    return DT_OK;
}

const dt_kernels dt_relu_cpu = {.run = run};
