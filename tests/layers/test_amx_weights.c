/* The weight's gradient by AMX tiles, against double precision. */
#include "tests/fixture/check.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/copy.h"
#include "engine/base/cpu.h"
#include "layers/blocked/amx_weights.h"
#include "tests/fixture/layer_check.h"

static const dti_amx_weights rows[] = {
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
};

typedef struct data {
    size_t nx, ny, nw;
    dt_bf16 *x, *dy;
    float *want, *dw;
    void *work;
} data;

static dt_bf16 *values(size_t n, uint32_t key)
{
    float *f = dt_random_values(n, key);
    dt_bf16 *v = malloc(n * sizeof *v);
    assert_non_null(v);
    dti_cpu_to_bf16(v, f, (int64_t)n);
    free(f);
    return v;
}

static void add_pixel(const dti_amx_weights *a, const dt_bf16 *x, const dt_bf16 *dy, double *dw)
{
    for (int64_t c = 0; c < a->c; c++)
        for (int64_t o = 0; o < a->out; o++)
            dw[c * a->out + o] += (double)dt_bf16_to_float(x[c]) * (double)dt_bf16_to_float(dy[o]);
}

static void reference(const dti_amx_weights *a, data *d)
{
    double *sum = calloc(d->nw, sizeof *sum);
    assert_non_null(sum);
    for (int64_t i = 0; i < a->n * a->p * a->q; i++)
        for (int64_t tap = 0; tap < a->kernel * a->kernel; tap++) {
            const int64_t n = i / a->q / a->p, row = i / a->q % a->p, col = i % a->q;
            const int64_t r = row * a->stride + tap / a->kernel - a->pad;
            const int64_t q = col * a->stride + tap % a->kernel - a->pad;
            if (r >= 0 && r < a->h && q >= 0 && q < a->w)
                add_pixel(a, d->x + ((n * a->h + r) * a->w + q) * a->c, d->dy + i * a->out,
                    sum + tap * a->c * a->out);
        }
    for (size_t i = 0; i < d->nw; i++)
        d->want[i] = (float)sum[i];
    free(sum);
}

static data open_data(const dti_amx_weights *a)
{
    data d = {
        .nx = (size_t)(a->n * a->h * a->w * a->c), .ny = (size_t)(a->n * a->p * a->q * a->out)};
    d.nw = (size_t)(a->kernel * a->kernel * a->c * a->out);
    const size_t bytes = (dti_amx_weights_work(a) + 63) / 64 * 64;
    d.x = values(d.nx, 1);
    d.dy = values(d.ny, 2);
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
    free(d->x);
    free(d->dy);
    free(d->want);
    free(d->dw);
    free(d->work);
}

static void agrees_with_double_precision(void **state)
{
    (void)state;
    if (!dti_amx_weights_can(&rows[0], NULL))
        skip();
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        data d = open_data(&rows[i]);
        reference(&rows[i], &d);
        dti_amx_weights_run(&rows[i], d.x, d.dy, d.dw, false, d.work);
        if (!(dt_relative_error(d.dw, d.want, d.nw) < 1e-5))
            fail_msg("row %zu: off by %g", i, dt_relative_error(d.dw, d.want, d.nw));
        dti_amx_weights_run(&rows[i], d.x, d.dy, d.dw, true, d.work);
        for (size_t k = 0; k < d.nw; k++)
            d.want[k] *= 2;
        if (!(dt_relative_error(d.dw, d.want, d.nw) < 1e-5))
            fail_msg("row %zu, added: off by %g", i, dt_relative_error(d.dw, d.want, d.nw));
        close_data(&d);
    }
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    if (!dti_amx_weights_can(&rows[0], NULL))
        skip();
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const dti_amx_weights *a = &rows[i];
        data one = open_data(a), three = open_data(a);
        dt_cpu_setup(1);
        dti_amx_weights_run(a, one.x, one.dy, one.dw, false, one.work);
        dt_cpu_setup(3);
        dti_amx_weights_run(a, three.x, three.dy, three.dw, false, three.work);
        assert_memory_equal(one.dw, three.dw, one.nw * sizeof *one.dw);
        close_data(&one);
        close_data(&three);
    }
}

static void channels_that_fill_no_tiles_are_refused(void **state)
{
    (void)state;
    dti_amx_weights a = rows[1];
    a.c = 40;
    assert_false(dti_amx_weights_can(&a, NULL));
    a = rows[1];
    a.out = 24;
    assert_false(dti_amx_weights_can(&a, NULL));
    a = rows[1];
    a.kernel = 5;
    assert_false(dti_amx_weights_can(&a, NULL));
}

DT_TEST_GROUP(amx_weights)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_double_precision),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(channels_that_fill_no_tiles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
