/* Convolutions of few channels by AMX tiles, against double precision. */
#include "tests/fixture/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/copy.h"
#include "engine/base/cpu.h"
#include "layers/blocked/amx_conv.h"
#include "tests/fixture/layer_check.h"

/* n, h, w, c, p, q, out, pad */
static const dti_amx_conv cases[] = {
    {1, 1, 1, 16, 1, 1, 16, 1}, /* smallest: all but one pixel are border */
    {2, 3, 3, 32, 1, 1, 16, 0}, {2, 1, 5, 16, 3, 7, 32, 2},
    {3, 7, 5, 32, 7, 5, 48, 1}, /* a block of 32 channels and one of 16 */
    {2, 8, 8, 64, 8, 8, 64, 1}, {2, 9, 33, 16, 9, 33, 16, 1}, {2, 5, 6, 96, 5, 6, 32, 1},
    {9, 4, 4, 32, 4, 4, 80, 1}, /* a sample a task */
};
/* @w: [3][3][c][out], or transposed [3][3][out][c] */
typedef struct data {
    dti_amx_conv s;
    size_t nx, ny, nw;
    dt_bf16 *x, *y, *weight;
    float *w;
    void *work;
} data;

static void *room(size_t bytes)
{
    const size_t whole = (bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, whole);
    assert_non_null(p);
    memset(p, 0xFF, whole); /* NaN, were any of it read unwritten */
    return p;
}

static data open_data(const dti_amx_conv *s, bool transposed)
{
    data d = {.s = *s,
        .nx = (size_t)(s->n * s->h * s->w * s->c),
        .ny = (size_t)(s->n * s->p * s->q * s->out),
        .nw = (size_t)(9 * s->c * s->out)};
    float *x = dt_random_values(d.nx, 1);
    d.w = dt_random_values(d.nw, 2);
    for (size_t i = 0; i < d.nw; i++) /* as the tiles will see it */
        d.w[i] = dt_bf16_to_float(dt_bf16_from_float(d.w[i]));
    d.x = room(d.nx * sizeof *d.x);
    d.y = room(d.ny * sizeof *d.y);
    d.weight = room(dti_amx_conv_weight_bytes(s));
    d.work = room(dti_amx_conv_work(s));
    dti_cpu_to_bf16(d.x, x, (int64_t)d.nx);
    dti_amx_conv_weight(s, transposed, d.w, d.weight);
    free(x);
    return d;
}

static void close_data(data *d)
{
    free(d->x);
    free(d->y);
    free(d->weight);
    free(d->w);
    free(d->work);
}

static double result(const data *d, bool transposed, int64_t n, int64_t row, int64_t col, int64_t o)
{
    const dti_amx_conv *s = &d->s;
    double sum = 0;
    for (int64_t tap = 0; tap < 9; tap++) {
        const int64_t r = row + tap / 3 - s->pad, q = col + tap % 3 - s->pad;
        if (r < 0 || r >= s->h || q < 0 || q >= s->w)
            continue;
        for (int64_t c = 0; c < s->c; c++) {
            const int64_t at =
                transposed ? ((8 - tap) * s->out + o) * s->c + c : (tap * s->c + c) * s->out + o;
            sum += (double)dt_bf16_to_float(d->x[((n * s->h + r) * s->w + q) * s->c + c]) *
                   (double)d->w[at];
        }
    }
    return sum;
}

static void check_case(const dti_amx_conv *s, bool transposed)
{
    data d = open_data(s, transposed);
    dti_amx_conv_run(s, d.x, d.weight, d.y, d.work);
    for (size_t i = 0; i < d.ny; i++) {
        const int64_t k = (int64_t)i, o = k % s->out, col = k / s->out % s->q;
        const int64_t row = k / s->out / s->q % s->p, n = k / s->out / s->q / s->p;
        const double want = result(&d, transposed, n, row, col, o);
        const double got = (double)dt_bf16_to_float(d.y[i]);
        if (!(fabs(got - want) <= fabs(want) / 256 + 1e-5))
            fail_msg("value %zu is %g, not %g", i, got, want);
    }
    close_data(&d);
}

static void agrees_with_double_precision(void **state)
{
    (void)state;
    if (!dti_amx_conv_can(&cases[0], NULL))
        skip();
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        check_case(&cases[i], false);
        check_case(&cases[i], true);
    }
}

static void turned_twice_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dti_amx_conv once = dti_amx_conv_transposed(&cases[i]),
                           twice = dti_amx_conv_transposed(&once);
        assert_memory_equal(&twice, &cases[i], sizeof twice);
        assert_int_equal(once.p, once.h + 2 * once.pad - 2);
    }
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    if (!dti_amx_conv_can(&cases[0], NULL))
        skip();
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_cpu_setup(1);
        data one = open_data(&cases[i], false);
        dti_amx_conv_run(&cases[i], one.x, one.weight, one.y, one.work);
        dt_cpu_setup(3);
        data three = open_data(&cases[i], false);
        dti_amx_conv_run(&cases[i], three.x, three.weight, three.y, three.work);
        assert_memory_equal(one.y, three.y, one.ny * sizeof *one.y);
        close_data(&one);
        close_data(&three);
    }
}

/* NaN stays NaN, and what does not look at it, left and above and below, is not touched. */
static void not_a_number_goes_through(void **state)
{
    (void)state;
    const dti_amx_conv s = {1, 9, 9, 32, 9, 9, 32, 1};
    if (!dti_amx_conv_can(&s, NULL))
        skip();
    data d = open_data(&s, false);
    d.x[(4 * 9 + 4) * 32 + 3] = 0x7FC0;
    dti_amx_conv_run(&s, d.x, d.weight, d.y, d.work);
    for (int i = 0; i < 81; i++) {
        const bool near = abs(i / 9 - 4) <= 1 && abs(i % 9 - 4) <= 1;
        assert_int_equal(isnan(dt_bf16_to_float(d.y[i * 32])) != 0, near);
    }
    close_data(&d);
}

DT_TEST_GROUP(amx_conv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_double_precision),
        cmocka_unit_test(turned_twice_is_the_same),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(not_a_number_goes_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
