/* The end of a step: loss, its gradient and metrics, sums of gradients, and the ops of update. */
#include "tests/fixture/check.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernels.h"
#include "engine/base/philox.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/label.h"
#include "layers/plain.h"
#include "tests/fixture/layer_check.h"

enum { MAX_VALUES = 160, GUARD = 0x5A };

typedef struct bench {
    dt_graph *g;
    dt_call call;
    dt_args a;
    float prob[MAX_VALUES], dx[MAX_VALUES];
    dt_metrics metrics;
    dt_class_count of[6]; /* which follow them */
    struct {
        double words[2];
    } work[16];
} bench;

/* Maps of h by w places, a label each. */
static void open_maps(bench *b, int64_t n, dt_shape map, const float *x, const int32_t *labels)
{
    dt_err err = {0};
    const int32_t in = DT_GRAPH_INPUT;
    int32_t id;
    *b = (bench){.metrics = {.loss_sum = 77, .count = 7, .top1 = 7, .top5 = 7, .nonfinite = 7}};
    assert_true(n * dt_shape_sample(&map) <= MAX_VALUES && n * map.h <= 16);
    assert_ok(dt_graph_create(&b->g, "g", map, map.c, &err), &err);
    assert_ok(dt_graph_add(b->g, &dt_layer_cross_entropy, "loss", NULL, &in, 1, &id, &err), &err);
    b->call = (dt_call){.node = &b->g->node[id], .graph = b->g, .n = n, .home_n = n};
    b->a = (dt_args){.n = n, .step_labels = n * map.h * map.w};
    union {
        const void *from;
        void *to;
    } values = {x}, classes_of = {labels}; /* the kernel reads them only */
    b->a.port[DT_X] = values.to;
    b->a.port[DT_LABELS] = classes_of.to;
    b->a.port[DT_S] = b->prob;
    b->a.port[DT_DX] = b->dx;
    b->a.port[DT_METRICS] = &b->metrics;
    b->a.port[DT_WORK] = b->work;
}

static void open_bench(bench *b, int64_t n, int64_t classes, const float *x, const int32_t *labels)
{
    open_maps(b, n, (dt_shape){1, 1, 1, classes}, x, labels);
}

static dt_status try_run(bench *b, dt_form_kind form, dt_err *err)
{
    dt_facts f = {0};
    b->call.form = form;
    assert_ok(dt_layer_cross_entropy.cpu->facts(&b->call, &f, err), err);
    assert_true(f.work_bytes <= sizeof b->work);
    return dt_layer_cross_entropy.cpu->run(&b->call, NULL, &b->a, err);
}

static void run(bench *b, dt_form_kind form)
{
    dt_err err = {0};
    assert_ok(try_run(b, form, &err), &err);
}

static dt_metrics metrics_of(int64_t n, int64_t classes, const float *x, const int32_t *labels)
{
    bench b;
    open_bench(&b, n, classes, x, labels);
    run(&b, DT_FORWARD);
    dt_graph_destroy(b.g);
    return b.metrics;
}

static void loss_and_gradient_agree_with_double_precision(void **state)
{
    (void)state;
    enum { N = 4, C = 9, STEP = 10 };
    float *x = dt_random_values(N * C, 1), want_prob[N * C], want_dx[N * C];
    const int32_t labels[N] = {0, 8, 3, 3};
    double loss = 0;
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int c = 0; c < C; c++)
            sum += exp((double)(x[i * C + c] *= 5));
        for (int c = 0; c < C; c++) {
            const double p = exp((double)x[i * C + c]) / sum;
            want_prob[i * C + c] = (float)p;
            want_dx[i * C + c] = (float)((p - (c == labels[i])) / STEP);
        }
        loss += log(sum) - (double)x[i * C + labels[i]];
    }
    bench b;
    open_bench(&b, N, C, x, labels);
    b.a.step_labels = STEP; /* this is a micro-batch of a larger step */
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    assert_true(dt_relative_error(b.prob, want_prob, N * C) < 1e-6);
    assert_true(dt_relative_error(b.dx, want_dx, N * C) < 1e-6);
    assert_true(fabs(b.metrics.loss_sum - loss) < 1e-7 * loss); /* exp is in single precision */
    assert_int_equal(b.metrics.count, N);
    assert_int_equal(b.metrics.nonfinite, 0);
    dt_graph_destroy(b.g);
    free(x);
}

static void gradient_may_take_the_bytes_of_the_probabilities(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, -1, 0, 1};
    const int32_t labels[] = {2, 0};
    bench b;
    open_bench(&b, 2, 3, x, labels);
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    b.a.port[DT_DX] = b.prob;
    run(&b, DT_BACKWARD);
    assert_memory_equal(b.prob, b.dx, sizeof x);
    dt_graph_destroy(b.g);
}

/* PyTorch's rule: a label is (1 - s) of its class and s / C of every class. */
static void smoothed_labels_agree_with_double_precision(void **state)
{
    (void)state;
    enum { N = 3, C = 21, STEP = 4 };
    const double s = 0.25;
    float *x = dt_random_values(N * C, 1), want_dx[N * C];
    const int32_t labels[N] = {0, 20, 7};
    double loss = 0;
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int c = 0; c < C; c++)
            sum += exp((double)(x[i * C + c] *= 3));
        for (int c = 0; c < C; c++) {
            const double share = (c == labels[i] ? 1 - s : 0) + s / C;
            want_dx[i * C + c] = (float)((exp((double)x[i * C + c]) / sum - share) / STEP);
            loss += share * (log(sum) - (double)x[i * C + c]);
        }
    }
    bench b;
    open_bench(&b, N, C, x, labels);
    b.a.step_labels = STEP;
    b.a.hyper.label_smoothing = (float)s;
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    assert_true(dt_relative_error(b.dx, want_dx, N * C) < 1e-6);
    assert_true(fabs(b.metrics.loss_sum - loss) < 1e-6 * loss);
    const double smooth = b.metrics.loss_sum;
    b.a.port[DT_S] = NULL;
    run(&b, DT_EVAL); /* by the labels as they are */
    assert_true(fabs(b.metrics.loss_sum - smooth) > 0.01 * smooth);
    dt_graph_destroy(b.g);
    free(x);
}

static void read_reference(const dt_st_file *f, const char *name, void *to, size_t bytes)
{
    const dt_st_entry *e = dt_st_find(f, name);
    dt_err err = {0};
    assert_true(e != NULL && e->bytes == bytes);
    assert_ok(dt_st_read(f, e, 0, to, bytes, &err), &err);
}

static void smoothed_labels_agree_with_pytorch(void **state)
{
    (void)state;
    enum { N = 6, C = 11 };
    const char *path = dt_shared("reference/layers/softmax_cross_entropy_smooth.safetensors");
    if (path == NULL)
        skip();
    dt_st_file *f = NULL;
    dt_err err = {0};
    float x[N * C], dx[N * C], y, dy;
    int64_t wide[N];
    int32_t labels[N];
    assert_ok(dt_st_open(&f, path, &err), &err);
    read_reference(f, "x", x, sizeof x);
    read_reference(f, "dx", dx, sizeof dx);
    read_reference(f, "y", &y, sizeof y);
    read_reference(f, "dy", &dy, sizeof dy);
    read_reference(f, "labels", wide, sizeof wide);
    for (int i = 0; i < N; i++)
        labels[i] = (int32_t)wide[i];
    bench b;
    open_bench(&b, N, C, x, labels);
    b.a.hyper.label_smoothing = 0.1f;
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    for (int i = 0; i < N * C; i++)
        b.dx[i] *= dy;
    assert_true(fabs(b.metrics.loss_sum / N - (double)y) < 1e-5 * (double)y);
    assert_true(dt_relative_error(b.dx, dx, N * C) < 1e-5);
    dt_graph_destroy(b.g);
    dt_st_close(f);
}

/* As many classes as a vocabulary has: several chunks and a rest. */
static void a_large_vocabulary_agrees_with_double_precision(void **state)
{
    (void)state;
    enum { N = 3, C = 5003 };
    float *x = dt_random_values(N * C, 4), *prob = malloc(N * C * sizeof *prob),
          *want = malloc(N * C * sizeof *want);
    assert_true(prob != NULL && want != NULL);
    const int32_t labels[N] = {0, 2500, C - 1};
    double loss = 0;
    int64_t top5 = 0;
    for (int i = 0; i < N; i++) {
        double sum = 0;
        int before = 0;
        for (int c = 0; c < C; c++)
            sum += exp((double)(x[i * C + c] *= 8));
        for (int c = 0; c < C; c++) {
            want[i * C + c] = (float)(exp((double)x[i * C + c]) / sum);
            before += x[i * C + c] > x[i * C + labels[i]];
        }
        loss += log(sum) - (double)x[i * C + labels[i]];
        top5 += before < 5;
    }
    bench b;
    open_bench(&b, 1, 3, x, labels);
    dt_graph_destroy(b.g);
    dt_err err = {0};
    const int32_t in = DT_GRAPH_INPUT;
    int32_t id;
    assert_ok(dt_graph_create(&b.g, "g", (dt_shape){1, 1, 1, C}, C, &err), &err);
    assert_ok(dt_graph_add(b.g, &dt_layer_cross_entropy, "loss", NULL, &in, 1, &id, &err), &err);
    b.call.node = &b.g->node[id];
    b.call.graph = b.g;
    b.call.n = b.a.n = N;
    b.a.port[DT_S] = prob;
    run(&b, DT_FORWARD);
    assert_true(dt_relative_error(prob, want, N * C) < 1e-6);
    assert_true(fabs(b.metrics.loss_sum - loss) < 1e-7 * loss);
    assert_int_equal(b.metrics.top5, top5);
    dt_graph_destroy(b.g);
    free(x);
    free(prob);
    free(want);
}

/* Scores of bf16 give what the same numbers give as floats; the gradient is rounded once, and may
 * lie over the probabilities, which are twice as wide. */
static void narrow_scores_are_computed_in_single_precision(void **state)
{
    (void)state;
    enum { N = 13, C = 7 };
    float *x = dt_random_values(N * C, 6);
    dt_bf16 narrow[N * C], dx[N * C];
    int32_t labels[N];
    for (int i = 0; i < N * C; i++) {
        narrow[i] = dt_bf16_from_float(4 * x[i]);
        x[i] = dt_bf16_to_float(narrow[i]);
    }
    for (int i = 0; i < N; i++)
        labels[i] = i * 5 % C;
    bench wide, b;
    open_bench(&wide, N, C, x, labels);
    run(&wide, DT_FORWARD);
    run(&wide, DT_BACKWARD);
    open_bench(&b, N, C, x, labels);
    b.call.dtype = DT_BF16;
    b.a.port[DT_X] = narrow;
    b.a.port[DT_DX] = dx;
    const int usual = omp_get_max_threads();
    omp_set_num_threads(3);
    run(&b, DT_FORWARD);
    assert_memory_equal(b.prob, wide.prob, N * C * sizeof(float));
    assert_memory_equal(&b.metrics, &wide.metrics, sizeof b.metrics);
    run(&b, DT_BACKWARD);
    for (int i = 0; i < N * C; i++)
        assert_int_equal(dx[i], dt_bf16_from_float(wide.dx[i]));
    b.a.port[DT_DX] = b.prob;
    run(&b, DT_BACKWARD);
    assert_memory_equal(b.prob, dx, sizeof dx);
    omp_set_num_threads(usual);
    dt_graph_destroy(wide.g);
    dt_graph_destroy(b.g);
    free(x);
}

static void huge_scores_do_not_overflow(void **state)
{
    (void)state;
    const float x[] = {3e38f, -3e38f, 0, 1000, 999, 998};
    const int32_t labels[] = {1, 0};
    bench b;
    open_bench(&b, 2, 3, x, labels);
    run(&b, DT_FORWARD);
    assert_true(fabs(b.metrics.loss_sum / 6e38 - 1) < 1e-6);
    assert_int_equal(b.metrics.nonfinite, 0);
    assert_true(b.prob[0] == 1 && b.prob[1] == 0 && b.prob[2] == 0);
    dt_graph_destroy(b.g);
}

static void equal_scores_rank_by_class(void **state)
{
    (void)state;
    const float x[] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int32_t label = 0; label < 8; label++) {
        const dt_metrics m = metrics_of(1, 8, x, &label);
        assert_int_equal(m.top1, label < 1);
        assert_int_equal(m.top5, label < 5);
    }
}

static void greater_scores_rank_first(void **state)
{
    (void)state;
    const float x[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int32_t label = 0; label < 8; label++) {
        const dt_metrics m = metrics_of(1, 8, x, &label);
        assert_int_equal(m.top1, label == 7);
        assert_int_equal(m.top5, label >= 3);
    }
}

static void every_answer_is_in_the_top_five_of_fewer_classes(void **state)
{
    (void)state;
    const float x[] = {3, 2, 1};
    const int32_t label = 2;
    const dt_metrics m = metrics_of(1, 3, x, &label);
    assert_int_equal(m.top1, 0);
    assert_int_equal(m.top5, 1);
}

static void nan_is_never_correct_and_counts_as_not_finite(void **state)
{
    (void)state;
    const float cases[][3] = {{NAN, 1, 0}, {5, NAN, 0}, {NAN, NAN, NAN}};
    const int32_t label = 0;
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_metrics m = metrics_of(1, 3, cases[i], &label);
        assert_int_equal(m.count, 1);
        assert_int_equal(m.top1, 0);
        assert_int_equal(m.top5, 0);
        assert_int_equal(m.nonfinite, 1);
        assert_true(isnan(m.loss_sum));
    }
}

static void an_infinite_loss_counts_as_not_finite(void **state)
{
    (void)state;
    const float x[] = {0, -INFINITY, 1, 2};
    const int32_t labels[] = {1, 1};
    const dt_metrics m = metrics_of(2, 2, x, labels);
    assert_int_equal(m.nonfinite, 1);
    assert_int_equal(m.top1, 1);
    assert_true(isinf(m.loss_sum));
}

static void metrics_start_anew_or_add_up(void **state)
{
    (void)state;
    const float x[] = {1, 0, 0, 1};
    const int32_t labels[] = {0, 0};
    bench b;
    open_bench(&b, 2, 2, x, labels); /* the metrics hold something old */
    run(&b, DT_FORWARD);
    assert_int_equal(b.metrics.count, 2);
    assert_int_equal(b.metrics.top1, 1);
    assert_int_equal(b.metrics.top5, 2);
    assert_int_equal(b.metrics.nonfinite, 0);
    const double once = b.metrics.loss_sum;
    b.a.accumulate = true;
    run(&b, DT_FORWARD);
    assert_int_equal(b.metrics.count, 4);
    assert_int_equal(b.metrics.top1, 2);
    assert_true(fabs(b.metrics.loss_sum - 2 * once) < 1e-14);
    dt_graph_destroy(b.g);
}

static void evaluation_gives_the_metrics_without_probabilities(void **state)
{
    (void)state;
    float *x = dt_random_values(24, 8);
    const int32_t labels[] = {0, 1, 2, 3};
    bench b;
    open_bench(&b, 4, 6, x, labels);
    run(&b, DT_FORWARD);
    const dt_metrics want = b.metrics;
    b.a.port[DT_S] = NULL;
    run(&b, DT_EVAL);
    assert_memory_equal(&want, &b.metrics, sizeof want);
    dt_graph_destroy(b.g);
    free(x);
}

static void labels_outside_the_classes_are_refused(void **state)
{
    (void)state;
    const float x[] = {1, 0, 0, 1};
    const int32_t bad[] = {2, -2, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        const int32_t labels[] = {0, bad[i]};
        bench b;
        dt_err err = {0};
        open_bench(&b, 2, 2, x, labels);
        b.a.sample0 = 40;
        const dt_metrics before = b.metrics;
        assert_fails(try_run(&b, DT_FORWARD, &err), DT_E_DATA, &err, "sample 41");
        assert_memory_equal(&before, &b.metrics, sizeof before);
        dt_graph_destroy(b.g);
    }
}

/* Equal scores but one: the loss of a pixel is log(3) or, where its own score is log(2) above the
 * others, log(2); its gradient the probabilities less the label, over all pixels. */
static void a_label_a_pixel_gives_the_mean_over_all_pixels(void **state)
{
    (void)state;
    enum { N = 2, H = 2, W = 3, C = 3, PIXELS = N * H * W };
    float x[PIXELS * C] = {0};
    int32_t labels[PIXELS] = {0};
    labels[4] = 2;
    x[4 * C + 2] = 0.693147181F;
    labels[11] = 1; /* ranked second among equals */
    bench b;
    open_maps(&b, N, (dt_shape){1, H, W, C}, x, labels);
    run(&b, DT_FORWARD);
    assert_true(fabs(b.metrics.loss_sum - (11 * log(3) + log(2))) < 1e-6);
    assert_int_equal(b.metrics.count, PIXELS);
    assert_int_equal(b.metrics.top1, PIXELS - 1);
    assert_int_equal(b.metrics.top5, PIXELS);
    run(&b, DT_BACKWARD);
    const float third = 1.0F / 3, half[C] = {0.25F, 0.25F, -0.5F};
    float want[PIXELS * C];
    for (int i = 0; i < PIXELS * C; i++) {
        const bool own = i % C == labels[i / C];
        want[i] = (i / C == 4 ? half[i % C] : own ? third - 1 : third) / PIXELS;
    }
    assert_true(dt_relative_error(b.dx, want, PIXELS * C) < 1e-6);
    dt_graph_destroy(b.g);
}

static void pixels_are_as_samples_of_their_own(void **state)
{
    (void)state;
    enum { N = 2, H = 2, W = 4, C = 5, PIXELS = N * H * W };
    float *x = dt_random_values((size_t)PIXELS * C, 3);
    int32_t labels[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        labels[i] = i * 7 % C;
    bench maps, rows;
    open_maps(&maps, N, (dt_shape){1, H, W, C}, x, labels);
    open_bench(&rows, PIXELS, C, x, labels);
    for (int form = 0; form < 2; form++) {
        run(&maps, form == 0 ? DT_FORWARD : DT_BACKWARD);
        run(&rows, form == 0 ? DT_FORWARD : DT_BACKWARD);
    }
    assert_memory_equal(maps.prob, rows.prob, sizeof(float) * PIXELS * C);
    assert_memory_equal(maps.dx, rows.dx, sizeof(float) * PIXELS * C);
    assert_true(fabs(maps.metrics.loss_sum - rows.metrics.loss_sum) < 1e-12);
    assert_int_equal(maps.metrics.top1, rows.metrics.top1);
    assert_int_equal(maps.metrics.top5, rows.metrics.top5);
    dt_graph_destroy(maps.g);
    dt_graph_destroy(rows.g);
    free(x);
}

/* One pixel after the other. */
static void count_slowly(
    dt_class_count *of, const float *x, const int32_t *labels, int pixels, int classes)
{
    for (int i = 0; i < pixels; i++) {
        const float *v = x + i * classes;
        int best = 0;
        bool nan = false;
        for (int c = 0; c < classes; c++) {
            nan = nan || isnan(v[c]);
            best = v[c] > v[best] ? c : best;
        }
        of[labels[i]].labelled++;
        of[best].predicted += !nan;
        of[best].both += !nan && best == labels[i];
    }
}

/* Runs of equal pixels, ties, a class that never occurs, scores that are no numbers. */
static void evaluation_counts_the_pixels_of_each_class(void **state)
{
    (void)state;
    enum { N = 2, H = 3, W = 5, C = 5, PIXELS = N * H * W };
    _Static_assert(offsetof(bench, of) == offsetof(bench, metrics) + sizeof(dt_metrics), "a gap");
    float *x = dt_random_values((size_t)PIXELS * C, 8);
    int32_t labels[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        labels[i] = i / 4 * 7 % 4;
    for (int i = 0; i < PIXELS * C; i++)
        x[i] = i / C % 5 < 3 ? (i % C == i / C / 6 % 5 ? 1 : 0) : rintf(2 * x[i]);
    x[7 * C] = x[8 * C + 4] = NAN;
    x[29 * C + 1] = INFINITY;
    x[28 * C + 3] = -INFINITY;
    dt_class_count want[6] = {{0}};
    count_slowly(want, x, labels, PIXELS, C);
    bench b;
    open_maps(&b, N, (dt_shape){1, H, W, C}, x, labels);
    memset(b.of, 7, sizeof b.of);
    dt_class_count before[6];
    memcpy(before, b.of, sizeof before);
    run(&b, DT_FORWARD);
    assert_memory_equal(b.of, before, sizeof before); /* training has no use for them */
    const int most = omp_get_max_threads();
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        run(&b, DT_EVAL);
        assert_memory_equal(b.of, want, C * sizeof *want);
        assert_memory_equal(&b.of[C], &before[C], sizeof *before);
    }
    omp_set_num_threads(most);
    int64_t right = 0, predicted = 0;
    for (int c = 0; c < C; c++) {
        right += want[c].both;
        predicted += want[c].predicted;
    }
    assert_int_equal(right, b.metrics.top1);
    assert_int_equal(predicted, PIXELS - 2);
    b.a.accumulate = true;
    run(&b, DT_EVAL);
    count_slowly(want, x, labels, PIXELS, C);
    assert_memory_equal(b.of, want, C * sizeof *want);
    dt_graph_destroy(b.g);
    free(x);
}

/* What does not count leaves the others as if it were not there, with a gradient of zeros. */
static void labels_that_do_not_count_are_left_out(void **state)
{
    (void)state;
    enum { N = 2, H = 2, W = 4, C = 5, PIXELS = N * H * W, KEPT = 12 };
    float *x = dt_random_values((size_t)PIXELS * C, 5), kept[KEPT * C];
    int32_t labels[PIXELS], of_kept[KEPT], from[KEPT];
    int n = 0;
    for (int i = 0; i < PIXELS; i++) {
        const bool counts = i % 3 != 1 || i == 4;
        labels[i] = counts ? i * 7 % C : DT_LABEL_NONE;
        if (!counts)
            continue;
        memcpy(kept + n * C, x + i * C, C * sizeof *x);
        of_kept[n] = labels[i];
        from[n++] = i;
    }
    assert_int_equal(n, KEPT);
    bench maps, rows;
    open_maps(&maps, N, (dt_shape){1, H, W, C}, x, labels);
    open_bench(&rows, KEPT, C, kept, of_kept);
    maps.a.step_labels = rows.a.step_labels = 13; /* of a larger step */
    maps.a.hyper.label_smoothing = rows.a.hyper.label_smoothing = 0.1F;
    for (int form = 0; form < 2; form++) {
        run(&maps, form == 0 ? DT_FORWARD : DT_BACKWARD);
        run(&rows, form == 0 ? DT_FORWARD : DT_BACKWARD);
    }
    float want[PIXELS * C] = {0};
    for (int i = 0; i < KEPT; i++)
        memcpy(want + from[i] * C, rows.dx + i * C, C * sizeof *want);
    assert_memory_equal(maps.dx, want, sizeof want);
    assert_true(fabs(maps.metrics.loss_sum - rows.metrics.loss_sum) < 1e-12);
    assert_int_equal(maps.metrics.count, KEPT);
    assert_int_equal(maps.metrics.top1, rows.metrics.top1);
    assert_int_equal(maps.metrics.top5, rows.metrics.top5);
    dt_class_count counts[6] = {{0}};
    count_slowly(counts, kept, of_kept, KEPT, C);
    run(&maps, DT_EVAL);
    assert_memory_equal(maps.of, counts, C * sizeof *counts);
    dt_graph_destroy(maps.g);
    dt_graph_destroy(rows.g);
    free(x);
}

/* A row of nothing but infinities and NaNs is none of the loss where it does not count. */
static void what_does_not_count_may_be_no_number(void **state)
{
    (void)state;
    const float x[] = {1, 0, NAN, INFINITY, 0, 1};
    const int32_t labels[] = {0, DT_LABEL_NONE, 1};
    bench b;
    open_bench(&b, 3, 2, x, labels);
    run(&b, DT_FORWARD);
    run(&b, DT_BACKWARD);
    assert_int_equal(b.metrics.count, 2);
    assert_int_equal(b.metrics.top1, 2);
    assert_int_equal(b.metrics.nonfinite, 0);
    for (int i = 0; i < 6; i++)
        assert_true(isfinite(b.dx[i]));
    assert_true(b.dx[2] == 0 && b.dx[3] == 0);
    dt_graph_destroy(b.g);
}

static void a_wrong_label_of_a_pixel_names_its_sample(void **state)
{
    (void)state;
    const float x[2 * 4 * 2] = {0};
    const int32_t labels[2 * 4] = {0, 1, 0, 1, 0, 0, 2, 0};
    bench b;
    dt_err err = {0};
    open_maps(&b, 2, (dt_shape){1, 2, 2, 2}, x, labels);
    assert_fails(try_run(&b, DT_FORWARD, &err), DT_E_DATA, &err, "sample 1");
    dt_graph_destroy(b.g);
}

/* Counts of a line are kept in 16 bits. */
static void a_line_wider_than_can_be_counted_is_refused(void **state)
{
    (void)state;
    enum { MOST = 32767 };
    const float x[1] = {0};
    const int32_t labels[1] = {0};
    for (int64_t w = MOST; w <= MOST + 1; w++) {
        dt_err err = {0};
        dt_facts f = {0};
        bench b;
        open_maps(&b, 0, (dt_shape){1, 1, w, 2}, x, labels);
        const dt_status st = dt_layer_cross_entropy.cpu->facts(&b.call, &f, &err);
        if (w == MOST)
            assert_ok(st, &err);
        else
            assert_fails(st, DT_E_CONFIG, &err,
                "layer 'loss': scores of 32768 places side by side, at most 32767");
        dt_graph_destroy(b.g);
    }
}

static void one_loss_that_is_not_finite_is_seen_among_pixels(void **state)
{
    (void)state;
    float x[2 * 4 * 2] = {0};
    const int32_t labels[2 * 4] = {0};
    x[9] = NAN;
    bench b;
    open_maps(&b, 2, (dt_shape){1, 2, 2, 2}, x, labels);
    run(&b, DT_FORWARD);
    assert_int_equal(b.metrics.nonfinite, 1);
    assert_int_equal(b.metrics.top1, 7);
    x[11] = INFINITY; /* the other pixel of that line, and one of another */
    x[2] = NAN;
    run(&b, DT_FORWARD);
    assert_int_equal(b.metrics.nonfinite, 3);
    dt_graph_destroy(b.g);
}

/* A value of @n floats with a guard behind it. */
static float *guarded(int64_t n, uint32_t key)
{
    float *random = dt_random_values((size_t)n, key);
    unsigned char *v = malloc((size_t)n * sizeof(float) + 1);
    assert_non_null(v);
    memcpy(v, random, (size_t)n * sizeof(float));
    v[(size_t)n * sizeof(float)] = GUARD;
    free(random);
    return (float *)(void *)v;
}

static void free_guarded(float *v, int64_t n)
{
    assert_int_equal(((const unsigned char *)v)[(size_t)n * sizeof(float)], GUARD);
    free(v);
}

static void run_op(const dt_layer_desc *op, dt_form_kind form, int64_t count, const dt_args *a)
{
    dt_err err = {0};
    const dt_call c = {.form = form, .count = count};
    assert_ok(op->cpu->run(&c, NULL, a, &err), &err);
}

static const int64_t counts[] = {1, 17, 100003}; /* the last is several tasks and a rest */

static void check_sgd(int64_t n, dt_hyper h, int threads)
{
    float *w = guarded(n, 1), *v = guarded(n, 2), *first = guarded(n, 1);
    double *want_w = malloc((size_t)n * sizeof *want_w),
           *want_v = calloc((size_t)n, sizeof *want_v);
    float *rounded = malloc((size_t)n * sizeof *rounded);
    assert_true(want_w != NULL && want_v != NULL && rounded != NULL);
    for (int64_t i = 0; i < n; i++)
        want_w[i] = (double)w[i];
    memset(v, 0, (size_t)n * sizeof *v);
    omp_set_num_threads(threads);
    for (uint32_t step = 0; step < 4; step++) {
        float *dw = guarded(n, 10 + step), *kept = guarded(n, 10 + step);
        dt_args a = {.hyper = h};
        a.port[DT_P] = w;
        a.port[DT_DP] = dw;
        a.port[DT_M] = h.momentum != 0 ? v : NULL;
        run_op(&dt_layer_sgd, DT_UPDATE, n, &a);
        assert_memory_equal(dw, kept, (size_t)n * sizeof *dw);
        for (int64_t i = 0; i < n; i++) {
            want_v[i] =
                (double)h.momentum * want_v[i] + (double)dw[i] + (double)h.weight_decay * want_w[i];
            want_w[i] -= (double)h.lr * want_v[i];
        }
        free_guarded(dw, n);
        free_guarded(kept, n);
    }
    for (int64_t i = 0; i < n; i++)
        rounded[i] = (float)want_w[i];
    assert_true(dt_relative_error(w, rounded, (size_t)n) < 1e-6);
    assert_true(dt_relative_error(w, first, (size_t)n) > 1e-3); /* it did move */
    for (int64_t i = 0; i < n; i++)
        rounded[i] = (float)want_v[i];
    if (h.momentum != 0)
        assert_true(dt_relative_error(v, rounded, (size_t)n) < 1e-6);
    free_guarded(w, n);
    free_guarded(v, n);
    free_guarded(first, n);
    free(want_w);
    free(want_v);
    free(rounded);
}

static void sgd_follows_pytorch(void **state)
{
    (void)state;
    const dt_hyper hypers[] = {{.lr = 0.1f}, {.lr = 0.1f, .momentum = 0.9f},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f}, {.lr = 0.2f, .weight_decay = 0.1f}};
    const int usual = omp_get_max_threads();
    for (size_t k = 0; k < DT_COUNT(hypers); k++)
        for (size_t i = 0; i < DT_COUNT(counts); i++)
            check_sgd(counts[i], hypers[k], 1 + (int)k % 3);
    omp_set_num_threads(usual);
}

static void sum_may_take_the_bytes_of_either_input(void **state)
{
    (void)state;
    for (size_t k = 0; k < DT_COUNT(counts); k++)
        for (int where = 0; where < 3; where++) {
            const int64_t n = counts[k];
            float *x0 = guarded(n, 1), *x1 = guarded(n, 2), *y = guarded(n, 3);
            float *a0 = guarded(n, 1), *a1 = guarded(n, 2);
            dt_args a = {.port = {0}};
            a.port[DT_X] = x0;
            a.port[DT_X + 1] = x1;
            float *to = where == 0 ? y : where == 1 ? x0 : x1;
            a.port[DT_Y] = to;
            run_op(&dt_layer_sum, DT_FORWARD, n, &a);
            for (int64_t i = 0; i < n; i++)
                assert_true(to[i] == a0[i] + a1[i]);
            free_guarded(x0, n);
            free_guarded(x1, n);
            free_guarded(y, n);
            free_guarded(a0, n);
            free_guarded(a1, n);
        }
}

static void commit_copies_the_pending_statistic(void **state)
{
    (void)state;
    enum { N = 100 };
    float *pending = guarded(N, 1), *live = guarded(N, 2), *want = guarded(N, 1);
    dt_args a = {.port = {0}};
    a.port[DT_Q] = pending;
    a.port[DT_P] = live;
    run_op(&dt_layer_commit, DT_UPDATE, N, &a);
    assert_memory_equal(live, want, N * sizeof *live);
    assert_memory_equal(pending, want, N * sizeof *live);
    free_guarded(pending, N);
    free_guarded(live, N);
    free_guarded(want, N);
}

DT_TEST_GROUP(loss)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradient_agree_with_double_precision),
        cmocka_unit_test(gradient_may_take_the_bytes_of_the_probabilities),
        cmocka_unit_test(smoothed_labels_agree_with_double_precision),
        cmocka_unit_test(smoothed_labels_agree_with_pytorch),
        cmocka_unit_test(a_large_vocabulary_agrees_with_double_precision),
        cmocka_unit_test(narrow_scores_are_computed_in_single_precision),
        cmocka_unit_test(huge_scores_do_not_overflow),
        cmocka_unit_test(equal_scores_rank_by_class),
        cmocka_unit_test(greater_scores_rank_first),
        cmocka_unit_test(every_answer_is_in_the_top_five_of_fewer_classes),
        cmocka_unit_test(nan_is_never_correct_and_counts_as_not_finite),
        cmocka_unit_test(an_infinite_loss_counts_as_not_finite),
        cmocka_unit_test(metrics_start_anew_or_add_up),
        cmocka_unit_test(evaluation_gives_the_metrics_without_probabilities),
        cmocka_unit_test(labels_outside_the_classes_are_refused),
        cmocka_unit_test(a_label_a_pixel_gives_the_mean_over_all_pixels),
        cmocka_unit_test(pixels_are_as_samples_of_their_own),
        cmocka_unit_test(evaluation_counts_the_pixels_of_each_class),
        cmocka_unit_test(labels_that_do_not_count_are_left_out),
        cmocka_unit_test(what_does_not_count_may_be_no_number),
        cmocka_unit_test(a_wrong_label_of_a_pixel_names_its_sample),
        cmocka_unit_test(a_line_wider_than_can_be_counted_is_refused),
        cmocka_unit_test(one_loss_that_is_not_finite_is_seen_among_pixels),
        cmocka_unit_test(sgd_follows_pytorch),
        cmocka_unit_test(sum_may_take_the_bytes_of_either_input),
        cmocka_unit_test(commit_copies_the_pending_statistic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
