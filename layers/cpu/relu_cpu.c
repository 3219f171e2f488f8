/* ReLU on the processor. */
#include "layers/cpu/cpu.h"
#include "layers/cpu/mask.h"

DT_INLINE void relu(const void *x, void *y, int64_t n, dt_dtype t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_store(y, i, t, dti_rectify(dti_load(x, i, t)));
}

/* Bit e % 8 of byte e / 8 says whether element e hands its gradient on. */
DT_INLINE void relu_mask(const void *y, uint8_t *mask, int64_t n, dt_dtype t)
{
    enum { BLOCK = 64 };
    uint8_t on[BLOCK];
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
#pragma omp simd
        for (int k = 0; k < BLOCK; k++)
            on[k] = dti_load(y, i + k, t) <= 0.0f ? 0 : 1;
        for (int k = 0; k < BLOCK; k += 8)
            mask[(i + k) / 8] = dti_mask_pack(on + k);
    }
    for (; i < n; i += 8) {
        memset(on, 0, 8);
        for (int64_t k = i; k < n && k < i + 8; k++)
            on[k - i] = dti_load(y, k, t) <= 0.0f ? 0 : 1;
        mask[i / 8] = dti_mask_pack(on);
    }
}

#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void forward_##name(const void *x, void *y, uint8_t *mask, int64_t n)         \
    {                                                                                              \
        relu(x, y, n, t);                                                                          \
        if (mask != NULL)                                                                          \
            relu_mask(y, mask, n, t);                                                              \
    }                                                                                              \
    DT_CLONES static void gradient_##name(                                                         \
        const void *y, const uint8_t *mask, const void *dy, void *dx, int64_t n)                   \
    {                                                                                              \
        if (mask != NULL)                                                                          \
            dti_gradient_of_mask(mask, dy, dx, n, t);                                              \
        else                                                                                       \
            dti_gradient_of_y(y, dy, dx, n, t);                                                    \
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

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->pieces;
    const dt_span s = dt_span_of(j->elements, DT_GRAIN, i % j->pieces);
    const int64_t at = sample * j->elements + s.begin;
    const uint8_t *mask = dti_mask_of(j->a, j->elements, sample, s.begin);
    const void *y = mask == NULL ? dti_from(j->a->port[DT_Y], at, j->t) : NULL;
    (j->t == DT_BF16 ? gradient_bf16 : gradient_f32)(y, mask, dti_from(j->a->port[DT_DY], at, j->t),
        dti_to(j->a->port[DT_DX], at, j->t), s.end - s.begin);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dti_call_x(c);
    struct job j = {.a = a, .t = c->dtype, .elements = dt_shape_sample(&x)};
    j.pieces = dt_ceil_div(j.elements, DT_GRAIN);
    dti_run_tasks(a->n * j.pieces, c->form == DT_BACKWARD ? backward_task : forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_relu_cpu = {.run = run};
