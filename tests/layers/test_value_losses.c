/* Losses of values: the loss, its gradient and what is counted, against plain loops in double
 * precision. */
#include "tests/fixture/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernels.h"
#include "layers/loss/value_losses.h"
#include "tests/fixture/layer_check.h"

enum { N = 5, H = 3, W = 2, C = 7, EACH = H * W * C, ALL = N * EACH, STEP = 1000 };

typedef struct bench {
    const dt_layer_desc *loss;
    dt_graph *g;
    dt_call call;
    dt_args a;
    dt_metrics metrics;
    float *x, *dx;
    int32_t *labels;
    void *work;
} bench;

static bool is_left_out(int i)
{
    return i % 11 == 5;
}

/* Outputs from -6 to 6 and labels from 0 to 1, of which some do not count. */
static void open_values(bench *b, const dt_layer_desc *loss, dt_shape x, int64_t n)
{
    static const dti_smooth_l1 beta = {0.75};
    const int32_t in = DT_GRAPH_INPUT;
    const int all = (int)(n * dt_shape_sample(&x));
    dt_err err = {0};
    dt_facts f = {0};
    int32_t id;
    *b = (bench){.loss = loss};
    assert_ok(dt_graph_create(&b->g, "g", x, x.c, &err), &err);
    assert_ok(
        dt_graph_add(b->g, loss, "loss", loss->opts_bytes > 0 ? &beta : NULL, &in, 1, &id, &err),
        &err);
    assert_ok(dt_graph_check(b->g, &err), &err);
    b->call = (dt_call){.node = &b->g->node[id], .graph = b->g, .n = n, .home_n = n};
    assert_ok(loss->cpu->facts(&b->call, &f, &err), &err);
    b->x = dt_random_values((size_t)all, 3);
    b->dx = calloc((size_t)all, sizeof *b->dx);
    b->labels = calloc((size_t)all, sizeof *b->labels);
    b->work = malloc(f.work_bytes);
    assert_true(b->dx != NULL && b->labels != NULL && b->work != NULL);
    float *label = dt_random_values((size_t)all, 4);
    for (int i = 0; i < all; i++) {
        b->x[i] *= 6;
        b->labels[i] = dt_label_of_value(is_left_out(i) ? NAN : (label[i] + 1) / 2);
    }
    free(label);
    b->a = (dt_args){.n = n, .step_labels = STEP};
    b->a.port[DT_X] = b->x;
    b->a.port[DT_LABELS] = b->labels;
    b->a.port[DT_DX] = b->dx;
    b->a.port[DT_METRICS] = &b->metrics;
    b->a.port[DT_WORK] = b->work;
}

static void open_bench(bench *b, const dt_layer_desc *loss)
{
    open_values(b, loss, (dt_shape){1, H, W, C}, N);
}

static void close_bench(bench *b)
{
    dt_graph_destroy(b->g);
    free(b->x);
    free(b->dx);
    free(b->labels);
    free(b->work);
}

static dt_status try_run(bench *b, dt_form_kind form, dt_err *err)
{
    b->call.form = form;
    return b->loss->cpu->run(&b->call, NULL, &b->a, err);
}

static void run(bench *b, dt_form_kind form)
{
    dt_err err = {0};
    assert_ok(try_run(b, form, &err), &err);
}

/* ---- plain ---- */

typedef struct plain {
    double loss, slope;
} plain;

static plain of_mse(double x, double label)
{
    return (plain){(x - label) * (x - label), 2 * (x - label)};
}

static plain of_l1(double x, double label)
{
    return (plain){fabs(x - label), x > label ? 1 : -1};
}

static plain of_smooth_l1(double x, double label)
{
    const double d = x - label, beta = 0.75;
    return fabs(d) < beta ? (plain){d * d / (2 * beta), d / beta}
                          : (plain){fabs(d) - beta / 2, d > 0 ? 1 : -1};
}

/* By the probability itself, as it is written in books. */
static plain of_bce(double x, double label)
{
    const double p = 1 / (1 + exp(-x));
    return (plain){-label * log(p) - (1 - label) * log(1 - p), p - label};
}

static struct loss {
    const dt_layer_desc *desc;
    plain (*of)(double x, double label);
} losses[] = {{&dt_layer_bce, of_bce}, {&dt_layer_l1, of_l1}, {&dt_layer_mse, of_mse},
    {&dt_layer_smooth_l1, of_smooth_l1}};

static void loss_and_gradient_agree_with_double_precision(void **state)
{
    const struct loss *l = *state;
    bench b;
    float want[ALL];
    double loss = 0;
    int counted = 0, right = 0;
    open_bench(&b, l->desc);
    for (int i = 0; i < ALL; i++) {
        const double label = (double)dt_label_value(b.labels[i]);
        const plain p = l->of((double)b.x[i], label);
        want[i] = is_left_out(i) ? 0 : (float)(p.slope / STEP);
        loss += is_left_out(i) ? 0 : p.loss;
        counted += !is_left_out(i);
        right += !is_left_out(i) && (b.x[i] > 0) == (label > 0.5);
    }
    assert_true(counted < ALL && right > 0 && right < counted);
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    assert_true(dt_relative_error(b.dx, want, ALL) < 1e-6);
    for (int i = 0; i < ALL; i++)
        assert_true(!is_left_out(i) || b.dx[i] == 0);
    assert_true(fabs(b.metrics.loss_sum - loss) < 1e-6 * loss);
    assert_int_equal(b.metrics.count, counted);
    assert_int_equal(b.metrics.top1, l->desc == &dt_layer_bce ? right : 0);
    assert_int_equal(b.metrics.nonfinite, 0);
    run(&b, DT_EVAL);
    assert_true(fabs(b.metrics.loss_sum - loss) < 1e-6 * loss);
    close_bench(&b);
}

/* PyTorch's does not overflow, and neither does what is left of a large output that is right. */
static void bce_of_large_outputs_is_finite(void **state)
{
    (void)state;
    bench b;
    open_values(&b, &dt_layer_bce, (dt_shape){1, 1, 1, 4}, 1);
    const float x[] = {1e30f, -1e30f, 50, -50}, label[] = {1, 0, 1, 1};
    for (int i = 0; i < 4; i++) {
        b.x[i] = x[i];
        b.labels[i] = dt_label_of_value(label[i]);
    }
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    assert_true(fabs(b.metrics.loss_sum - 50) < 1e-5);
    assert_int_equal(b.metrics.top1, 3);
    assert_true(b.dx[0] == 0 && b.dx[1] == 0);
    assert_true(fabs((double)b.dx[3] * STEP + 1) < 1e-6);
    close_bench(&b);
}

/* Samples one after the other, as micro-batches come, and a sample of several pieces. */
static void parts_of_a_step_add_up_to_the_bits_of_the_whole(void **state)
{
    const struct loss *l = *state;
    const dt_shape shapes[] = {{1, H, W, C}, {1, 90, 70, 3}};
    for (size_t k = 0; k < DT_COUNT(shapes); k++) {
        bench b;
        const int64_t each = dt_shape_sample(&shapes[k]);
        open_values(&b, l->desc, shapes[k], N);
        run(&b, DT_FORWARD);
        run(&b, DT_BACKWARD);
        const dt_metrics whole = b.metrics;
        float *dx = b.dx;
        b.dx = calloc((size_t)(N * each), sizeof *b.dx);
        assert_non_null(b.dx);
        b.a.n = b.call.n = 1;
        for (int64_t i = 0; i < N; i++) {
            b.a.accumulate = i > 0;
            b.a.port[DT_X] = b.x + i * each;
            b.a.port[DT_LABELS] = b.labels + i * each;
            b.a.port[DT_DX] = b.dx + i * each;
            run(&b, DT_FORWARD);
            run(&b, DT_BACKWARD);
        }
        assert_memory_equal(&b.metrics, &whole, sizeof whole);
        assert_memory_equal(b.dx, dx, (size_t)(N * each) * sizeof *dx);
        free(dx);
        close_bench(&b);
    }
}

static void gradient_may_take_the_bytes_of_the_outputs(void **state)
{
    const struct loss *l = *state;
    bench b;
    open_bench(&b, l->desc);
    run(&b, DT_BACKWARD);
    b.a.port[DT_DX] = b.x;
    run(&b, DT_BACKWARD);
    assert_memory_equal(b.x, b.dx, ALL * sizeof *b.x);
    close_bench(&b);
}

static void outputs_that_are_not_finite_are_counted(void **state)
{
    const struct loss *l = *state;
    bench b;
    open_bench(&b, l->desc);
    b.x[1] = NAN;
    b.x[7] = INFINITY;
    b.x[5] = NAN; /* does not count */
    assert_true(is_left_out(5));
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    assert_int_equal(b.metrics.nonfinite, 2);
    assert_true(!isfinite(b.metrics.loss_sum));
    assert_true(isnan(b.dx[1]));
    assert_true(b.dx[5] == 0);
    close_bench(&b);
}

static void labels_that_are_no_values_are_refused(void **state)
{
    (void)state;
    const struct {
        const dt_layer_desc *loss;
        uint32_t bits;
        const char *note; /* NULL: fine */
    } all[] = {
        {&dt_layer_mse, 0x7F800000u, "sample 11 of the step has label inf at place 2"},
        {&dt_layer_mse, 0x7FC00001u, "place 2, but the loss takes finite values"}, /* a NaN */
        {&dt_layer_mse, 0x42C80000u, NULL},                                        /* 100 */
        {&dt_layer_bce, 0x3F800001u, "but the loss takes values from 0 to 1"},
        {&dt_layer_bce, 0x80000000u, NULL}, /* -0 */
        {&dt_layer_bce, 0xBF800000u, "has label -1 at place 2"},
        {&dt_layer_bce, 0x3F800000u, NULL},
        {&dt_layer_bce, 0xFFFFFFFFu, NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        dt_err err = {0};
        bench b;
        open_bench(&b, all[i].loss);
        memcpy(&b.labels[EACH + 2], &all[i].bits, sizeof all[i].bits);
        b.a.sample0 = 10;
        const dt_status st = try_run(&b, DT_FORWARD, &err);
        if (all[i].note == NULL)
            assert_ok(st, &err);
        else
            assert_fails(st, DT_E_DATA, &err, all[i].note);
        close_bench(&b);
    }
}

static void a_label_of_a_value_is_its_bits(void **state)
{
    (void)state;
    const float values[] = {0, -0.0f, 1, -2.5f, 3e38f, 1e-40f};
    for (size_t i = 0; i < DT_COUNT(values); i++) {
        const float back = dt_label_value(dt_label_of_value(values[i]));
        assert_memory_equal(&back, &values[i], sizeof back);
    }
    assert_int_equal(dt_label_of_value(NAN), DT_LABEL_NONE);
    assert_int_equal(dt_label_of_value(-NAN), DT_LABEL_NONE);
    assert_true(isnan(dt_label_value(DT_LABEL_NONE)));
}

#define EACH_LOSS(test)                                                                            \
    {#test ", bce", test, NULL, NULL, &losses[0]}, {#test ", l1", test, NULL, NULL, &losses[1]},   \
        {#test ", mse", test, NULL, NULL, &losses[2]},                                             \
    {                                                                                              \
#test ", smooth_l1", test, NULL, NULL, &losses[3]                                          \
    }

DT_TEST_GROUP(value_losses)
{
    const struct CMUnitTest tests[] = {
        EACH_LOSS(loss_and_gradient_agree_with_double_precision),
        cmocka_unit_test(bce_of_large_outputs_is_finite),
        EACH_LOSS(parts_of_a_step_add_up_to_the_bits_of_the_whole),
        EACH_LOSS(gradient_may_take_the_bytes_of_the_outputs),
        EACH_LOSS(outputs_that_are_not_finite_are_counted),
        cmocka_unit_test(labels_that_are_no_values_are_refused),
        cmocka_unit_test(a_label_of_a_value_is_its_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
