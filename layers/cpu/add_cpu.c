/* Sums of values on the processor, with the ReLU behind them or without. */
#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/mask.h"

/* y = a + b, of values [from, end); y may be one of the two. */
typedef void add_two_fn(const void *a, const void *b, void *y, int64_t from, int64_t end);
#define DT_LANES_KERNEL "layers/cpu/add_kernel.inc"
#include "layers/cpu/lanes.inc"

static add_two_fn *add_two(bool relu, dt_dtype t)
{
    const int lanes = dti_lane_set();
#if defined(__x86_64__)
    if (lanes == DTI_LANES_BF16)
        return add_two_of_bf16[relu][t];
    if (lanes == DTI_LANES_AVX512)
        return add_two_of_avx512[relu][t];
    if (lanes == DTI_LANES_AVX2)
        return add_two_of_avx2[relu][t];
#endif
    (void)lanes;
    return add_two_of_plain[relu][t];
}

/* The add layer, the same with a ReLU behind it, and the sum op: y = x0 + x1 + ..., from left to
 * right in single precision, rounded once. NaN goes through the ReLU, as in PyTorch: a NaN is not
 * <= 0 and hands its gradient on. Tasks are pieces of one sample, because each sample's mask starts
 * a byte. */
struct job {
    const dt_args *a;
    int n_in;
    dt_dtype t;
    bool relu;
    int64_t elements, pieces;
};

enum { BLOCK = 1024 }; /* elements added up at a time, on the stack */
_Static_assert(BLOCK % 8 == 0 && DTI_GRAIN % BLOCK == 0, "blocks begin a byte of the mask");

/* y may be one of x; mask may be NULL. */
DT_INLINE void add(void *const x[], int n_in, int64_t from, int64_t end, void *y, uint8_t *mask,
    bool relu, dt_dtype t)
{
    float sum[BLOCK];
    for (; from < end; from += BLOCK) {
        const int n = end - from < BLOCK ? (int)(end - from) : BLOCK;
#pragma omp simd
        for (int i = 0; i < n; i++)
            sum[i] = dti_load(x[0], from + i, t) + dti_load(x[1], from + i, t);
        for (int k = 2; k < n_in; k++)
#pragma omp simd
            for (int i = 0; i < n; i++)
                sum[i] += dti_load(x[k], from + i, t);
#pragma omp simd
        for (int i = 0; i < n; i++)
            dti_store(y, from + i, t, relu ? dti_rectify(sum[i]) : sum[i]);
        if (mask != NULL) {
            dti_mask_write(sum, mask, n, DT_F32);
            mask += BLOCK / 8;
        }
    }
}

#define FOR_TYPE(name, t)                                                                          \
    DT_CLONES static void add_##name(                                                              \
        void *const x[], int n_in, int64_t from, int64_t end, void *y)                             \
    {                                                                                              \
        add(x, n_in, from, end, y, NULL, false, t);                                                \
    }                                                                                              \
    DT_CLONES static void add_relu_##name(                                                         \
        void *const x[], int n_in, int64_t from, int64_t end, void *y, uint8_t *mask)              \
    {                                                                                              \
        add(x, n_in, from, end, y, mask, true, t);                                                 \
    }

FOR_TYPE(f32, DT_F32)
FOR_TYPE(bf16, DT_BF16)

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->elements, DTI_GRAIN, i % j->pieces);
    const int64_t at = i / j->pieces * j->elements, from = at + s.begin, end = at + s.end;
    void *const *x = j->a->port + DT_X, *y = j->a->port[DT_Y];
    if (j->n_in == 2 && (!j->relu || j->a->port[DT_S] == NULL))
        add_two(j->relu, j->t)(x[0], x[1], y, from, end);
    else if (j->relu)
        (j->t == DT_BF16 ? add_relu_bf16 : add_relu_f32)(
            x, j->n_in, from, end, y, dti_mask_of(j->a, j->elements, i / j->pieces, s.begin));
    else
        (j->t == DT_BF16 ? add_bf16 : add_f32)(x, j->n_in, from, end, y);
}

static dt_status run(struct job j, int64_t samples)
{
    j.pieces = dti_ceil_div(j.elements, DTI_GRAIN);
    dti_run_tasks(samples * j.pieces, forward_task, &j);
    return DT_OK;
}

static dt_status add_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    return run(
        (struct job){a, c->node->n_in, c->dtype, false, dt_shape_sample(&c->node->info.y), 0},
        a->n);
}

static dt_status add_relu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    if (c->form == DT_BACKWARD) {
        dti_relu_gradient(c, a);
        return DT_OK;
    }
    return run(
        (struct job){a, c->node->n_in, c->dtype, true, dt_shape_sample(&c->node->info.y), 0}, a->n);
}

static dt_status sum_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    return run((struct job){a, 2, c->dtype, false, c->count, 0}, 1);
}

const dt_kernels dt_add_cpu = {.run = add_run};
const dt_kernels dt_add_relu_cpu = {.run = add_relu_run};
const dt_kernels dt_sum_cpu = {.run = sum_run};
