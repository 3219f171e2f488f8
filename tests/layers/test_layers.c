/* Layers that are not matrix products: what reference data does not show. Comparisons are of bits.
 */
#include "tests/fixture/check.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/philox.h"
#include "layers/pool/avgpool.h"
#include "layers/norm/batchnorm.h"
#include "layers/elementwise/dropout.h"
#include "layers/pool/maxpool.h"
#include "layers/plain.h"
#include "layers/registry.h"
#include "tests/fixture/layer_check.h"

/* Every kernel once small and odd, and once large enough to be cut into several tasks. */
static const struct row {
    const dt_layer_desc *desc;
    dt_shape x;
    int64_t n;
    int n_x;
    dt_maxpool maxpool;
    dt_avgpool avgpool;
    double rate;
} rows[] = {
    {&dt_layer_relu, {1, 1, 1, 1}, 1, 1, .rate = 0},
    {&dt_layer_relu, {1, 3, 5, 7}, 5, 1, .rate = 0},
    {&dt_layer_relu, {1, 41, 40, 33}, 3, 1, .rate = 0},
    {&dt_layer_add, {1, 3, 5, 7}, 5, 2, .rate = 0},
    {&dt_layer_add, {1, 41, 40, 33}, 3, 4, .rate = 0},
    {&dt_layer_add_relu, {1, 1, 1, 1}, 1, 2, .rate = 0},
    {&dt_layer_add_relu, {1, 3, 5, 7}, 5, 2, .rate = 0},
    {&dt_layer_add_relu, {1, 41, 40, 33}, 3, 4, .rate = 0},
    {&dt_layer_maxpool, {1, 7, 6, 3}, 5, 1, .maxpool = {3, 2, 1, false}},
    {&dt_layer_maxpool, {1, 8, 9, 67}, 3, 1, .maxpool = {3, 2, 1, true}},
    {&dt_layer_maxpool, {1, 9, 10, 65}, 3, 1, .maxpool = {4, 2, 1, false}},
    {&dt_layer_maxpool, {1, 9, 10, 66}, 3, 1, .maxpool = {5, 2, 1, false}},
    {&dt_layer_maxpool, {1, 15, 17, 5}, 2, 1, .maxpool = {15, 1, 7, false}},
    {&dt_layer_maxpool, {1, 15, 17, 300}, 1, 1, .maxpool = {15, 1, 7, false}},
    {&dt_layer_maxpool, {1, 9, 9, 4}, 2, 1, .maxpool = {2, 3, 0, true}},
    {&dt_layer_avgpool, {1, 7, 6, 3}, 5, 1, .avgpool = {3, 2, 1, false, true}},
    {&dt_layer_avgpool, {1, 8, 9, 67}, 3, 1, .avgpool = {3, 2, 1, true, false}},
    {&dt_layer_global_avgpool, {1, 7, 5, 3}, 5, 1, .rate = 0},
    {&dt_layer_global_avgpool, {1, 14, 13, 130}, 3, 1, .rate = 0},
    {&dt_layer_batchnorm, {1, 5, 3, 3}, 5, 1, .rate = 0},
    {&dt_layer_batchnorm, {1, 56, 56, 32}, 5, 1, .rate = 0},
    {&dt_layer_batchnorm, {1, 7, 7, 1030}, 7, 1, .rate = 0},
    {&dt_layer_batchnorm_relu, {1, 5, 3, 3}, 5, 1, .rate = 0},
    {&dt_layer_batchnorm_relu, {1, 56, 56, 32}, 5, 1, .rate = 0},
    {&dt_layer_batchnorm_relu, {1, 7, 7, 1030}, 7, 1, .rate = 0},
    {&dt_layer_dropout, {1, 3, 5, 7}, 5, 1, .rate = 0.3},
    {&dt_layer_dropout, {1, 41, 40, 33}, 3, 1, .rate = 0.5},
    {&dt_layer_cross_entropy, {1, 1, 1, 10}, 7, 1, .rate = 0},
};

enum { MAX_N = 8, MAX_PARAM = 2048 };
static const int32_t row_labels[MAX_N] = {3, 0, 9, 1, 1, 7, 5, 2};

/* What one way of running a row gave. */
typedef struct outcome {
    dt_layer_run run;
    double rate;
    float *in[DT_MAX_IN], *dy;
} outcome;

static void fill_params(dt_layer_run *r)
{
    static float values[DT_MAX_PARAM][MAX_PARAM];
    for (int i = 0; i < DT_MAX_PARAM; i++) {
        for (int c = 0; c < MAX_PARAM; c++)
            values[i][c] =
                0.5f + dt_unit(dt_random(1, DT_RANDOM_TEST, 9, (uint32_t)i, (uint64_t)c).v[0]);
        r->param[i] = values[i];
    }
}

/* Junk that was left in a result is a NaN. */
static void assert_finite(const float *v, int64_t n, const char *layer, const char *of)
{
    for (int64_t i = 0; v != NULL && i < n; i++)
        if (!isfinite(v[i]))
            fail_msg("%s: %s[%lld] was not written", layer, of, (long long)i);
}

static void run_row(const struct row *row, int alt, int64_t piece, bool in_place, outcome *o)
{
    *o = (outcome){.run = {.desc = row->desc,
                       .n = row->n,
                       .piece = piece,
                       .n_x = row->n_x,
                       .alt = alt,
                       .in_place = in_place,
                       .labels = row_labels},
        .rate = row->rate};
    dt_layer_run *r = &o->run;
    const size_t count = (size_t)(row->n * dt_shape_sample(&row->x));
    if (row->desc == &dt_layer_maxpool)
        r->opts = &row->maxpool;
    else if (row->desc == &dt_layer_avgpool)
        r->opts = &row->avgpool;
    else if (row->desc == &dt_layer_dropout)
        r->opts = &o->rate;
    for (int i = 0; i < row->n_x; i++) {
        r->x[i] = row->x;
        r->in[i] = o->in[i] = dt_random_values(count, (uint32_t)i);
    }
    r->dy = o->dy = dt_random_values(count, 100); /* no output here is larger than its input */
    fill_params(r);
    dt_layer_check(r);
    if (row->desc->form[DT_FORWARD].writes & DT_BIT(DT_Y))
        assert_finite(r->got_y, row->n * dt_shape_sample(&r->info.y), row->desc->name, "y");
    for (int i = 0; i < row->n_x; i++)
        assert_finite(r->got_dx[i], (int64_t)count, row->desc->name, "dx");
}

static void drop(outcome *o)
{
    dt_layer_check_free(&o->run);
    for (int i = 0; i < DT_MAX_IN; i++)
        free(o->in[i]);
    free(o->dy);
}

static void same_floats(
    const float *a, const float *b, int64_t n, const char *layer, const char *of)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL && memcmp(a, b, (size_t)n * sizeof *a) != 0)
        fail_msg("%s: bits of %s differ", layer, of);
}

static void same_outcome(const outcome *a, const outcome *b)
{
    const dt_layer_run *p = &a->run, *q = &b->run;
    const char *name = p->desc->name;
    const int64_t x = p->n * dt_shape_sample(&p->x[0]);
    if (p->desc->form[DT_FORWARD].writes & DT_BIT(DT_Y))
        same_floats(p->got_y, q->got_y, p->n * dt_shape_sample(&p->info.y), name, "y");
    for (int i = 0; i < p->n_x; i++)
        same_floats(p->got_dx[i], q->got_dx[i], x, name, "dx");
    for (int i = 0; i < p->info.n_param; i++) {
        const int64_t n = dt_param_count(&p->info.param[i]);
        same_floats(p->got_dparam[i], q->got_dparam[i], n, name, "a parameter's gradient");
        same_floats(p->got_pending[i], q->got_pending[i], n, name, "a running statistic");
    }
    assert_memory_equal(&p->metrics, &q->metrics, sizeof p->metrics);
}

/* Each row and alternative, run the plain way and another way. */
static void compare_ways(int threads, int64_t piece, bool in_place, int other_alt)
{
    const int usual = omp_get_max_threads();
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        for (int alt = 0; alt < rows[i].desc->n_alt || alt == 0; alt++) {
            const int other = other_alt < 0 || rows[i].desc->n_alt <= other_alt ? alt : other_alt;
            outcome a, b;
            omp_set_num_threads(1);
            run_row(&rows[i], alt, 0, false, &a);
            omp_set_num_threads(threads);
            run_row(&rows[i], other, piece, in_place, &b);
            same_outcome(&a, &b);
            drop(&a);
            drop(&b);
        }
    omp_set_num_threads(usual);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 3; threads++)
        if (dt_picked((uint64_t)threads, 2, 2, 1))
            compare_ways(threads, 0, false, -1);
}

static void pieces_of_the_batch_give_the_same_bits(void **state)
{
    (void)state;
    for (int piece = 1; piece <= 2; piece++) /* on so many threads */
        if (dt_picked((uint64_t)piece, 2, 2, 1))
            compare_ways(piece, piece, false, -1);
}

static void in_place_gives_the_same_bits(void **state)
{
    (void)state;
    compare_ways(2, 0, true, -1);
}

static void alternatives_give_the_same_bits(void **state)
{
    (void)state;
    compare_ways(2, 0, false, 1);
}

/* Run one layer with plain options on given values; x and dy have n samples. */
static void run_values(dt_layer_run *r, const float *x, const float *dy)
{
    r->n_x = 1;
    r->in[0] = x;
    r->dy = dy;
    dt_layer_check(r);
}

static const float odd_values[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-42f, -1e-42f, INFINITY, -INFINITY,
    NAN, 0x1p-149f, -0x1p-149f, 0x1p-126f, -0x1p-126f, 3.5f, -0.0f, 0.0f, NAN};

static void relu_alternatives_agree_on_odd_values(void **state)
{
    (void)state;
    const int64_t n = DT_COUNT(odd_values);
    float dy[DT_COUNT(odd_values)];
    for (int i = 0; i < (int)n; i++)
        dy[i] = (float)(i + 1);
    dt_layer_run a = {.desc = &dt_layer_relu, .n = 1, .x = {{1, 1, 1, n}}}, b = a;
    b.alt = 1;
    run_values(&a, odd_values, dy);
    run_values(&b, odd_values, dy);
    assert_memory_equal(a.got_y, b.got_y, sizeof dy);
    assert_memory_equal(a.got_dx[0], b.got_dx[0], sizeof dy);
    for (int i = 0; i < (int)n; i++) {
        const float x = odd_values[i];
        assert_true(isnan(x) ? isnan(a.got_y[i]) : a.got_y[i] == (x > 0 ? x : 0.0f));
        assert_false(!isnan(x) && signbit(a.got_y[i]));
        assert_true(a.got_dx[0][i] == (x <= 0 ? 0 : dy[i]));
    }
    dt_layer_check_free(&a);
    dt_layer_check_free(&b);
}

/* Few different values, so that most windows have ties, some have NaNs and some only -inf. */
static void maxpool_alternatives_agree_on_ties_and_nan(void **state)
{
    (void)state;
    enum { N = 2, H = 9, W = 8, C = 5, COUNT = N * H * W * C };
    static const float few[] = {0.0f, -0.0f, 1.0f, -INFINITY, NAN, -INFINITY, 1e-42f, -INFINITY};
    const dt_maxpool shapes[] = {{3, 2, 1, false}, {2, 1, 0, false}, {3, 3, 1, true}};
    float x[COUNT], *dy = dt_random_values(COUNT, 5);
    for (int i = 0; i < COUNT; i++)
        x[i] = few[dt_random(2, DT_RANDOM_TEST, 0, 0, (uint64_t)i).v[0] % DT_COUNT(few)];
    for (size_t s = 0; s < DT_COUNT(shapes); s++) {
        dt_layer_run a = {
            .desc = &dt_layer_maxpool, .opts = &shapes[s], .n = N, .x = {{1, H, W, C}}};
        dt_layer_run b = a;
        b.alt = 1;
        run_values(&a, x, dy);
        run_values(&b, x, dy);
        assert_memory_equal(
            a.got_y, b.got_y, (size_t)(N * dt_shape_sample(&a.info.y)) * sizeof(float));
        assert_memory_equal(a.got_dx[0], b.got_dx[0], sizeof x);
        dt_layer_check_free(&a);
        dt_layer_check_free(&b);
    }
    free(dy);
}

static void maxpool_gives_the_gradient_to_the_first_maximum(void **state)
{
    (void)state;
    const struct {
        float x[4], y;
        int winner;
    } cases[] = {
        {{1, 1, 1, 1}, 1, 0},
        {{0, 2, 2, 1}, 2, 1},
        {{-0.0f, 0.0f, -1, 0}, 0, 0},
        {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, -INFINITY, 0},
        {{5, NAN, 7, NAN}, NAN, 1},
        {{INFINITY, NAN, INFINITY, 1}, NAN, 1},
    };
    const dt_maxpool o = {.kernel = 2};
    const float dy = 3;
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        for (int alt = 0; alt < 2; alt++) {
            dt_layer_run r = {
                .desc = &dt_layer_maxpool, .opts = &o, .n = 1, .x = {{1, 2, 2, 1}}, .alt = alt};
            run_values(&r, cases[i].x, &dy);
            assert_true(isnan(cases[i].y) ? isnan(r.got_y[0]) : r.got_y[0] == cases[i].y);
            for (int k = 0; k < 4; k++)
                assert_true(r.got_dx[0][k] == (k == cases[i].winner ? dy : 0));
            dt_layer_check_free(&r);
        }
}

static void maxpool_adds_gradients_of_overlapping_windows(void **state)
{
    (void)state;
    const float x[] = {1, 9, 2}, dy[8] = {0, 4, 0.5f, 0, 0, 0, 0, 0};
    const dt_maxpool o = {.kernel = 2, .stride = 1, .pad = 1};
    dt_layer_run r = {.desc = &dt_layer_maxpool, .opts = &o, .n = 1, .x = {{1, 1, 3, 1}}};
    run_values(&r, x, dy); /* 2 x 4 outputs; the first row's middle windows both hold the 9 */
    assert_int_equal(r.info.y.h, 2);
    assert_int_equal(r.info.y.w, 4);
    assert_true(r.got_dx[0][0] == 0 && r.got_dx[0][1] == 4.5f && r.got_dx[0][2] == 0);
    dt_layer_check_free(&r);
}

/* Four bits an output while a window has at most 16 positions, else a byte. */
static void maxpool_index_takes_four_bits_an_output(void **state)
{
    (void)state;
    const struct {
        int64_t kernel;
        dt_shape x;
        size_t bytes; /* of a sample */
    } cases[] = {{2, {1, 8, 8, 4}, 32}, {2, {1, 6, 6, 3}, 14}, {4, {1, 12, 12, 5}, 23},
        {5, {1, 15, 15, 5}, 45}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_maxpool m = {.kernel = cases[i].kernel};
        dt_layer_info info;
        dt_err err = {0};
        assert_ok(dt_layer_maxpool.infer(&m, &cases[i].x, 1, &info, &err), &err);
        assert_int_equal(info.stash[0].sample_bytes, cases[i].bytes);
        assert_int_equal(info.stash[0].fixed_bytes, 0);
    }
}

/* PyTorch's sizes. */
static void pooling_sizes_follow_pytorch(void **state)
{
    (void)state;
    const struct {
        int64_t in, kernel, stride, pad;
        bool ceil;
        int64_t out;
    } cases[] = {
        {12, 3, 2, 0, false, 5}, {12, 3, 2, 0, true, 6}, {11, 3, 2, 0, true, 5},
        {112, 3, 2, 1, false, 56},
        {2, 1, 3, 0, true, 1}, /* a second window would start past the end */
        {3, 1, 3, 0, true, 1}, /* or right at the end */
        {6, 3, 5, 1, true, 2}, /* a third would start in the right padding */
        {5, 2, 3, 0, true, 2}, {7, 2, 0, 0, false, 3}, /* stride 0: as kernel */
        {2, 3, 2, 0, true, 1},                         /* one that reaches beyond the map */
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_shape x = {1, cases[i].in, cases[i].in + cases[i].stride, 2};
        const dt_maxpool m = {cases[i].kernel, cases[i].stride, cases[i].pad, cases[i].ceil};
        const dt_avgpool a = {cases[i].kernel, cases[i].stride, cases[i].pad, cases[i].ceil, true};
        const int64_t wide = cases[i].out + (cases[i].stride > 0);
        dt_layer_info info;
        dt_err err = {0};
        assert_ok(dt_layer_maxpool.infer(&m, &x, 1, &info, &err), &err);
        const dt_shape y = info.y, want = {1, cases[i].out, wide, 2};
        assert_true(dt_shape_same(&y, &want));
        assert_ok(dt_layer_avgpool.infer(&a, &x, 1, &info, &err), &err);
        assert_true(dt_shape_same(&info.y, &want));
    }
}

static void pooling_refuses_windows_that_cannot_be(void **state)
{
    (void)state;
    const dt_shape x = {1, 7, 7, 2};
    const struct {
        dt_avgpool o;
        const char *text;
    } cases[] = {
        {{.kernel = 0}, "at least 1"},
        {{.kernel = 2, .stride = -1}, "at least 1"},
        {{.kernel = 3, .pad = -1}, "at least 0"},
        {{.kernel = 3, .pad = 2}, "more than half"},
        {{.kernel = 8}, "larger than the input"},
        {{.kernel = 10, .stride = 2, .ceil = true}, "larger than the input"},
        {{.kernel = INT64_MAX}, "at least 1"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_layer_info info;
        dt_err err = {0};
        assert_fails(dt_layer_avgpool.infer(&cases[i].o, &x, 1, &info, &err), DT_E_CONFIG, &err,
            cases[i].text);
    }
    dt_layer_info info;
    dt_err err = {0};
    const dt_maxpool large = {.kernel = 16};
    const dt_shape wide = {1, 64, 64, 2};
    assert_fails(
        dt_layer_maxpool.infer(&large, &wide, 1, &info, &err), DT_E_CONFIG, &err, "at most 15");
}

/* Ones everywhere: an output is the share of its window that counts in the divisor and is input. */
static void avgpool_divisor_counts_padding_but_nothing_beyond(void **state)
{
    (void)state;
    float x[16], dy[9] = {0};
    for (int i = 0; i < 16; i++)
        x[i] = 1;
    const float want[9] = {4.0f / 9, 2.0f / 3, 1.0f / 3, 2.0f / 3, 1, 0.5f, 1.0f / 3, 0.5f, 0.25f};
    for (int include = 0; include < 2; include++) {
        const dt_avgpool o = {3, 2, 1, true, include == 1};
        dt_layer_run r = {.desc = &dt_layer_avgpool, .opts = &o, .n = 1, .x = {{1, 4, 4, 1}}};
        dy[8] = 1;
        run_values(&r, x, dy);
        assert_int_equal(dt_shape_sample(&r.info.y), 9);
        for (int i = 0; i < 9; i++)
            assert_true(fabsf(r.got_y[i] - (include ? want[i] : 1)) < 1e-6f);
        assert_true(r.got_dx[0][15] == (include ? 0.25f : 1)); /* one pixel in the last window */
        dt_layer_check_free(&r);
    }
}

static dt_layer_run dropout_run(const double *rate, const float *x, const float *dy, int64_t n)
{
    dt_layer_run r = {.desc = &dt_layer_dropout, .opts = rate, .n = n, .x = {{1, 10, 10, 30}}};
    run_values(&r, x, dy);
    return r;
}

static void dropout_keeps_the_share_it_says_and_scales_it(void **state)
{
    (void)state;
    enum { N = 4, COUNT = N * 3000 };
    const double rates[] = {0, 0.1, 0.5, 0.9, 1};
    float *x = dt_random_values(COUNT, 3);
    for (size_t i = 0; i < DT_COUNT(rates); i++) {
        dt_layer_run r = dropout_run(&rates[i], x, x, N);
        const float scale = (float)(1 / (1 - rates[i]));
        int kept = 0;
        for (int k = 0; k < COUNT; k++) {
            kept += r.got_y[k] != 0;
            assert_true(r.got_y[k] == 0 || r.got_y[k] == x[k] * scale);
        }
        const double want = COUNT * (1 - rates[i]);
        assert_true(fabs(kept - want) <= 5 * sqrt(want * rates[i]) + 1);
        dt_layer_check_free(&r);
    }
    free(x);
}

static void dropout_backward_draws_forwards_mask(void **state)
{
    (void)state;
    enum { N = 3, COUNT = N * 3000 };
    const double rate = 0.4;
    float *x = dt_random_values(COUNT, 3), *dy = dt_random_values(COUNT, 4);
    dt_layer_run r = dropout_run(&rate, x, dy, N);
    for (int k = 0; k < COUNT; k++)
        assert_true((r.got_y[k] != 0) == (r.got_dx[0][k] != 0));
    dt_layer_check_free(&r);
    free(x);
    free(dy);
}

/* The rule of layers/elementwise/dropout.h, element by element, and that every part of the key
 * counts. */
static void dropout_draws_by_its_published_rule(void **state)
{
    (void)state;
    enum { N = 2, C = 11, COUNT = N * C };
    dt_err err = {0};
    dt_graph *g;
    int32_t id, in = DT_GRAPH_INPUT;
    const dt_dropout o = {.rate = 0.5};
    assert_ok(dt_graph_create(&g, "g", (dt_shape){1, 1, 1, C}, 10, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_dropout, "d", &o, &in, 1, &id, &err), &err);
    const dt_call c = {.node = &g->node[id], .graph = g, .n = N};
    float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    const dt_args keys[] = {{.seed = 1}, {.seed = 2}, {.layer = 3}, {.step = 4}, {.sample0 = 5}};
    for (size_t k = 0; k < DT_COUNT(keys); k++) {
        dt_args a = keys[k];
        a.n = N;
        a.port[DT_X] = x;
        a.port[DT_Y] = y;
        assert_ok(dt_layer_dropout.cpu->run(&c, NULL, &a, &err), &err);
        for (int i = 0; i < COUNT; i++) {
            const uint64_t at = (uint64_t)((a.sample0 + i / C) * 3 + i % C / 4);
            const float u = dt_unit(
                dt_random(a.seed, DT_RANDOM_DROPOUT, (uint32_t)a.layer, (uint32_t)a.step, at)
                    .v[i % C % 4]);
            assert_true(y[i] == (u >= 0.5f ? 2.0f : 0.0f));
        }
    }
    dt_graph_destroy(g);
}

static void dropout_changes_nothing_in_evaluation(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    const double rate = 0.9;
    float *x = dt_random_values(COUNT, 3);
    for (int in_place = 0; in_place < 2; in_place++) {
        dt_layer_run r = {.desc = &dt_layer_dropout,
            .opts = &rate,
            .n = 1,
            .x = {{1, 10, 10, 30}},
            .eval = true,
            .in_place = in_place == 1};
        run_values(&r, x, NULL);
        assert_memory_equal(r.got_y, x, COUNT * sizeof *x);
        dt_layer_check_free(&r);
    }
    free(x);
}

static void add_names_the_shapes_that_differ(void **state)
{
    (void)state;
    const dt_shape x[] = {{1, 8, 8, 16}, {1, 8, 8, 16}, {1, 4, 8, 16}};
    dt_layer_info info;
    dt_err err = {0};
    assert_ok(dt_layer_add.infer(NULL, x, 2, &info, &err), &err);
    assert_fails(dt_layer_add.infer(NULL, x, 3, &info, &err), DT_E_CONFIG, &err,
        "input 1 is 8x8x16 and input 3 is 4x8x16");
}

static void add_adds_all_inputs_from_the_left(void **state)
{
    (void)state;
    const float a[] = {1e8f, 1}, b[] = {-1e8f, 2}, c[] = {1, 3};
    dt_layer_run r = {
        .desc = &dt_layer_add, .n = 1, .n_x = 3, .x = {{1, 1, 1, 2}, {1, 1, 1, 2}, {1, 1, 1, 2}}};
    r.in[0] = a;
    r.in[1] = b;
    r.in[2] = c;
    dt_layer_check(&r);
    assert_true(r.got_y[0] == 1 && r.got_y[1] == 6);
    dt_layer_check_free(&r);
}

static void flatten_is_no_op_and_keeps_the_shape_for_fc(void **state)
{
    (void)state;
    const dt_shape x = {1, 6, 5, 4};
    dt_layer_info info;
    dt_err err = {0};
    assert_true(dt_layer_flatten.identity && dt_layer_flatten.cpu == NULL);
    assert_ok(dt_layer_flatten.infer(NULL, &x, 1, &info, &err), &err);
    assert_true(dt_shape_same(&info.y, &x));
}

static void options_have_the_published_defaults(void **state)
{
    (void)state;
    dt_batchnorm b;
    dt_avgpool a;
    dt_maxpool m;
    dt_dropout d;
    dt_opt_defaults(dt_layer_batchnorm.opts, &b);
    dt_opt_defaults(dt_layer_avgpool.opts, &a);
    dt_opt_defaults(dt_layer_maxpool.opts, &m);
    dt_opt_defaults(dt_layer_dropout.opts, &d);
    assert_true(b.eps == 1e-5 && b.momentum == 0.1 && d.rate == 0.5);
    assert_true(a.stride == 0 && a.pad == 0 && !a.ceil && a.include_pad);
    assert_true(m.stride == 0 && m.pad == 0 && !m.ceil);
}

static void every_layer_is_found_by_name_and_listed_in_order(void **state)
{
    (void)state;
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    assert_true(n >= 12);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(dt_layer_find(all[i]->name), all[i]);
        assert_true(i == 0 || strcmp(all[i - 1]->name, all[i]->name) < 0);
        assert_true(all[i]->summary != NULL && all[i]->infer != NULL);
        assert_true(all[i]->identity || all[i]->cpu != NULL);
    }
    assert_null(dt_layer_find("no such layer"));
}

static void ops_of_no_layer_are_found_but_not_listed(void **state)
{
    (void)state;
    const dt_layer_desc *const ops[] = {&dt_layer_sum, &dt_layer_sgd, &dt_layer_adam,
        &dt_layer_adamw, &dt_layer_lion, &dt_layer_sgd8, &dt_layer_adam8, &dt_layer_adamw8,
        &dt_layer_lion8, &dt_layer_commit};
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    for (size_t k = 0; k < DT_COUNT(ops); k++) {
        assert_ptr_equal(dt_layer_find(ops[k]->name), ops[k]);
        for (size_t i = 0; i < n; i++)
            assert_ptr_not_equal(all[i], ops[k]);
    }
}

DT_TEST_GROUP(layers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(pieces_of_the_batch_give_the_same_bits),
        cmocka_unit_test(in_place_gives_the_same_bits),
        cmocka_unit_test(alternatives_give_the_same_bits),
        cmocka_unit_test(relu_alternatives_agree_on_odd_values),
        cmocka_unit_test(maxpool_alternatives_agree_on_ties_and_nan),
        cmocka_unit_test(maxpool_gives_the_gradient_to_the_first_maximum),
        cmocka_unit_test(maxpool_adds_gradients_of_overlapping_windows),
        cmocka_unit_test(maxpool_index_takes_four_bits_an_output),
        cmocka_unit_test(pooling_sizes_follow_pytorch),
        cmocka_unit_test(pooling_refuses_windows_that_cannot_be),
        cmocka_unit_test(avgpool_divisor_counts_padding_but_nothing_beyond),
        cmocka_unit_test(dropout_keeps_the_share_it_says_and_scales_it),
        cmocka_unit_test(dropout_backward_draws_forwards_mask),
        cmocka_unit_test(dropout_draws_by_its_published_rule),
        cmocka_unit_test(dropout_changes_nothing_in_evaluation),
        cmocka_unit_test(add_names_the_shapes_that_differ),
        cmocka_unit_test(add_adds_all_inputs_from_the_left),
        cmocka_unit_test(flatten_is_no_op_and_keeps_the_shape_for_fc),
        cmocka_unit_test(options_have_the_published_defaults),
        cmocka_unit_test(every_layer_is_found_by_name_and_listed_in_order),
        cmocka_unit_test(ops_of_no_layer_are_found_but_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
