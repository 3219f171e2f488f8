/* Backward-data of convolutions that look at one pixel, where it is a product of ours. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/weighted/conv.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

#define TOLERANCE 1e-6
#define TOLERANCE_BF16 4e-3 /* results are rounded to 8 bits */

static const struct row {
    const char *opts;
    int64_t n, out, stride;
    dt_shape x;
    dt_dtype dtype;
} rows[] = {
    {"out=256 kernel=1", 5, 256, 1, {1, 7, 9, 64}, DT_F32}, /* one panel; several tasks */
    {"out=1024 kernel=1 bias=off", 2, 1024, 1, {1, 1, 3, 1024}, DT_F32},
    {"out=1024 kernel=1 stride=2", 3, 1024, 2, {1, 5, 6, 1024},
        DT_F32}, /* pixels nobody looked at */
    /* pairs of bf16, where the processor has them: panels of all widths and odd numbers of rows */
    {"out=32 kernel=1 bias=off", 1, 32, 1, {1, 1, 1, 16}, DT_BF16},
    {"out=64 kernel=1 bias=off", 3, 64, 1, {1, 7, 9, 96}, DT_BF16},
    {"out=96 kernel=1 bias=off", 2, 96, 1, {1, 13, 11, 176}, DT_BF16},
    {"out=256 kernel=1 bias=off", 5, 256, 1, {1, 1, 5, 240}, DT_BF16},
    {"out=64 kernel=1 stride=2 bias=off", 3, 64, 2, {1, 5, 6, 64}, DT_BF16},
};

/* As a bf16 is, to the nearest. */
static void round_all(float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = dt_bf16_to_float(dt_bf16_from_float(v[i]));
}

/* dx in PyTorch's layout, by its definition. */
static float *define(const struct row *r, const float *w, const float *dy, const dt_shape *y)
{
    const int64_t c = r->x.c, pixels = r->x.h * r->x.w, results = y->h * y->w;
    float *dx = calloc((size_t)(r->n * c * pixels), sizeof *dx);
    double *sum = calloc((size_t)c, sizeof *sum);
    assert_true(dx != NULL && sum != NULL);
    for (int64_t i = 0; i < r->n * results; i++) {
        const int64_t n = i / results, p = i % results / y->w, q = i % y->w;
        memset(sum, 0, (size_t)c * sizeof *sum);
        for (int64_t o = 0; o < r->out; o++)
            for (int64_t k = 0; k < c; k++)
                sum[k] +=
                    (double)dy[(n * r->out + o) * results + i % results] * (double)w[o * c + k];
        for (int64_t k = 0; k < c; k++)
            dx[(n * c + k) * pixels + p * r->stride * r->x.w + q * r->stride] = (float)sum[k];
    }
    free(sum);
    return dx;
}

static void dx_is_its_definition_in_any_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        void *opts = dt_layer_options(&dt_layer_conv, r->opts);
        const size_t n_x = (size_t)(r->n * dt_shape_sample(&r->x));
        float *x = dt_random_values(n_x, 1), *w = dt_random_values((size_t)(r->out * r->x.c), 2);
        float *dy = dt_random_values(n_x / (size_t)r->x.c * (size_t)r->out, 3);
        if (r->dtype == DT_BF16) {
            round_all(w, (size_t)(r->out * r->x.c));
            round_all(dy, n_x / (size_t)r->x.c * (size_t)r->out);
        }
        dt_layer_run a = {.desc = &dt_layer_conv,
            .opts = opts,
            .n = r->n,
            .n_x = 1,
            .x = {r->x},
            .dtype = r->dtype};
        a.in[0] = x;
        a.param[0] = w;
        a.dy = dy;
        dt_layer_run b = a;
        b.piece = 1;
        b.home_n = 64;
        dt_layer_check(&a);
        dt_layer_check(&b);
        float *want = define(r, w, dy, &a.info.y);
        assert_true(dt_relative_error(a.got_dx[0], want, n_x) <
                    (r->dtype == DT_BF16 ? TOLERANCE_BF16 : TOLERANCE));
        assert_memory_equal(a.got_dx[0], b.got_dx[0], n_x * sizeof(float));
        dt_layer_check_free(&a);
        dt_layer_check_free(&b);
        dt_free(opts);
        free(want);
        free(x);
        free(w);
        free(dy);
    }
}

DT_TEST_GROUP(pixels)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dx_is_its_definition_in_any_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
