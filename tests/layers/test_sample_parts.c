/* Convolutions of the library's in parts: beside the same by one thread, which is beside its
 * definition elsewhere (test_conv.c). */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "layers/weighted/conv.h"
#include "layers/cpu/sample_parts.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

enum { MOST_THREADS = 3 };

static const struct row {
    const char *opts;
    int64_t n, out, c, groups, kernel;
    dt_shape x;
} rows[] = {
    {"out=16 kernel=3 pad=1", 24, 16, 3, 1, 3, {1, 9, 7, 3}}, /* channels that are padded */
    {"out=16 kernel=3 pad=1 bias=off", 48, 16, 16, 1, 3, {1, 8, 8, 16}},
    {"out=32 kernel=3 stride=2 pad=1", 12, 32, 16, 1, 3, {1, 9, 9, 16}}, /* one sample a part */
    {"out=20 kernel=1", 24, 20, 24, 1, 1, {1, 5, 6, 24}},
    {"out=32 kernel=3 pad=1 groups=2", 36, 32, 32, 2, 3, {1, 6, 6, 32}},
};

static dt_layer_run run_by(int threads, dt_layer_run of)
{
    assert_int_equal(dt_cpu_setup(threads), threads);
    dt_layer_check(&of);
    return of;
}

static void compare(const float *got, const float *want, size_t n, double most, const char *what)
{
    const double off = dt_relative_error(got, want, n);
    if (!(off < most))
        fail_msg("%s: off by %g", what, off);
}

static void check_row(const struct row *r, dt_dtype dtype)
{
    void *opts = dt_layer_options(&dt_layer_conv, r->opts);
    const size_t n_x = (size_t)(r->n * dt_shape_sample(&r->x));
    const size_t n_w = (size_t)(r->out * r->c / r->groups * r->kernel * r->kernel);
    const double most = dtype == DT_BF16 ? 2e-2 : 1e-5;
    float *x = dt_random_values(n_x, 1), *w = dt_random_values(n_w, 2);
    float *bias = dt_random_values((size_t)r->out, 4);
    float *dy = dt_random_values((size_t)(r->n * r->x.h * r->x.w * r->out), 3);
    const bool biased = strstr(r->opts, "bias=off") == NULL;
    dt_layer_run run = {.desc = &dt_layer_conv,
        .opts = opts,
        .n = r->n,
        .n_x = 1,
        .x = {r->x},
        .dtype = dtype,
        .in = {x},
        .param = {w, biased ? bias : NULL},
        .dy = dy};
    dt_layer_run one = run_by(1, run);
    const size_t n_y = (size_t)(r->n * dt_shape_sample(&one.info.y));
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        dt_layer_run cut = run_by(threads, run);
        compare(cut.got_y, one.got_y, n_y, most, "y");
        compare(cut.got_dx[0], one.got_dx[0], n_x, most, "dx");
        compare(cut.got_dparam[0], one.got_dparam[0], n_w, most, "dweight");
        if (biased)
            compare(cut.got_dparam[1], one.got_dparam[1], (size_t)r->out, most, "dbias");
        dt_layer_check_free(&cut);
    }
    dt_layer_check_free(&one);
    dt_free(opts);
    free(x);
    free(w);
    free(bias);
    free(dy);
}

static void parts_give_what_the_whole_gives(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        check_row(&rows[i], DT_F32);
        check_row(&rows[i], DT_BF16);
    }
}

static dt_dnnl_problem small_problem(void)
{
    return (dt_dnnl_problem){.groups = 1,
        .c = 16,
        .h = 8,
        .w = 8,
        .out = 16,
        .p = 8,
        .q = 8,
        .kernel = 3,
        .stride = 1,
        .pad = 1,
        .dilation = 1};
}

static void samples_are_cut_evenly_or_not_at_all(void **state)
{
    dt_dnnl_problem p = small_problem();
    (void)state;
    dt_cpu_setup(2);
    for (int64_t n = 1; n <= 300; n++) {
        const dt_dnnl_layout l = dti_sample_parts_layout(&p, DT_DNNL_FORWARD, n);
        assert_int_equal(n % l.n, 0);
        assert_int_equal(l.alone, l.n < n);
        assert_true(!l.alone || (n / l.n >= 8 && n / l.n <= 32));
    }
    assert_true(dti_sample_parts_layout(&p, DT_DNNL_DATA, 128).alone);
    assert_true(dti_sample_parts_layout(&p, DT_DNNL_WEIGHTS, 128).alone);
    assert_false(dti_sample_parts_layout(&p, DT_DNNL_FORWARD, 37).alone);
    assert_false(dti_sample_parts_layout(&p, DT_DNNL_PLAIN, 128).alone);
    p.c = p.out = 512;
    assert_false(dti_sample_parts_layout(&p, DT_DNNL_FORWARD, 128).alone);
    p = small_problem();
    p.fc = 1;
    assert_false(dti_sample_parts_layout(&p, DT_DNNL_FORWARD, 128).alone);
    dt_cpu_setup(1);
    p = small_problem();
    assert_false(dti_sample_parts_layout(&p, DT_DNNL_FORWARD, 128).alone);
}

DT_TEST_GROUP(sample_parts)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_give_what_the_whole_gives),
        cmocka_unit_test(samples_are_cut_evenly_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
