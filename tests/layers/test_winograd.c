/* Convolutions by Winograd's algorithm against their definition, summed up naively in double
 * precision. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/weighted/conv.h"
#include "layers/blocked/winograd.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

#define TOLERANCE 4e-6

/* n, h, w, c, p, q, out, pad, type. Tiles are of 4 x 4 results but where a large weight meets few
 * results.
 */
static const dti_winograd cases[] = {
    {1, 1, 1, 16, 1, 1, 16, 1, DT_F32}, /* one tile, of one result */
    {1, 2, 2, 16, 2, 2, 16, 1, DT_F32},
    {1, 3, 3, 16, 1, 1, 32, 0, DT_F32},
    {2, 1, 5, 16, 3, 7, 16, 2, DT_F32},
    {2, 7, 7, 16, 7, 7, 48, 1, DT_F32},
    {3, 8, 5, 80, 6, 3, 16, 0, DT_F32},
    {2, 9, 6, 64, 9, 6, 144, 1, DT_F32},
    {5, 14, 14, 64, 14, 14, 64, 1, DT_F32},
    {1, 7, 7, 160, 7, 7, 128, 1, DT_F32}, /* deeper than a block of the sums; a large weight */
    {9, 14, 7, 256, 14, 7, 80, 1, DT_F32},
    {2, 7, 7, 144, 7, 7, 400, 1, DT_F32}, /* the gradient in slices of columns */
    {3, 7, 7, 272, 7, 7, 256, 1, DT_F32}, /* tiles of 2 x 2, as are the next */
    {2, 5, 3, 144, 3, 1, 464, 0, DT_F32},
    {1, 3, 6, 528, 5, 8, 144, 2, DT_F32},
    {1, 1, 1, 256, 1, 1, 272, 1, DT_F32},
};

enum { X, W, B, DY, Y, DX, DW, DB, TENSORS };

/* A layer's values, NHWC and [3][3][in][out], and what the kernels made of them. */
typedef struct layer {
    dti_winograd s;
    size_t count[TENSORS];
    float *v[TENSORS];
} layer;

static layer make_layer(const dti_winograd *s)
{
    layer l = {.s = *s};
    l.count[X] = l.count[DX] = (size_t)(s->n * s->h * s->w * s->c);
    l.count[Y] = l.count[DY] = (size_t)(s->n * s->p * s->q * s->out);
    l.count[W] = l.count[DW] = (size_t)(9 * s->c * s->out);
    l.count[B] = l.count[DB] = (size_t)s->out;
    for (uint32_t i = 0; i < TENSORS; i++)
        l.v[i] = dt_random_values(l.count[i], i);
    return l;
}

static void free_layer(layer *l)
{
    for (int i = 0; i < TENSORS; i++)
        free(l->v[i]);
}

/* Scratch begins as what may not be read: NaN. */
static float *scratch(size_t bytes)
{
    float *p = dt_alloc(bytes, 1);
    assert_non_null(p);
    memset(p, 0xFF, bytes);
    return p;
}

static void run_one_way(const dti_winograd *s, bool transposed, const float *x, const float *weight,
    const float *bias, float *y)
{
    const size_t bytes = dti_winograd_weight_bytes(s);
    float *u = bytes > 0 ? scratch(bytes) : NULL, *work = scratch(dti_winograd_work(s));
    if (u != NULL)
        dti_winograd_weight(s, transposed, weight, u);
    dti_winograd_run(s, transposed, x, u != NULL ? u : weight, bias, y, work);
    dt_free(u);
    dt_free(work);
}

static void run_layer(layer *l)
{
    const dti_winograd transposed = dti_winograd_transposed(&l->s);
    run_one_way(&l->s, false, l->v[X], l->v[W], l->v[B], l->v[Y]);
    run_one_way(&transposed, true, l->v[DY], l->v[W], NULL, l->v[DX]);
    float *work = scratch(dti_winograd_gradient_work(&l->s));
    dti_winograd_gradient(&l->s, l->v[X], l->v[DY], l->v[DW], l->v[DB], 0, work);
    dt_free(work);
}

/* Number of the pixel of x that tap k of result r reads, or -1 for the padding. */
static int64_t pixel(const dti_winograd *s, int64_t r, int64_t k)
{
    const int64_t n = r / (s->p * s->q), p = r / s->q % s->p, q = r % s->q;
    const int64_t h = p - s->pad + k / 3, w = q - s->pad + k % 3;
    return h < 0 || h >= s->h || w < 0 || w >= s->w ? -1 : (n * s->h + h) * s->w + w;
}

/* What one tap adds to one result, and to the gradients. */
static void add_tap(const layer *l, int64_t r, int64_t at, int64_t tap, double *const to[TENSORS])
{
    const dti_winograd *s = &l->s;
    for (int64_t c = 0; c < s->c; c++)
        for (int64_t o = 0; o < s->out; o++) {
            const int64_t k = (tap * s->c + c) * s->out + o;
            const double x = (double)l->v[X][at * s->c + c], w = (double)l->v[W][k];
            const double dy = (double)l->v[DY][r * s->out + o];
            to[Y][r * s->out + o] += x * w;
            to[DX][at * s->c + c] += dy * w;
            to[DW][k] += dy * x;
        }
}

static void define(const layer *l, double *const to[TENSORS])
{
    const dti_winograd *s = &l->s;
    for (int64_t r = 0; r < s->n * s->p * s->q; r++) {
        for (int64_t o = 0; o < s->out; o++) {
            to[Y][r * s->out + o] += (double)l->v[B][o];
            to[DB][o] += (double)l->v[DY][r * s->out + o];
        }
        for (int64_t k = 0; k < 9; k++) {
            const int64_t at = pixel(s, r, k);
            if (at >= 0)
                add_tap(l, r, at, k, to);
        }
    }
}

static void all_ways_are_their_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        if (!dt_picked(i, 3, 2, 1))
            continue;
        layer l = make_layer(&cases[i]);
        double *want[TENSORS];
        for (int t = 0; t < TENSORS; t++) {
            want[t] = calloc(l.count[t], sizeof(double));
            assert_non_null(want[t]);
        }
        define(&l, want);
        run_layer(&l);
        for (int t = Y; t < TENSORS; t++) {
            float *rounded = malloc(l.count[t] * sizeof *rounded);
            assert_non_null(rounded);
            for (size_t k = 0; k < l.count[t]; k++)
                rounded[k] = (float)want[t][k];
            const double error = dt_relative_error(l.v[t], rounded, l.count[t]);
            if (!(error < TOLERANCE))
                fail_msg("case %zu, tensor %d: %g", i, t, error);
            free(rounded);
        }
        for (int t = 0; t < TENSORS; t++)
            free(want[t]);
        free_layer(&l);
    }
}

static void a_sample_has_its_bits_in_any_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        layer all = make_layer(&cases[i]);
        run_layer(&all);
        dti_winograd s = all.s, transposed;
        const size_t n_x = all.count[X] / (size_t)s.n, n_y = all.count[Y] / (size_t)s.n;
        float *y = malloc(n_y * sizeof *y), *dx = malloc(n_x * sizeof *dx);
        assert_true(y != NULL && dx != NULL);
        s.n = 1;
        transposed = dti_winograd_transposed(&s);
        for (size_t k = 0; k < (size_t)all.s.n; k++) {
            run_one_way(&s, false, all.v[X] + k * n_x, all.v[W], all.v[B], y);
            run_one_way(&transposed, true, all.v[DY] + k * n_y, all.v[W], NULL, dx);
            assert_memory_equal(y, all.v[Y] + k * n_y, n_y * sizeof *y);
            assert_memory_equal(dx, all.v[DX] + k * n_x, n_x * sizeof *dx);
        }
        free(y);
        free(dx);
        free_layer(&all);
    }
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    const int before = omp_get_max_threads();
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        layer one = make_layer(&cases[i]);
        omp_set_num_threads(1);
        run_layer(&one);
        for (int threads = 2; threads <= 5; threads += 3) {
            layer many = make_layer(&cases[i]);
            omp_set_num_threads(threads);
            run_layer(&many);
            for (int t = Y; t < TENSORS; t++)
                assert_memory_equal(one.v[t], many.v[t], one.count[t] * sizeof(float));
            free_layer(&many);
        }
        free_layer(&one);
    }
    omp_set_num_threads(before);
}

/* Values of bf16 for those of fp32; free it. */
static dt_bf16 *rounded(const float *v, size_t n)
{
    dt_bf16 *to = malloc(n * sizeof *to);
    assert_non_null(to);
    for (size_t i = 0; i < n; i++)
        to[i] = dt_bf16_from_float(v[i]);
    return to;
}

/* Of a layer whose activations are of bf16, what is activations. */
static bool is_activation(int tensor)
{
    return tensor == X || tensor == DY || tensor == Y || tensor == DX;
}

static void bf16_is_fp32_with_results_rounded_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        layer wide = make_layer(&cases[i]), narrow = make_layer(&cases[i]);
        narrow.s.type = DT_BF16;
        for (int t = 0; t < TENSORS; t++)
            if (is_activation(t)) {
                dt_bf16 *half = rounded(wide.v[t], wide.count[t]);
                for (size_t k = 0; k < wide.count[t]; k++)
                    wide.v[t][k] = dt_bf16_to_float(half[k]);
                memcpy(narrow.v[t], half, wide.count[t] * sizeof *half);
                free(half);
            }
        run_layer(&wide);
        run_layer(&narrow);
        for (int t = Y; t < TENSORS; t++) {
            dt_bf16 *half = is_activation(t) ? rounded(wide.v[t], wide.count[t]) : NULL;
            const void *want = half != NULL ? (void *)half : (void *)wide.v[t];
            assert_memory_equal(
                narrow.v[t], want, wide.count[t] * (half != NULL ? sizeof *half : sizeof(float)));
            free(half);
        }
        free_layer(&wide);
        free_layer(&narrow);
    }
}

/* Whether the tile that result @at is of, one way, has pixel @pixel under it; padding is 1. */
static bool under(int64_t pixel, int64_t at)
{
    const int64_t first = at / 4 * 4 - 1;
    return pixel >= first && pixel < first + 6;
}

/* A value that is not finite reaches every result that reads it, and none of another tile. */
static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    enum { ROW = 5, COLUMN = 6, CHANNEL = 7 };
    const dti_winograd s = {1, 9, 9, 64, 9, 9, 64, 1, DT_F32};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        layer l = make_layer(&s);
        l.v[X][(ROW * s.w + COLUMN) * s.c + CHANNEL] = bad[i];
        run_layer(&l);
        for (int64_t r = 0; r < s.p * s.q; r++) {
            const int64_t p = r / s.q, q = r % s.q;
            const bool near = llabs(p - ROW) <= 1 && llabs(q - COLUMN) <= 1;
            const bool far = !under(ROW, p) || !under(COLUMN, q);
            for (int64_t o = 0; o < s.out; o++) {
                const bool finite = isfinite(l.v[Y][r * s.out + o]);
                assert_true(near ? !finite : finite || !far);
            }
        }
        for (int64_t k = 0; k < 9; k++) {
            const bool finite = isfinite(l.v[DW][(k * s.c + CHANNEL) * s.out]);
            assert_false(finite);
        }
        free_layer(&l);
    }
}

/* Through the layer, whose weights are OIHW outside: of a kernel that only takes one pixel and one
 * channel, the results are that channel, moved. */
static void the_layer_turns_weights_from_and_to_pytorchs(void **state)
{
    (void)state;
    enum { C = 64, N = 2, HW = 6 * 5 };
    void *opts = dt_layer_options(&dt_layer_conv, "out=64 kernel=3 pad=1 bias=off");
    dt_layer_run r = {.desc = &dt_layer_conv, .opts = opts, .n = N, .n_x = 1, .x = {{1, 6, 5, C}}};
    float *x = dt_random_values(N * C * HW, 1), *w = calloc(C * C * 9, sizeof *w);
    float *dy = calloc(N * C * HW, sizeof *dy);
    assert_true(w != NULL && dy != NULL);
    w[(3 * C + 11) * 9 + 2] = 1; /* output 3 is input 11, from above and right */
    dy[3 * HW + 2 * 5 + 1] = 1;  /* sample 0, row 2, column 1 */
    r.in[0] = x;
    r.param[0] = w;
    r.dy = dy;
    dt_layer_check(&r);
    for (int h = 1; h < 6; h++)
        for (int q = 0; q < 4; q++) {
            const float got = r.got_y[3 * HW + h * 5 + q], want = x[11 * HW + (h - 1) * 5 + q + 1];
            assert_true(fabsf(got - want) < 4e-6F);
        }
    assert_true(fabsf(r.got_dx[0][11 * HW + 1 * 5 + 2] - 1) < 4e-6F);
    for (int c = 0; c < C; c++) {
        const float got = r.got_dparam[0][(3 * C + c) * 9 + 6], want = x[c * HW + 3 * 5];
        assert_true(fabsf(got - want) < 4e-6F);
    }
    dt_layer_check_free(&r);
    dt_free(opts);
    free(x);
    free(w);
    free(dy);
}

DT_TEST_GROUP(winograd)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways_are_their_definition),
        cmocka_unit_test(a_sample_has_its_bits_in_any_batch),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(bf16_is_fp32_with_results_rounded_once),
        cmocka_unit_test(what_is_not_finite_stays_so),
        cmocka_unit_test(the_layer_turns_weights_from_and_to_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
