#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/value.h"

/* y = a + b, of values [from, end); y may be one of the two. */
typedef void add_two_fn(const void *a, const void *b, void *y, int64_t from, int64_t end);
#define DT_LANES_KERNEL "layers/cpu/add_kernel.inc"
#include "layers/cpu/lanes.inc"

static add_two_fn *add_two(bool relu, dt_dtype t)
{
    const int lanes = dt_lane_set();
#if defined(__x86_64__)
    if (lanes == DT_LANES_BF16)
        return add_two_of_bf16[relu][t];
    if (lanes == DT_LANES_AVX512)
        return add_two_of_avx512[relu][t];
    if (lanes == DT_LANES_AVX2)
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
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "element 0 is the lowest byte of a word");
_Static_assert(BLOCK % 8 == 0 && DT_GRAIN % BLOCK == 0, "blocks begin a byte of the mask");

/* Bit e % 8 of byte e / 8 says whether element e hands its gradient on. */
DT_INLINE void write_mask(const float *y, int n, uint8_t *mask)
{
    uint8_t on[BLOCK + 8];
    memset(on + n, 0, 8);
#pragma omp simd
    for (int i = 0; i < n; i++)
        on[i] = y[i] <= 0.0f ? 0 : 1;
    for (int i = 0; i < n; i += 8) {
        uint64_t word; /* of eight bytes, each 0 or 1; the product shifts byte k to bit 56 + k */
        memcpy(&word, on + i, sizeof word);
        mask[i / 8] = (uint8_t)(word * 0x0102040810204080u >> 56);
    }
}

/* y may be one of x; mask may be NULL. */
DT_INLINE void add(void *const x[], int n_in, int64_t from, int64_t end, void *y, uint8_t *mask,
    bool relu, dt_dtype t)
{
    float sum[BLOCK];
    for (; from < end; from += BLOCK) {
        const int n = end - from < BLOCK ? (int)(end - from) : BLOCK;
#pragma omp simd
        for (int i = 0; i < n; i++)
            sum[i] = dt_load(x[0], from + i, t) + dt_load(x[1], from + i, t);
        for (int k = 2; k < n_in; k++)
#pragma omp simd
            for (int i = 0; i < n; i++)
                sum[i] += dt_load(x[k], from + i, t);
#pragma omp simd
        for (int i = 0; i < n; i++)
            dt_store(y, from + i, t, relu ? dt_rectify(sum[i]) : sum[i]);
        if (mask != NULL) {
            write_mask(sum, n, mask);
            mask += BLOCK / 8;
        }
    }
}

/* dx[i] = on ? dy[i] : 0, as bits. The value is read either way, so that no branch is in a loop. */
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
DT_INLINE void gradient_of_y(const void *y, const void *dy, void *dx, int64_t n, dt_dtype t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        pass_on(dy, dx, i, !(dt_load(y, i, t) <= 0.0f), t);
}

DT_INLINE void gradient_of_mask(
    const uint8_t *mask, const void *dy, void *dx, int64_t n, dt_dtype t)
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
    DT_CLONES static void add_##name(                                                              \
        void *const x[], int n_in, int64_t from, int64_t end, void *y)                             \
    {                                                                                              \
        add(x, n_in, from, end, y, NULL, false, t);                                                \
    }                                                                                              \
    DT_CLONES static void add_relu_##name(                                                         \
        void *const x[], int n_in, int64_t from, int64_t end, void *y, uint8_t *mask)              \
    {                                                                                              \
        add(x, n_in, from, end, y, mask, true, t);                                                 \
    }                                                                                              \
    DT_CLONES static void gradient_##name(                                                         \
        const void *y, const uint8_t *mask, const void *dy, void *dx, int64_t n)                   \
    {                                                                                              \
        if (mask != NULL)                                                                          \
            gradient_of_mask(mask, dy, dx, n, t);                                                  \
        else                                                                                       \
            gradient_of_y(y, dy, dx, n, t);                                                        \
    }

FOR_TYPE(f32, DT_F32)
FOR_TYPE(bf16, DT_BF16)

/* Where the mask of a task begins; NULL when there is none. */
static uint8_t *mask_of(const struct job *j, int64_t sample, int64_t begin)
{
    uint8_t *mask = j->a->port[DT_S];
    return mask == NULL ? NULL : mask + sample * ((j->elements + 7) / 8) + begin / 8;
}

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span s = dt_span_of(j->elements, DT_GRAIN, i % j->pieces);
    const int64_t at = i / j->pieces * j->elements, from = at + s.begin, end = at + s.end;
    void *const *x = j->a->port + DT_X, *y = j->a->port[DT_Y];
    if (j->n_in == 2 && (!j->relu || j->a->port[DT_S] == NULL))
        add_two(j->relu, j->t)(x[0], x[1], y, from, end);
    else if (j->relu)
        (j->t == DT_BF16 ? add_relu_bf16 : add_relu_f32)(
            x, j->n_in, from, end, y, mask_of(j, i / j->pieces, s.begin));
    else
        (j->t == DT_BF16 ? add_bf16 : add_f32)(x, j->n_in, from, end, y);
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span s = dt_span_of(j->elements, DT_GRAIN, i % j->pieces);
    const int64_t at = i / j->pieces * j->elements + s.begin;
    (j->t == DT_BF16 ? gradient_bf16 : gradient_f32)(dt_from(j->a->port[DT_Y], at, j->t),
        mask_of(j, i / j->pieces, s.begin), dt_from(j->a->port[DT_DY], at, j->t),
        dt_to(j->a->port[DT_DX], at, j->t), s.end - s.begin);
}

static void run(struct job j, int64_t samples, dt_task *task)
{
    j.pieces = dt_ceil_div(j.elements, DT_GRAIN);
    dt_team(samples * j.pieces, task, &j);
}

static dt_status add_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    run((struct job){a, c->node->n_in, c->dtype, false, dt_shape_sample(&c->node->info.y), 0}, a->n,
        forward_task);
    return DT_OK;
}

static dt_status add_relu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    run((struct job){a, c->node->n_in, c->dtype, true, dt_shape_sample(&c->node->info.y), 0}, a->n,
        c->form == DT_BACKWARD ? backward_task : forward_task);
    return DT_OK;
}

static dt_status sum_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    run((struct job){a, 2, c->dtype, false, c->count, 0}, 1, forward_task);
    return DT_OK;
}

const dt_kernels dt_add_cpu = {.run = add_run};
const dt_kernels dt_add_relu_cpu = {.run = add_relu_run};
const dt_kernels dt_sum_cpu = {.run = sum_run};
