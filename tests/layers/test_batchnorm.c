/* Batch normalisation against plain double precision, and what happens to running statistics. That
 * a recompute gives forward's bits is checked by dt_layer_check in each of its runs. */
#include "tests/fixture/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/philox.h"
#include "layers/norm/batchnorm.h"
#include "tests/fixture/layer_check.h"

#define TOLERANCE 1e-5

enum { MAX_C = 1100 };

static const struct row {
    int64_t n, h, w, c;
    float mean, outlier; /* of all values; of the very first */
} rows[] = {
    {1, 2, 3, 1, 0, 0},       /* with two or three values dx would be all cancellation */
    {2, 3, 5, 7, 1, 0},       /* one block */
    {5, 13, 11, 3, 0, 0},     /* several blocks, the last one short */
    {4, 56, 56, 32, -2, 0},   /* several parts */
    {3, 7, 7, 1030, 0.5f, 0}, /* more channels than a tile, and an odd rest */
    {4, 28, 28, 64, 100, 0},  /* cancellation, were squares added up as they are */
    {4, 28, 28, 16, 0, 3e4f}  /* the same, had the first value been taken for the mean */
};

typedef struct answer {
    double mean[MAX_C], var[MAX_C]; /* biased */
    float *y, *dx, dweight[MAX_C], dbias[MAX_C];
} answer;

static float *values_of(const struct row *r, uint32_t key)
{
    const int64_t pixels = r->h * r->w;
    float *v = dt_random_values((size_t)(r->n * pixels * r->c), key);
    for (int64_t i = 0; i < r->n * pixels * r->c; i++)
        v[i] += r->mean;
    for (int64_t c = 0; c < r->c && r->outlier != 0; c++)
        v[c * pixels] = r->outlier;
    return v;
}

/* NCHW: element i of channel c, counting samples and pixels. */
static size_t at(const struct row *r, int64_t c, int64_t i)
{
    const int64_t pixels = r->h * r->w;
    return (size_t)((i / pixels * r->c + c) * pixels + i % pixels);
}

static void reference(const struct row *r, const float *x, const float *dy, const float *weight,
    const float *bias, answer *o)
{
    const int64_t n = r->n * r->h * r->w;
    o->y = malloc((size_t)(n * r->c) * sizeof(float));
    o->dx = malloc((size_t)(n * r->c) * sizeof(float));
    assert_non_null(o->y);
    assert_non_null(o->dx);
    for (int64_t c = 0; c < r->c; c++) {
        double mean = 0, var = 0, a = 0, b = 0;
        for (int64_t i = 0; i < n; i++)
            mean += (double)x[at(r, c, i)] / (double)n;
        for (int64_t i = 0; i < n; i++)
            var += pow((double)x[at(r, c, i)] - mean, 2) / (double)n;
        const double istd = 1 / sqrt(var + 1e-5);
        for (int64_t i = 0; i < n; i++) {
            const double hat = ((double)x[at(r, c, i)] - mean) * istd;
            o->y[at(r, c, i)] = (float)(hat * (double)weight[c] + (double)bias[c]);
            a += (double)dy[at(r, c, i)];
            b += (double)dy[at(r, c, i)] * hat;
        }
        for (int64_t i = 0; i < n; i++) {
            const double hat = ((double)x[at(r, c, i)] - mean) * istd;
            o->dx[at(r, c, i)] = (float)((double)weight[c] * istd *
                                         ((double)dy[at(r, c, i)] - (a + hat * b) / (double)n));
        }
        o->mean[c] = mean;
        o->var[c] = var;
        o->dweight[c] = (float)b;
        o->dbias[c] = (float)a;
    }
}

static void near(const float *got, const float *want, int64_t n, size_t row, const char *what)
{
    const double off = dt_relative_error(got, want, (size_t)n);
    if (!(off < TOLERANCE))
        fail_msg("row %zu: %s is off by %g, relative", row, what, off);
}

static void running_near(const dt_layer_run *r, const answer *o, size_t row)
{
    const int64_t c = r->x[0].c;
    const double n = (double)(r->n * r->x[0].h * r->x[0].w);
    float mean[MAX_C], var[MAX_C];
    for (int64_t i = 0; i < c; i++) {
        mean[i] = (float)(0.9 * (double)r->param[2][i] + 0.1 * o->mean[i]);
        var[i] = (float)(0.9 * (double)r->param[3][i] + 0.1 * o->var[i] * n / (n - 1));
    }
    near(r->got_pending[2], mean, c, row, "running_mean");
    near(r->got_pending[3], var, c, row, "running_var");
}

static void agrees_with_double_precision(void **state)
{
    (void)state;
    for (size_t k = 0; k < DT_COUNT(rows); k++) {
        const struct row *r = &rows[k];
        const int64_t all = r->n * r->h * r->w * r->c;
        float *x = values_of(r, 1), *dy = dt_random_values((size_t)all, 2), *p[4];
        static answer o;
        for (int i = 0; i < 4; i++)
            p[i] = dt_random_values((size_t)r->c, (uint32_t)(3 + i));
        reference(r, x, dy, p[0], p[1], &o);
        dt_layer_run run = {.desc = &dt_layer_batchnorm,
            .n = r->n,
            .n_x = 1,
            .x = {{1, r->h, r->w, r->c}},
            .in = {x},
            .param = {p[0], p[1], p[2], p[3]},
            .dy = dy};
        dt_layer_check(&run);
        near(run.got_y, o.y, all, k, "y");
        near(run.got_dx[0], o.dx, all, k, "dx");
        near(run.got_dparam[0], o.dweight, r->c, k, "dweight");
        near(run.got_dparam[1], o.dbias, r->c, k, "dbias");
        running_near(&run, &o, k);
        dt_layer_check_free(&run);
        free(o.y);
        free(o.dx);
        for (int i = 0; i < 4; i++)
            free(p[i]);
        free(x);
        free(dy);
    }
}

static void evaluation_takes_running_statistics(void **state)
{
    (void)state;
    const float x[] = {1, -2, 3, 5, 0, 7}, mean[] = {0.5f, -1, 2}, var[] = {4, 0.25f, 1e-3f};
    const float weight[] = {2, -1, 0.5f}, bias[] = {1, 2, 3};
    for (int in_place = 0; in_place < 2; in_place++) {
        float want[6];
        dt_layer_run r = {.desc = &dt_layer_batchnorm,
            .n = 2,
            .n_x = 1,
            .piece = 1,
            .x = {{1, 1, 1, 3}},
            .in = {x},
            .param = {weight, bias, mean, var},
            .eval = true,
            .in_place = in_place == 1};
        for (int i = 0; i < 6; i++)
            want[i] = (float)(((double)x[i] - (double)mean[i % 3]) /
                                  sqrt((double)var[i % 3] + 1e-5) * (double)weight[i % 3] +
                              (double)bias[i % 3]);
        dt_layer_check(&r);
        near(r.got_y, want, 6, 0, "y");
        dt_layer_check_free(&r);
    }
}

static void constant_channels_have_no_variance_and_never_a_negative_one(void **state)
{
    (void)state;
    enum { N = 5, C = 64, PIXELS = 100 };
    float *x = malloc(N * C * PIXELS * sizeof *x), one[C], bias[C], zero[C];
    assert_non_null(x);
    for (int c = 0; c < C; c++) {
        one[c] = 1;
        zero[c] = 0;
        bias[c] = (float)c;
        for (int i = 0; i < N * PIXELS; i++)
            x[(i / PIXELS * C + c) * PIXELS + i % PIXELS] = 3.3f + 0.7f * (float)c;
    }
    dt_layer_run r = {.desc = &dt_layer_batchnorm,
        .n = N,
        .n_x = 1,
        .x = {{1, 10, 10, C}},
        .in = {x},
        .param = {one, bias, zero, zero}};
    dt_layer_check(&r);
    for (int i = 0; i < N * C * PIXELS; i++)
        assert_true(r.got_y[i] == bias[i / PIXELS % C]);
    for (int c = 0; c < C; c++) {
        assert_true(r.got_pending[2][c] == (float)(0.1 * (double)x[c * PIXELS]));
        assert_true(r.got_pending[3][c] >= 0 && r.got_pending[3][c] < 1e-9f);
    }
    dt_layer_check_free(&r);
    free(x);
}

static void a_single_value_counts_as_variance_zero(void **state)
{
    (void)state;
    const float x[] = {2, -3}, weight[] = {1, 1}, bias[] = {5, 6}, mean[] = {0, 0}, var[] = {1, 2};
    dt_layer_run r = {.desc = &dt_layer_batchnorm,
        .n = 1,
        .n_x = 1,
        .x = {{1, 1, 1, 2}},
        .in = {x},
        .param = {weight, bias, mean, var}};
    dt_layer_check(&r);
    assert_true(r.got_y[0] == 5 && r.got_y[1] == 6);
    assert_true(r.got_pending[3][0] == (float)0.9 && r.got_pending[3][1] == (float)1.8);
    dt_layer_check_free(&r);
}

static void nan_reaches_output_and_statistics(void **state)
{
    (void)state;
    const float x[] = {1, 2, NAN, 4, 5, 6}, one[] = {1, 1}, zero[] = {0, 0};
    dt_layer_run r = {.desc = &dt_layer_batchnorm,
        .n = 1,
        .n_x = 1,
        .x = {{1, 1, 3, 2}},
        .in = {x},
        .param = {one, zero, zero, one}};
    dt_layer_check(&r);
    for (int i = 0; i < 3; i++)
        assert_true(isnan(r.got_y[i]) && isfinite(r.got_y[3 + i])); /* NCHW: channel 0 has it */
    assert_true(isnan(r.got_pending[2][0]) && isnan(r.got_pending[3][0]));
    dt_layer_check_free(&r);
}

/* A fixture for calls that dt_layer_check does not make: 2 channels, 4 values each. */
typedef struct bench {
    dt_graph *g;
    dt_call call;
    dt_args a;
    float x[8], y[8], dy[8], dx[8], p[4][2], q[4][2], dp[2][2], s[2][2];
    double work[64];
} bench;

static void open_bench(bench *b)
{
    dt_err err = {0};
    const int32_t in = DT_GRAPH_INPUT;
    int32_t id;
    *b = (bench){.p = {{2, 3}, {1, -1}, {10, 20}, {1, 4}}};
    assert_ok(dt_graph_create(&b->g, "g", (dt_shape){1, 2, 2, 2}, 10, &err), &err);
    assert_ok(dt_graph_add(b->g, &dt_layer_batchnorm, "b", NULL, &in, 1, &id, &err), &err);
    b->call = (dt_call){.node = &b->g->node[id], .graph = b->g, .n = 1, .home_n = 1};
    b->a = (dt_args){.n = 1, .step_labels = 1};
    for (int i = 0; i < 8; i++) {
        b->x[i] = dt_unit(dt_random(3, DT_RANDOM_TEST, 0, 0, (uint64_t)i).v[0]);
        b->dy[i] = dt_unit(dt_random(3, DT_RANDOM_TEST, 0, 0, (uint64_t)i).v[1]);
    }
    b->a.port[DT_X] = b->x;
    b->a.port[DT_Y] = b->y;
    b->a.port[DT_DY] = b->dy;
    b->a.port[DT_DX] = b->dx;
    b->a.port[DT_WORK] = b->work;
    for (int i = 0; i < 4; i++)
        b->a.port[DT_P + i] = b->p[i];
    for (int i = 0; i < 2; i++) {
        b->a.port[DT_Q + 2 + i] = b->q[2 + i];
        b->a.port[DT_DP + i] = b->dp[i];
        b->a.port[DT_S + i] = b->s[i];
    }
}

static void run(bench *b, dt_form_kind form)
{
    dt_err err = {0};
    dt_facts f = {0};
    b->call.form = form;
    assert_ok(dt_layer_batchnorm.cpu->facts(&b->call, &f, &err), &err);
    assert_true(f.work_bytes <= sizeof b->work);
    assert_ok(dt_layer_batchnorm.cpu->run(&b->call, NULL, &b->a, &err), &err);
}

/* As two forward passes of PyTorch would leave them, with the live statistics untouched until
 * update. */
static void later_micro_batches_build_on_the_pending_statistics(void **state)
{
    (void)state;
    bench b;
    open_bench(&b);
    float live[4][2];
    memcpy(live, b.p, sizeof live);
    double want[2][2];
    for (int c = 0; c < 2; c++)
        for (int which = 0; which < 2; which++)
            want[which][c] = (double)b.p[2 + which][c];
    for (int batch = 0; batch < 3; batch++) {
        for (int i = 0; i < 8; i++)
            b.x[i] += (float)(batch * (i + 1));
        b.a.accumulate = batch > 0;
        run(&b, DT_FORWARD);
        for (int c = 0; c < 2; c++) {
            double mean = 0, var = 0;
            for (int i = 0; i < 4; i++)
                mean += (double)b.x[2 * i + c] / 4;
            for (int i = 0; i < 4; i++)
                var += pow((double)b.x[2 * i + c] - mean, 2) / 3;
            want[0][c] = 0.9 * want[0][c] + 0.1 * mean;
            want[1][c] = 0.9 * want[1][c] + 0.1 * var;
            assert_true(fabs((double)b.q[2][c] - want[0][c]) < 1e-5 * fabs(want[0][c]));
            assert_true(fabs((double)b.q[3][c] - want[1][c]) < 1e-5 * fabs(want[1][c]));
        }
    }
    assert_memory_equal(live, b.p, sizeof live);
    dt_graph_destroy(b.g);
}

/* The gradient of the image is nobody's business. */
static void parameters_get_the_same_gradient_without_dx(void **state)
{
    (void)state;
    bench b;
    open_bench(&b);
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    float with[2][2];
    memcpy(with, b.dp, sizeof with);
    memset(b.dp, 0xFF, sizeof b.dp);
    b.a.port[DT_DX] = NULL;
    run(&b, DT_BACKWARD);
    assert_memory_equal(with, b.dp, sizeof with);
    dt_graph_destroy(b.g);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    const dt_batchnorm bad[] = {{0, 0.1, false}, {-1, 0.1, false}, {1e-5, -0.1, false},
        {1e-5, 1.1, false}, {1e-5, (double)NAN, false}};
    const dt_shape x = {1, 2, 2, 2};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        dt_layer_info info;
        dt_err err = {0};
        assert_fails(dt_layer_batchnorm.infer(&bad[i], &x, 1, &info, &err), DT_E_CONFIG, &err,
            "momentum in [0, 1]");
    }
}

DT_TEST_GROUP(batchnorm)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_double_precision),
        cmocka_unit_test(evaluation_takes_running_statistics),
        cmocka_unit_test(constant_channels_have_no_variance_and_never_a_negative_one),
        cmocka_unit_test(a_single_value_counts_as_variance_zero),
        cmocka_unit_test(nan_reaches_output_and_statistics),
        cmocka_unit_test(later_micro_batches_build_on_the_pending_statistics),
        cmocka_unit_test(parameters_get_the_same_gradient_without_dx),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
