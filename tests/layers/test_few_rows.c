/* Products of a few rows of bf16 with a weight of fp32, against their definition in double
 * precision: sums of products of values rounded to bf16. */
#include "tests/fixture/check.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/blocked/few_rows.h"
#include "tests/fixture/layer_check.h"

/* rows, in, out: whole blocks, what is left of rows and of columns, more than is packed at once. */
static const dti_few_rows cases[] = {
    {1, 32, 16},
    {8, 128, 64},
    {7, 160, 80},
    {9, 288, 48},
    {32, 256, 272},
    {129, 96, 144},
    {140, 544, 16},
};

enum { X, W, B, DY, Y, DX, DW, DB, TENSORS };

static bool is_half(int tensor)
{
    return tensor == X || tensor == DY || tensor == Y || tensor == DX;
}

static bool here(void)
{
    return dti_few_rows_accepts(&(dti_few_rows){1, 1 << 10, 1 << 10}, NULL);
}

static float rounded(float v)
{
    return dt_bf16_to_float(dt_bf16_from_float(v));
}

typedef struct layer {
    dti_few_rows s;
    size_t count[TENSORS];
    void *v[TENSORS];
} layer;

static layer make_layer(const dti_few_rows *s)
{
    layer l = {.s = *s};
    l.count[X] = l.count[DX] = (size_t)(s->rows * s->in);
    l.count[Y] = l.count[DY] = (size_t)(s->rows * s->out);
    l.count[W] = l.count[DW] = (size_t)(s->in * s->out);
    l.count[B] = l.count[DB] = (size_t)s->out;
    for (int t = 0; t < TENSORS; t++) {
        float *v = dt_random_values(l.count[t], (uint32_t)t);
        l.v[t] = v;
        for (size_t i = 0; i < l.count[t] && is_half(t); i++) /* from front to back, in place */
            memcpy((dt_bf16 *)l.v[t] + i, &(dt_bf16){dt_bf16_from_float(v[i])}, sizeof(dt_bf16));
    }
    return l;
}

static void free_layer(layer *l)
{
    for (int t = 0; t < TENSORS; t++)
        free(l->v[t]);
}

static double value(const layer *l, int t, int64_t i)
{
    return is_half(t) ? (double)dt_bf16_to_float(((const dt_bf16 *)l->v[t])[i])
                      : (double)((const float *)l->v[t])[i];
}

static void run_layer(layer *l, unsigned add)
{
    void *work = dt_alloc(dti_few_rows_work(), 1);
    assert_non_null(work);
    memset(work, 0xFF, dti_few_rows_work());
    dti_few_rows_forward(&l->s, l->v[X], l->v[W], l->v[B], l->v[Y], work);
    dti_few_rows_data(&l->s, l->v[DY], l->v[W], l->v[DX], work);
    dti_few_rows_gradient(&l->s, l->v[X], l->v[DY], l->v[DW], l->v[DB], add, work);
    dt_free(work);
}

/* What a tensor is, and the sum of what is added up without signs, of which a share is lost. */
static void define(const layer *l, double *const to[TENSORS], double *const size[TENSORS])
{
    const dti_few_rows *s = &l->s;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t o = 0; o < s->out; o++) {
            const double dy = value(l, DY, r * s->out + o);
            to[DB][o] += dy;
            size[DB][o] += fabs(dy);
            for (int64_t i = 0; i < s->in; i++) {
                const double x = value(l, X, r * s->in + i);
                const double w = (double)rounded((float)value(l, W, o * s->in + i));
                const double part[] = {x * w, dy * w, dy * x};
                const int64_t at[] = {r * s->out + o, r * s->in + i, o * s->in + i};
                static const int tensor[] = {Y, DX, DW};
                for (int k = 0; k < 3; k++) {
                    to[tensor[k]][at[k]] += part[k];
                    size[tensor[k]][at[k]] += fabs(part[k]);
                }
            }
        }
    for (int64_t i = 0; i < s->rows * s->out; i++)
        to[Y][i] += value(l, B, i % s->out);
}

static void assert_close(const layer *l, int t, const double *want, const double *size)
{
    for (size_t i = 0; i < l->count[t]; i++) {
        const double off = fabs(value(l, t, (int64_t)i) - want[i]);
        const double most = 1e-6 * (size[i] + 1) + (is_half(t) ? fabs(want[i]) / 256 : 0);
        if (!(off <= most))
            fail_msg("rows %d, tensor %d, value %zu: %g of %g", (int)l->s.rows, t, i, off, most);
    }
}

static void all_ways_are_their_definition(void **state)
{
    (void)state;
    if (!here())
        skip();
    for (size_t n = 0; n < 4 * DT_COUNT(cases); n++) {
        const unsigned add = n % 4;
        layer l = make_layer(&cases[n / 4]);
        double *want[TENSORS], *size[TENSORS];
        for (int t = 0; t < TENSORS; t++) {
            want[t] = calloc(l.count[t], sizeof(double));
            size[t] = calloc(l.count[t], sizeof(double));
            assert_true(want[t] != NULL && size[t] != NULL);
            const bool more = (t == DW && (add & 1) != 0) || (t == DB && (add & 2) != 0);
            for (size_t i = 0; i < l.count[t] && more; i++)
                want[t][i] = value(&l, t, (int64_t)i);
        }
        define(&l, want, size);
        run_layer(&l, add);
        for (int t = Y; t < TENSORS; t++)
            assert_close(&l, t, want[t], size[t]);
        for (int t = 0; t < TENSORS; t++) {
            free(want[t]);
            free(size[t]);
        }
        free_layer(&l);
    }
}

/* A row alone, and any team, give the bits of the whole. */
static void neither_rows_nor_the_team_change_bits(void **state)
{
    (void)state;
    if (!here())
        skip();
    const int before = omp_get_max_threads();
    for (size_t n = 0; n < DT_COUNT(cases); n++) {
        layer one = make_layer(&cases[n]), many = make_layer(&cases[n]);
        const size_t y = (size_t)one.s.out * sizeof(dt_bf16),
                     dx = (size_t)one.s.in * sizeof(dt_bf16);
        omp_set_num_threads(1);
        run_layer(&one, 0);
        omp_set_num_threads(3);
        run_layer(&many, 0);
        for (int t = Y; t < TENSORS; t++)
            assert_memory_equal(
                one.v[t], many.v[t], one.count[t] * (is_half(t) ? sizeof(dt_bf16) : sizeof(float)));
        for (int64_t r = 0; r < one.s.rows; r++) {
            layer row = many;
            row.s.rows = 1;
            row.v[X] = (dt_bf16 *)many.v[X] + r * one.s.in;
            row.v[DY] = (dt_bf16 *)many.v[DY] + r * one.s.out;
            run_layer(&row, 0);
            assert_memory_equal(row.v[Y], (dt_bf16 *)one.v[Y] + r * one.s.out, y);
            assert_memory_equal(row.v[DX], (dt_bf16 *)one.v[DX] + r * one.s.in, dx);
        }
        free_layer(&one);
        free_layer(&many);
    }
    omp_set_num_threads(before);
}

DT_TEST_GROUP(few_rows)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways_are_their_definition),
        cmocka_unit_test(neither_rows_nor_the_team_change_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
