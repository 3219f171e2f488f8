/* The LSTM and additive attention against themselves: what is kept and what is made again give the
 * same bits, no position sees those after it, values stay finite, and what cannot be is refused.
 * PyTorch's numbers are test_reference.c's, differences test_gradients.c's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/sequence/additive_attention.h"
#include "layers/sequence/lstm.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

enum { N = 3, INPUTS = 2 };

/* A layer of @n_x inputs of one shape, run on values that the keys give, with what came out. */
typedef struct bench {
    dt_layer_run r;
    void *opts;
    float *in[INPUTS], *param[DT_MAX_PARAM], *dy;
    size_t x, y;
} bench;

static void open_bench(bench *b, const dt_layer_desc *desc, const char *opts, int n_x, dt_shape x)
{
    dt_layer_info info = {0};
    dt_err err = {0};
    *b = (bench){.opts = dt_layer_options(desc, opts)};
    b->r = (dt_layer_run){.desc = desc, .opts = b->opts, .n = N, .n_x = n_x, .x = {x, x}};
    assert_ok(desc->infer(b->opts, b->r.x, n_x, &info, &err), &err);
    b->x = N * (size_t)dt_shape_sample(&x);
    b->y = N * (size_t)dt_shape_sample(&info.y);
    for (int i = 0; i < n_x; i++)
        b->r.in[i] = b->in[i] = dt_random_values(b->x, 1 + (uint32_t)i);
    for (int i = 0; i < info.n_param; i++)
        b->r.param[i] = b->param[i] =
            dt_random_values((size_t)dt_param_count(&info.param[i]), 10 + (uint32_t)i);
    b->r.dy = b->dy = dt_random_values(b->y, 20);
}

static void close_bench(bench *b)
{
    dt_layer_check_free(&b->r);
    for (int i = 0; i < INPUTS; i++)
        free(b->in[i]);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        free(b->param[i]);
    free(b->dy);
    dt_free(b->opts);
}

static void assert_same_bits(const bench *a, const bench *b)
{
    assert_memory_equal(a->r.got_y, b->r.got_y, a->y * sizeof(float));
    for (int i = 0; i < a->r.n_x; i++)
        assert_memory_equal(a->r.got_dx[i], b->r.got_dx[i], a->x * sizeof(float));
    for (int i = 0; i < a->r.info.n_param; i++)
        assert_memory_equal(a->r.got_dparam[i], b->r.got_dparam[i],
            (size_t)dt_param_count(&a->r.info.param[i]) * sizeof(float));
}

/* Channels around those of a vector and of a task, and more than a cache holds weights of; steps
 * more than one chunk's. */
static void gates_made_again_are_those_that_were_kept(void **state)
{
    (void)state;
    static const struct {
        const char *kept, *again;
        dt_shape x;
    } cases[] = {{"out=1", "out=1 keep=cells", {1, 1, 1, 1}},
        {"out=17 bias=off", "out=17 bias=off keep=cells", {1, 7, 1, 5}},
        {"out=33", "out=33 keep=cells", {1, 9, 2, 20}},
        {"out=8", "out=8 keep=cells", {1, 400, 1, 3}},
        {"out=270", "out=270 keep=cells", {1, 4, 1, 3}}};
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        for (dt_dtype t = DT_F32; t < DT_DTYPES; t++) {
            bench kept, again;
            open_bench(&kept, &dt_layer_lstm, cases[i].kept, 1, cases[i].x);
            open_bench(&again, &dt_layer_lstm, cases[i].again, 1, cases[i].x);
            kept.r.dtype = again.r.dtype = t;
            dt_layer_check(&kept.r);
            dt_layer_check(&again.r);
            assert_same_bits(&kept, &again);
            close_bench(&kept);
            close_bench(&again);
        }
}

static void both_kinds_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const both[][2] = {
        {"hidden=1", "hidden=1 kind=naive"},
        {"hidden=21 causal=on", "hidden=21 causal=on kind=naive"},
        {"hidden=64", "hidden=64 kind=naive"},
    };
    for (size_t i = 0; i < DT_COUNT(both); i++)
        for (dt_dtype t = DT_F32; t < DT_DTYPES; t++) {
            bench a, b;
            open_bench(&a, &dt_layer_additive_attention, both[i][0], 2, (dt_shape){1, 19, 1, 10});
            open_bench(&b, &dt_layer_additive_attention, both[i][1], 2, (dt_shape){1, 19, 1, 10});
            a.r.dtype = b.r.dtype = t;
            dt_layer_check(&a.r);
            dt_layer_check(&b.r);
            assert_same_bits(&a, &b);
            close_bench(&a);
            close_bench(&b);
        }
}

/* Keys and queries of a sample, [position][channel], and the weights. */
typedef struct problem {
    int64_t keys, queries, in[2], hidden;
    bool causal;
    const double *x[2], *w[3];
} problem;

/* The context of a query by its definition: to @y. */
static void look(const problem *a, int64_t query, double *y)
{
    double sum = 0;
    for (int64_t c = 0; c < a->in[0]; c++)
        y[c] = 0;
    for (int64_t i = 0; i < a->keys && (!a->causal || i <= query); i++) {
        double score = 0;
        for (int64_t k = 0; k < a->hidden; k++) {
            double z = 0;
            for (int64_t c = 0; c < a->in[0]; c++)
                z += a->w[0][k * a->in[0] + c] * a->x[0][i * a->in[0] + c];
            for (int64_t c = 0; c < a->in[1]; c++)
                z += a->w[1][k * a->in[1] + c] * a->x[1][query * a->in[1] + c];
            score += a->w[2][k] * tanh(z);
        }
        sum += exp(score);
        for (int64_t c = 0; c < a->in[0]; c++)
            y[c] += exp(score) * a->x[0][i * a->in[0] + c];
    }
    for (int64_t c = 0; c < a->in[0]; c++)
        y[c] /= sum;
}

enum { C0 = 5, C1 = 3, HIDDEN = 6, MOST = 9 };

/* The sum of dy y of one sample, where a step along each value's direction has been taken. Values
 * lie as in PyTorch: channel by channel. */
static double along(const dt_layer_run *r, const float *const *value, const float *const *way,
    double step, bool causal)
{
    double v[5][MOST * HIDDEN], y[C0], sum = 0;
    const int64_t pos[2] = {r->x[0].h, r->x[1].h}, in[2] = {C0, C1};
    for (int i = 0; i < 2; i++)
        for (int64_t t = 0; t < pos[i]; t++)
            for (int64_t c = 0; c < in[i]; c++)
                v[i][t * in[i] + c] =
                    (double)value[i][c * pos[i] + t] + step * (double)way[i][c * pos[i] + t];
    const int64_t sizes[] = {HIDDEN * C0, HIDDEN * C1, HIDDEN};
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < sizes[i]; k++)
            v[2 + i][k] = (double)value[2 + i][k] + step * (double)way[2 + i][k];
    const problem a = {pos[0], pos[1], {C0, C1}, HIDDEN, causal, {v[0], v[1]}, {v[2], v[3], v[4]}};
    for (int64_t q = 0; q < pos[1]; q++) {
        look(&a, q, y);
        for (int64_t c = 0; c < C0; c++)
            sum += (double)r->dy[c * pos[1] + q] * y[c];
    }
    return sum;
}

/* Fewer keys than queries and more; the gradient along a direction, and y by dy, against the
 * definition in double precision. */
static void keys_and_queries_may_differ_in_number(void **state)
{
    (void)state;
    static const int64_t many[][2] = {{3, 8}, {8, 3}, {1, 9}, {9, 1}};
    static const char *const opts[] = {
        "hidden=6", "hidden=6 causal=on", "hidden=6 kind=naive", "hidden=6 causal=on kind=naive"};
    for (size_t k = 0; k < DT_COUNT(many) * DT_COUNT(opts); k++) {
        const int64_t *pos = many[k / DT_COUNT(opts)];
        const char *text = opts[k % DT_COUNT(opts)];
        void *o = dt_layer_options(&dt_layer_additive_attention, text);
        dt_layer_run r = {.desc = &dt_layer_additive_attention,
            .opts = o,
            .n = 1,
            .n_x = 2,
            .x = {{1, pos[0], 1, C0}, {1, pos[1], 1, C1}}};
        const int64_t sizes[] = {pos[0] * C0, pos[1] * C1, HIDDEN * C0, HIDDEN * C1, HIDDEN};
        float *value[5], *way[5], *dy = dt_random_values((size_t)(pos[1] * C0), 50);
        for (uint32_t i = 0; i < 5; i++) {
            value[i] = dt_random_values((size_t)sizes[i], 30 + i);
            way[i] = dt_random_values((size_t)sizes[i], 40 + i);
        }
        r.in[0] = value[0], r.in[1] = value[1], r.dy = dy;
        for (int i = 0; i < 3; i++)
            r.param[i] = value[2 + i];
        dt_layer_check(&r);
        const bool causal = ((const dt_additive_attention *)o)->causal;
        const float *const at[] = {value[0], value[1], value[2], value[3], value[4]};
        const float *const to[] = {way[0], way[1], way[2], way[3], way[4]};
        const float *const got[] = {
            r.got_dx[0], r.got_dx[1], r.got_dparam[0], r.got_dparam[1], r.got_dparam[2]};
        double slope = 0, sum = 0;
        for (int i = 0; i < 5; i++)
            for (int64_t j = 0; j < sizes[i]; j++)
                slope += (double)got[i][j] * (double)way[i][j];
        for (int64_t j = 0; j < pos[1] * C0; j++)
            sum += (double)r.got_y[j] * (double)dy[j];
        const double step = 1e-5, want = along(&r, at, to, 0, causal);
        const double numeric =
            (along(&r, at, to, step, causal) - along(&r, at, to, -step, causal)) / (2 * step);
        assert_true(fabs(sum - want) <= 1e-5 * (1 + fabs(want)));
        assert_true(fabs(slope - numeric) <= 1e-5 * (1 + fabs(numeric)));
        dt_layer_check_free(&r);
        for (int i = 0; i < 5; i++) {
            free(value[i]);
            free(way[i]);
        }
        free(dy);
        dt_free(o);
    }
}

/* The y of positions before @CUT, when all inputs behind change. */
static void ignores_what_comes_later(const dt_layer_desc *desc, const char *opts, int n_x)
{
    enum { LONG = 30, CUT = 11, W = 6 };
    bench a, b;
    open_bench(&a, desc, opts, n_x, (dt_shape){1, LONG, 1, W});
    open_bench(&b, desc, opts, n_x, (dt_shape){1, LONG, 1, W});
    for (int i = 0; i < n_x; i++)
        for (int64_t row = 0; row < N * W; row++) /* NCHW: of samples and channels */
            for (int64_t t = CUT; t < LONG; t++)
                b.in[i][row * LONG + t] += 1;
    a.r.forward_only = b.r.forward_only = true;
    dt_layer_check(&a.r);
    dt_layer_check(&b.r);
    for (size_t row = 0; row < a.y / LONG; row++) {
        const float *was = a.r.got_y + row * LONG, *is = b.r.got_y + row * LONG;
        assert_memory_equal(was, is, CUT * sizeof *was);
        assert_true(memcmp(was + CUT, is + CUT, (LONG - CUT) * sizeof *was) != 0);
    }
    close_bench(&a);
    close_bench(&b);
}

static void no_position_sees_those_after_it(void **state)
{
    (void)state;
    ignores_what_comes_later(&dt_layer_lstm, "out=9", 1);
    ignores_what_comes_later(&dt_layer_additive_attention, "hidden=7 causal=on", 2);
    ignores_what_comes_later(&dt_layer_additive_attention, "hidden=7 causal=on kind=naive", 2);
}

static void large_values_stay_finite(void **state)
{
    (void)state;
    for (int additive = 0; additive < 2; additive++) {
        bench b;
        if (additive)
            open_bench(&b, &dt_layer_additive_attention, "hidden=9", 2, (dt_shape){1, 12, 1, 4});
        else
            open_bench(&b, &dt_layer_lstm, "out=5", 1, (dt_shape){1, 12, 1, 4});
        for (int i = 0; i < b.r.n_x; i++)
            for (size_t k = 0; k < b.x; k++)
                b.in[i][k] *= 1e4f;
        for (int i = 0; i < 3 && additive; i++)
            for (size_t k = 0; k < 9; k++)
                b.param[i][k] *= 1e3f;
        dt_layer_check(&b.r);
        for (size_t k = 0; k < b.y; k++)
            assert_true(isfinite(b.r.got_y[k]) && fabsf(b.r.got_y[k]) <= 1e4f);
        for (int i = 0; i < b.r.n_x; i++)
            for (size_t k = 0; k < b.x; k++)
                assert_true(isfinite(b.r.got_dx[i][k]));
        close_bench(&b);
    }
}

/* A NaN reaches its own sample and no other. */
static void a_nan_stays_in_its_sample(void **state)
{
    (void)state;
    for (int additive = 0; additive < 2; additive++) {
        bench b;
        if (additive)
            open_bench(&b, &dt_layer_additive_attention, "hidden=9", 2, (dt_shape){1, 5, 1, 4});
        else
            open_bench(&b, &dt_layer_lstm, "out=4", 1, (dt_shape){1, 5, 1, 4});
        b.in[0][b.x / N] = NAN; /* the second sample's first channel and position */
        b.r.forward_only = true;
        dt_layer_check(&b.r);
        const size_t each = b.y / N;
        bool found = false;
        for (size_t k = 0; k < b.y; k++) {
            assert_true(k / each == 1 || isfinite(b.r.got_y[k]));
            found = found || isnan(b.r.got_y[k]);
        }
        assert_true(found);
        close_bench(&b);
    }
}

static void stashes_are_as_large_as_they_say(void **state)
{
    (void)state;
    const dt_shape x[2] = {{1, 7, 1, 5}, {1, 4, 2, 3}};
    const dt_additive_attention naive = {.hidden = 11, .kind = DTI_ATTENTION_NAIVE};
    const dt_additive_attention efficient = {.hidden = 11, .kind = DTI_ATTENTION_EFFICIENT};
    const dt_lstm lstm = {.out = 6, .bias = true, .keep = DTI_LSTM_KEEP_GATES};
    const dt_lstm cells = {.out = 6, .bias = true, .keep = DTI_LSTM_KEEP_CELLS};
    dt_layer_info info;
    dt_err err = {0};
    assert_ok(dt_layer_additive_attention.infer(&naive, x, 2, &info, &err), &err);
    assert_int_equal(info.n_stash, 2);
    assert_int_equal(info.stash[0].sample_bytes, 7 * 8 * sizeof(float));
    assert_int_equal(info.stash[1].sample_bytes, 7 * 8 * 11 * sizeof(float));
    assert_ok(dt_layer_additive_attention.infer(&efficient, x, 2, &info, &err), &err);
    assert_int_equal(info.n_stash, 1);
    assert_ok(dt_layer_lstm.infer(&lstm, x, 1, &info, &err), &err);
    assert_int_equal(info.n_stash, 2);
    assert_int_equal(info.stash[0].sample_bytes, 7 * 6 * sizeof(float));
    assert_int_equal(info.stash[1].sample_bytes, 4 * 7 * 6 * sizeof(float));
    assert_ok(dt_layer_lstm.infer(&cells, x, 1, &info, &err), &err);
    assert_int_equal(info.n_stash, 1);
    assert_int_equal(info.stash[0].sample_bytes, 7 * 6 * sizeof(float));
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    const dt_shape vast[2] = {{1, 1 << 26, 1, 3}, {1, 1 << 20, 1, 3}};
    const dt_shape endless = {1, (int64_t)1 << 40, 1, 3};
    const dt_lstm none = {.out = 0}, wide = {.out = 1 << 16, .bias = true};
    const dt_additive_attention hidden = {.hidden = 0},
                                naive = {1 << 16, true, DTI_ATTENTION_NAIVE};
    dt_layer_info info;
    dt_err err = {0};
    assert_fails(dt_layer_lstm.infer(&none, vast, 1, &info, &err), DT_E_CONFIG, &err, "out = 0");
    assert_fails(dt_layer_lstm.infer(&wide, &endless, 1, &info, &err), DT_E_CONFIG, &err,
        "shorten the sequence");
    assert_fails(dt_layer_additive_attention.infer(&hidden, vast, 2, &info, &err), DT_E_CONFIG,
        &err, "hidden = 0");
    assert_fails(dt_layer_additive_attention.infer(&naive, vast, 2, &info, &err), DT_E_CONFIG, &err,
        "kind = efficient");
    const dt_shape ends[2] = {{1, 1, 1, 3}, {1, (int64_t)1 << 40, 1, 3}};
    const dt_additive_attention efficient = {.hidden = 1 << 16};
    assert_fails(dt_layer_additive_attention.infer(&efficient, ends, 2, &info, &err), DT_E_CONFIG,
        &err, "too large");
}

DT_TEST_GROUP(recurrent)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_made_again_are_those_that_were_kept),
        cmocka_unit_test(both_kinds_give_the_same_bits),
        cmocka_unit_test(keys_and_queries_may_differ_in_number),
        cmocka_unit_test(no_position_sees_those_after_it),
        cmocka_unit_test(large_values_stay_finite),
        cmocka_unit_test(a_nan_stays_in_its_sample),
        cmocka_unit_test(stashes_are_as_large_as_they_say),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
