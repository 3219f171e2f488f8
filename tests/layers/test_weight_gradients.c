/* Kernels for the gradient of a convolution's weight, against double precision. */
#include "tests/fixture/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/copy.h"
#include "engine/base/cpu.h"
#include "layers/blocked/amx.h"
#include "layers/blocked/amx_weights.h"
#include "layers/blocked/implicit_gemm.h"
#include "layers/cpu/lanes.h"
#include "tests/fixture/layer_check.h"

/* n, channels and size of x, channels and size of dy, kernel, stride, padding */
static const int64_t rows[][10] = {
    {1, 32, 1, 1, 32, 1, 1, 1, 1, 0},     /* smallest */
    {3, 32, 7, 5, 64, 7, 5, 3, 1, 1},     /* odd, not square */
    {2, 64, 9, 8, 32, 5, 4, 3, 2, 1},     /* strided, with padding on one side only */
    {2, 32, 9, 8, 96, 5, 4, 1, 2, 0},     /* one tap of four pixels */
    {2, 32, 5, 6, 32, 4, 5, 2, 1, 0},     /* an even kernel */
    {2, 32, 11, 13, 32, 3, 4, 3, 4, 1},   /* a stride beyond the kernel */
    {40, 32, 14, 14, 32, 7, 7, 3, 2, 1},  /* several visits of every tap */
    {1, 32, 14, 14, 32, 14, 14, 3, 1, 1}, /* the same of one sample */
    {19, 16, 9, 8, 16, 9, 8, 3, 1, 1},    /* one tile of both; parts of unequal length */
    {9, 48, 6, 6, 32, 6, 6, 3, 1, 1},     /* two tiles of x and one */
    {3, 32, 6, 6, 80, 6, 6, 3, 1, 1},     /* and of dy */
    {2, 112, 6, 5, 144, 6, 5, 3, 1, 1},   /* of both, with many blocks */
    {3, 144, 9, 7, 272, 9, 7, 1, 1, 0},   /* blocks of unequal size, in parts */
    {1, 272, 5, 5, 304, 5, 5, 1, 1, 0},   /* an odd number of results */
    {2, 2048, 3, 2, 528, 3, 2, 1, 1, 0},  /* one part */
    {2, 160, 11, 11, 208, 6, 6, 3, 2, 1}, /* and of every tap */
};

static dti_weight_gradient shape(size_t row, bool bf16)
{
    const int64_t *r = rows[row];
    return (dti_weight_gradient){r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], bf16};
}

/* A kernel, and whether this machine has it. */
typedef struct kernel {
    const char *name;
    bool bf16;
    bool (*here)(void);
    size_t (*work)(const dti_weight_gradient *a);
    void (*run)(const dti_weight_gradient *a, const void *x, const void *dy, float *dw, bool add,
        void *work);
} kernel;

static bool fp32_here(void)
{
    return dti_lane_set() >= DTI_LANES_AVX2;
}

static bool bf16_here(void)
{
    return dti_lane_set() == DTI_LANES_BF16;
}

static const kernel kernels[] = {
    {"AMX", true, dti_amx_here, dti_amx_weights_work, dti_amx_weights_run},
    {"implicit GEMM, fp32", false, fp32_here, dti_implicit_gemm_work, dti_implicit_gemm_run},
    {"implicit GEMM, bf16", true, bf16_here, dti_implicit_gemm_work, dti_implicit_gemm_run},
};

typedef struct data {
    size_t nx, ny, nw;
    dt_bf16 *bx, *bdy;
    float *fx, *fdy; /* the same values */
    float *want, *dw;
    void *work;
} data;

/* n values that bf16 has, in both types. */
static void make_values(size_t n, uint32_t key, dt_bf16 **b, float **f)
{
    *f = dt_random_values(n, key);
    *b = malloc(n * sizeof **b);
    assert_non_null(*b);
    dti_cpu_to_bf16(*b, *f, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        (*f)[i] = dt_bf16_to_float((*b)[i]);
}

static void add_pixel(const dti_weight_gradient *a, const float *x, const float *dy, double *dw)
{
    for (int64_t c = 0; c < a->c; c++)
        for (int64_t o = 0; o < a->out; o++)
            dw[c * a->out + o] += (double)x[c] * (double)dy[o];
}

static void reference(const dti_weight_gradient *a, data *d)
{
    double *sum = calloc(d->nw, sizeof *sum);
    assert_non_null(sum);
    for (int64_t i = 0; i < a->n * a->p * a->q; i++)
        for (int64_t tap = 0; tap < a->kernel * a->kernel; tap++) {
            const int64_t n = i / a->q / a->p, row = i / a->q % a->p, col = i % a->q;
            const int64_t r = row * a->stride + tap / a->kernel - a->pad;
            const int64_t q = col * a->stride + tap % a->kernel - a->pad;
            if (r >= 0 && r < a->h && q >= 0 && q < a->w)
                add_pixel(a, d->fx + ((n * a->h + r) * a->w + q) * a->c, d->fdy + i * a->out,
                    sum + tap * a->c * a->out);
        }
    for (size_t i = 0; i < d->nw; i++)
        d->want[i] = (float)sum[i];
    free(sum);
}

static data open_data(const dti_weight_gradient *a, const kernel *k)
{
    data d = {
        .nx = (size_t)(a->n * a->h * a->w * a->c), .ny = (size_t)(a->n * a->p * a->q * a->out)};
    d.nw = (size_t)(a->kernel * a->kernel * a->c * a->out);
    const size_t bytes = (k->work(a) + 63) / 64 * 64;
    make_values(d.nx, 1, &d.bx, &d.fx);
    make_values(d.ny, 2, &d.bdy, &d.fdy);
    d.want = malloc(d.nw * sizeof *d.want);
    d.dw = malloc(d.nw * sizeof *d.dw);
    d.work = aligned_alloc(64, bytes);
    assert_non_null(d.want);
    assert_non_null(d.dw);
    assert_non_null(d.work);
    memset(d.work, 0xFF, bytes); /* NaN, were any of it read unwritten */
    memset(d.dw, 0xFF, d.nw * sizeof *d.dw);
    return d;
}

static void close_data(data *d)
{
    free(d->bx);
    free(d->bdy);
    free(d->fx);
    free(d->fdy);
    free(d->want);
    free(d->dw);
    free(d->work);
}

static void run(const dti_weight_gradient *a, const kernel *k, const data *d, bool add)
{
    const void *x = a->bf16 ? (const void *)d->bx : d->fx;
    const void *dy = a->bf16 ? (const void *)d->bdy : d->fdy;
    k->run(a, x, dy, d->dw, add, d->work);
}

static void check(const dti_weight_gradient *a, const kernel *k, const data *d, bool add)
{
    run(a, k, d, add);
    const double off = dt_relative_error(d->dw, d->want, d->nw);
    if (!(off < 1e-5))
        fail_msg("%s, %" PRId64 " x %" PRId64 " channels, kernel %" PRId64 ", stride %" PRId64
                 "%s: off by %g",
            k->name, a->c, a->out, a->kernel, a->stride, add ? ", added" : "", off);
}

/* Each kernel that this machine has. */
static void with_all(void (*test)(const dti_weight_gradient *a, const kernel *k))
{
    for (size_t i = 0; i < DT_COUNT(kernels) * DT_COUNT(rows); i++) {
        const kernel *k = &kernels[i / DT_COUNT(rows)];
        const dti_weight_gradient a = shape(i % DT_COUNT(rows), k->bf16);
        if (k->here() && dt_picked(i, 1, 2, 1))
            test(&a, k);
    }
}

static void compare(const dti_weight_gradient *a, const kernel *k)
{
    data d = open_data(a, k);
    reference(a, &d);
    check(a, k, &d, false);
    for (size_t i = 0; i < d.nw; i++)
        d.want[i] *= 2;
    check(a, k, &d, true);
    close_data(&d);
}

static void agrees_with_double_precision(void **state)
{
    (void)state;
    with_all(compare);
}

static void compare_threads(const dti_weight_gradient *a, const kernel *k)
{
    data one = open_data(a, k), three = open_data(a, k);
    const int before = dt_cpu_threads();
    dt_cpu_setup(1);
    run(a, k, &one, false);
    dt_cpu_setup(3);
    free(three.work);
    three.work = malloc(k->work(a));
    assert_non_null(three.work);
    run(a, k, &three, false);
    dt_cpu_setup(before);
    assert_memory_equal(one.dw, three.dw, one.nw * sizeof *one.dw);
    close_data(&one);
    close_data(&three);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    with_all(compare_threads);
}

static void refuse_all(dti_weight_gradient a)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        dt_why why = {0};
        a.bf16 = bf16 != 0;
        assert_false(dti_amx_weights_can(&a, NULL));
        assert_false(dti_implicit_gemm_accepts(&a, &why));
        assert_true(strlen(why.text) > 0);
    }
}

static void channels_that_fill_no_tiles_are_refused(void **state)
{
    (void)state;
    dti_weight_gradient a = shape(3, false);
    a.c = 40;
    refuse_all(a);
    a = shape(3, false);
    a.out = 24;
    refuse_all(a);
    a = shape(1, false);
    a.kernel = 5;
    refuse_all(a); /* too many taps for the one, stride 1 for the other */
}

DT_TEST_GROUP(weight_gradients)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_double_precision),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(channels_that_fill_no_tiles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
