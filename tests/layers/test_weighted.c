/* conv and fc against their definitions, summed up naively in double precision. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/weighted/conv.h"
#include "layers/cpu/weighted.h"
#include "layers/weighted/fc.h"
#include "layers/onednn/onednn.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

#define TOLERANCE 1e-6

static const struct conv_case {
    const char *opts;
    int64_t n;
    dt_shape x;
} conv_cases[] = {
    {"out=1 kernel=1", 1, {1, 1, 1, 1}},
    {"out=4 kernel=3 stride=2 pad=1", 2, {1, 7, 5, 3}},
    {"out=6 kernel=3 groups=3 pad=1 bias=off", 1, {1, 4, 5, 6}},
    {"out=8 kernel=3 groups=4 stride=2", 2, {1, 6, 5, 4}},
    {"out=2 kernel=3 dilation=2 pad=2", 1, {1, 6, 5, 3}},
    {"out=3 kernel=2 stride=3 pad=3", 1, {1, 5, 4, 2}},
    {"out=17 kernel=5 pad=2", 1, {1, 9, 3, 19}},
    {"out=5 kernel=1x7 pad=0x3", 2, {1, 4, 8, 3}},
    {"out=16 kernel=7x1 pad=3x0 bias=off", 1, {1, 8, 4, 16}},
    {"out=6 kernel=2x3 stride=1x2 pad=1x0 groups=2", 2, {1, 5, 9, 4}},
    {"out=64 kernel=1 stride=1x2 bias=off", 1, {1, 4, 6, 64}},
};

/* x[n][c][h][w], or 0 in the padding. */
static double pixel(const float *x, const dt_shape *s, int64_t n, int64_t c, int64_t h, int64_t w)
{
    if (h < 0 || h >= s->h || w < 0 || w >= s->w)
        return 0;
    return (double)x[((n * s->c + c) * s->h + h) * s->w + w];
}

/* One output of a convolution: sample n, channel o, row p, column q. */
static double conv_at(
    const dt_conv *k, const dt_layer_run *r, int64_t n, int64_t o, int64_t p, int64_t q)
{
    const dt_shape *s = &r->x[0];
    const int64_t depth = s->c / k->groups, first = o / (k->out / k->groups) * depth;
    const int64_t high = dt_sides_h(k->kernel), wide = dt_sides_w(k->kernel);
    const int64_t h = p * dt_sides_h(k->stride) - dt_sides_h(k->pad);
    const int64_t w = q * dt_sides_w(k->stride) - dt_sides_w(k->pad);
    double sum = k->bias ? (double)r->param[1][o] : 0;
    for (int64_t c = 0; c < depth; c++)
        for (int64_t i = 0; i < high; i++)
            for (int64_t j = 0; j < wide; j++)
                sum += (double)r->param[0][((o * depth + c) * high + i) * wide + j] *
                       pixel(r->in[0], s, n, first + c, h + i * k->dilation, w + j * k->dilation);
    return sum;
}

static void conv_is_its_definition(void **state)
{
    const struct conv_case *c = *state;
    dt_layer_run r = {.desc = &dt_layer_conv, .n = c->n, .n_x = 1, .forward_only = true};
    void *opts = dt_layer_options(r.desc, c->opts);
    const dt_conv *k = opts;
    float *x = dt_random_values((size_t)(c->n * dt_shape_sample(&c->x)), 1);
    const int64_t taps = dt_sides_h(k->kernel) * dt_sides_w(k->kernel);
    float *w = dt_random_values((size_t)(k->out * c->x.c * taps), 2);
    float *bias = dt_random_values((size_t)k->out, 3);
    r.opts = opts;
    r.x[0] = c->x;
    r.in[0] = x;
    r.param[0] = w;
    r.param[1] = bias;
    dt_layer_check(&r);
    const dt_shape y = r.info.y;
    const size_t count = (size_t)(c->n * dt_shape_sample(&y));
    float *want = dt_random_values(count, 4);
    for (int64_t i = 0; i < (int64_t)count; i++)
        want[i] = (float)conv_at(
            k, &r, i / (y.c * y.h * y.w), i / (y.h * y.w) % y.c, i / y.w % y.h, i % y.w);
    assert_true(dt_relative_error(r.got_y, want, count) < TOLERANCE);
    dt_layer_check_free(&r);
    dt_free(opts);
    free(x);
    free(w);
    free(bias);
    free(want);
}

/* The columns of the weight are in the order c, h, w: that of an image in PyTorch's layout. */
static void fc_of_an_image_is_its_definition(void **state)
{
    (void)state;
    enum { N = 3, OUT = 7, IN = 4 * 3 * 5 };
    const dt_fc opts = {OUT, true};
    float *x = dt_random_values(N * IN, 1), *w = dt_random_values(OUT * IN, 2);
    float *bias = dt_random_values(OUT, 3), want[N * OUT];
    dt_layer_run r = {.desc = &dt_layer_fc,
        .opts = &opts,
        .n = N,
        .n_x = 1,
        .x = {{1, 4, 3, 5}},
        .forward_only = true,
        .in = {x},
        .param = {w, bias}};
    dt_layer_check(&r);
    for (int i = 0; i < N * OUT; i++) {
        double sum = (double)bias[i % OUT];
        for (int k = 0; k < IN; k++)
            sum += (double)w[i % OUT * IN + k] * (double)x[i / OUT * IN + k];
        want[i] = (float)sum;
    }
    assert_true(dt_relative_error(r.got_y, want, N * OUT) < TOLERANCE);
    dt_layer_check_free(&r);
    free(x);
    free(w);
    free(bias);
}

/* Gradients that are made some rows at a time, in bf16 by a step of the library's own each, when
 * they are added: the last rows fewer, several samples, on teams that share the rows differently.
 * What was added is compared with the whole by dt_layer_check. */
static void a_large_fc_adds_the_gradient_that_it_writes(void **state)
{
    (void)state;
    enum { N = 3, OUT = 576, IN = 32 * 32 * 16 };
    const dt_fc opts = {OUT, true};
    float *x = dt_random_values(N * IN, 1), *dy = dt_random_values(N * OUT, 4);
    const int most = omp_get_max_threads();
    for (int bf16 = 0; bf16 <= 1; bf16++)
        for (int threads = 1; threads <= 3; threads += 2) {
            if (!dt_picked((uint64_t)(bf16 + threads / 2), 2, 2, 1))
                continue;
            omp_set_num_threads(threads);
            dt_layer_run r = {.desc = &dt_layer_fc,
                .opts = &opts,
                .n = N,
                .n_x = 1,
                .x = {{1, 32, 32, 16}},
                .dtype = bf16 ? DT_BF16 : DT_F32,
                .in = {x},
                .dy = dy};
            dt_layer_check(&r);
            assert_true(r.added);
            dt_layer_check_free(&r);
        }
    omp_set_num_threads(most);
    free(x);
    free(dy);
}

/* The plain gradient of a weight, of x and dy that are all 1, with scratch full of what it may
 * hold. */
static void gradient_of_ones(const dt_dnnl_problem *p, int64_t n, float *plain)
{
    enum { ONE = 0x3f80, SCRATCH = 0x42 };
    const dt_dnnl_layout to = {.kind = DT_DNNL_WEIGHTS, .n = n}, home = {.kind = DT_DNNL_PLAIN};
    dt_err err = {0};
    dt_dnnl_facts f, g;
    dt_dnnl_op *op, *reorder;
    assert_ok(dt_dnnl_ask(p, to, &f, &err), &err);
    assert_ok(dti_dnnl_ask_reorder(p, to, home, &g, &err), &err);
    const size_t xs = (size_t)(n * p->h * p->w * p->c), ys = (size_t)(n * p->p * p->q * p->out);
    uint16_t *x = malloc(xs * sizeof *x), *dy = malloc(ys * sizeof *dy);
    void *weight = malloc(f.weight_bytes), *work = malloc(f.work_bytes + 1),
         *scratch = malloc(g.work_bytes + 1);
    for (size_t i = 0; i < xs; i++)
        x[i] = ONE;
    for (size_t i = 0; i < ys; i++)
        dy[i] = ONE;
    memset(work, SCRATCH, f.work_bytes);
    assert_ok(dt_dnnl_create(&op, p, to, &err), &err);
    assert_ok(dt_dnnl_run(op, &(dt_dnnl_bytes){x, dy, weight, NULL, work}, &err), &err);
    assert_ok(dti_dnnl_create_reorder(&reorder, p, to, home, &err), &err);
    assert_ok(
        dt_dnnl_run(reorder, &(dt_dnnl_bytes){weight, plain, NULL, NULL, scratch}, &err), &err);
    dt_dnnl_destroy(op);
    dt_dnnl_destroy(reorder);
    free(x);
    free(dy);
    free(weight);
    free(work);
    free(scratch);
}

/* Of an image that is narrower than the stride, only the columns of the kernel that meet the image
 * have a gradient. */
static void a_narrow_image_gives_a_gradient_of_its_own(void **state)
{
    (void)state;
    enum { N = 2, H = 33, C = 3, OUT = 17, K = 3 };
    static float plain[OUT * C * K * K], expected[OUT * C * K * K];
    if (!dt_onednn_bf16())
        skip();
    for (int64_t w = 1; w <= 3; w++) {
        const int64_t across = w + 1, down = 2;
        const dt_dnnl_problem p = {.bf16 = 1,
            .groups = 1,
            .c = C,
            .h = H,
            .w = w,
            .out = OUT,
            .p = 17,
            .q = 1,
            .kernel = K,
            .stride = dt_sides(down, across),
            .pad = 1,
            .dilation = 1};
        gradient_of_ones(&p, N, plain);
        for (int i = 0; i < OUT * C * K * K; i++) {
            const int row = i / K % K, column = i % K;
            const int pixels = row == 1 ? 17 : 16;
            const bool meets = column >= 1 && column - 1 < w;
            expected[i] = meets ? (float)(N * pixels) : 0;
        }
        assert_memory_equal(plain, expected, sizeof plain);
    }
}

/* Of a dilated kernel, on an image that the library takes in several parts of a row. */
static void a_dilated_kernel_gives_a_gradient_of_its_own(void **state)
{
    (void)state;
    enum { N = 2, H = 9, W = 40, OUT = 32, K = 3, GAP = 2, MOST = 24 };
    static float plain[OUT * MOST * K * K], expected[OUT * MOST * K * K];
    static const int64_t shape[][2] = {{24, 1}, {16, 4}, {32, 32}, {48, 2}}; /* channels, groups */
    if (!dt_onednn_bf16())
        skip();
    for (size_t s = 0; s < DT_COUNT(shape); s++) {
        const int64_t c = shape[s][0], groups = shape[s][1], weights = OUT * (c / groups) * K * K;
        const dt_dnnl_problem p = {.bf16 = 1,
            .groups = groups,
            .c = c,
            .h = H,
            .w = W,
            .out = OUT,
            .p = H,
            .q = W,
            .kernel = K,
            .stride = 1,
            .pad = GAP,
            .dilation = GAP};
        assert_true(c / groups <= MOST);
        gradient_of_ones(&p, N, plain);
        for (int64_t i = 0; i < weights; i++) {
            const int row = abs((int)(i / K % K) - 1) * GAP, column = abs((int)(i % K) - 1) * GAP;
            expected[i] = (float)(N * (H - row) * (W - column));
        }
        assert_memory_equal(plain, expected, (size_t)weights * sizeof *plain);
    }
}

/* A weight in another layout; the caller frees it. */
static float *moved(const dt_dnnl_problem *p, float *x, dt_dnnl_layout from, dt_dnnl_layout to)
{
    enum { RUBBISH = 0x42 };
    dt_err err = {0};
    dt_dnnl_facts f;
    dt_dnnl_op *op;
    assert_ok(dti_dnnl_ask_reorder(p, from, to, &f, &err), &err);
    float *y = malloc(f.weight_bytes);
    void *work = malloc(f.work_bytes + 1);
    memset(y, RUBBISH, f.weight_bytes);
    assert_ok(dti_dnnl_create_reorder(&op, p, from, to, &err), &err);
    assert_ok(dt_dnnl_run(op, &(dt_dnnl_bytes){x, y, NULL, NULL, work}, &err), &err);
    dt_dnnl_destroy(op);
    free(work);
    return y;
}

/* By way of one layout or two, in fp32. */
static void comes_back(const dt_dnnl_problem *p, const dt_dnnl_kind by[2])
{
    const dt_dnnl_layout home = {.kind = DT_DNNL_PLAIN};
    const int64_t taps = dt_sides_h(p->kernel) * dt_sides_w(p->kernel);
    const size_t n = (size_t)(p->out * (p->c / p->groups) * taps);
    float *plain = dt_random_values(n, 1), *at = plain;
    dt_dnnl_layout from = home;
    for (int i = 0; i < 3; i++) {
        const dt_dnnl_layout to = {.kind = i < 2 ? by[i] : DT_DNNL_PLAIN, .n = 4};
        float *next = moved(p, at, from, to);
        if (at != plain)
            free(at);
        at = next;
        from = to;
    }
    if (memcmp(at, plain, n * sizeof *plain) != 0)
        fail_msg("%d inputs, %d outputs, %d taps, bf16 %d: another weight comes back", (int)p->c,
            (int)p->out, (int)taps, (int)p->bf16);
    free(at);
    free(plain);
}

/* What a kernel of bf16 reads is the same by way of where the weight lives. */
static void is_read_the_same(const dt_dnnl_problem *p, dt_dnnl_kind kind)
{
    const dt_dnnl_layout home = {.kind = DT_DNNL_PLAIN}, lives = {.kind = DT_DNNL_WEIGHTS, .n = 4},
                         read = {.kind = kind, .n = 4};
    float *plain = dt_random_values((size_t)(p->out * p->c), 1);
    float *there = moved(p, plain, home, lives);
    float *straight = moved(p, plain, home, read), *by_way = moved(p, there, lives, read);
    dt_dnnl_facts f;
    dt_err err = {0};
    assert_ok(dti_dnnl_ask_reorder(p, home, read, &f, &err), &err);
    if (memcmp(straight, by_way, f.weight_bytes) != 0)
        fail_msg("%d inputs, %d outputs, kind %d: another weight is read", (int)p->c, (int)p->out,
            (int)kind);
    free(straight);
    free(by_way);
    free(there);
    free(plain);
}

/* The library pads outputs to whole blocks, and of long rows it once left some of them behind. */
static void weights_come_back_from_every_layout(void **state)
{
    (void)state;
    static const int64_t ins[] = {16, 784, 6144, 6160, 8192, 10560};
    static const int64_t outs[] = {1, 65, 100, 129, 176, 200};
    static const dt_dnnl_kind ways[][2] = {{DT_DNNL_WEIGHTS, DT_DNNL_WEIGHTS},
        {DT_DNNL_FORWARD, DT_DNNL_WEIGHTS}, {DT_DNNL_WEIGHTS, DT_DNNL_DATA}};
    for (size_t i = 0; i < DT_COUNT(ins) * DT_COUNT(outs) * 2; i++) {
        if (!dt_picked(i, 12, 4, 1) || (i % 2 == 1 && !dt_onednn_bf16()))
            continue;
        const int64_t bf16 = (int64_t)i % 2, out = outs[i / 2 % DT_COUNT(outs)];
        dt_dnnl_problem p = dti_rows_problem(
            &(dt_call){.dtype = bf16 ? DT_BF16 : DT_F32}, ins[i / 2 / DT_COUNT(outs)], out, true);
        for (size_t k = 0; k < (bf16 ? 1 : DT_COUNT(ways)); k++)
            comes_back(&p, ways[k]);
        if (bf16) {
            is_read_the_same(&p, DT_DNNL_FORWARD);
            is_read_the_same(&p, DT_DNNL_DATA);
        }
        p = (dt_dnnl_problem){.groups = out % 4 == 0 ? 2 : 1,
            .c = ins[i / 2 / DT_COUNT(outs)] / 8,
            .h = 7,
            .w = 7,
            .out = out,
            .p = 7,
            .q = 7,
            .kernel = 3,
            .stride = 1,
            .pad = 1,
            .dilation = 1};
        for (size_t k = 0; k < DT_COUNT(ways) && !bf16; k++)
            comes_back(&p, ways[k]);
    }
}

/* The same of a gradient that is added to some rows. */
static void padded_rows_are_added_to_their_own(void **state)
{
    (void)state;
    enum { IN = 8192, OUT = 292, ROWS = 100, FIRST = OUT - ROWS, N = 4 };
    const dt_call c = {.dtype = DT_F32};
    const dt_dnnl_problem p = dti_rows_problem(&c, IN, OUT, false),
                          rows = dti_rows_problem(&c, IN, ROWS, false);
    const dt_dnnl_layout home = {.kind = DT_DNNL_PLAIN}, own = {.kind = DT_DNNL_WEIGHTS, .n = N};
    float *gradient = dt_random_values(IN * ROWS, 1), *sum = dt_random_values(IN * OUT, 2);
    float *expected = malloc((size_t)IN * OUT * sizeof *expected);
    float *from = moved(&rows, gradient, home, own);
    dt_err err = {0};
    dt_dnnl_op *op;
    for (int i = 0; i < IN * OUT; i++)
        expected[i] = i < IN * FIRST ? sum[i] : sum[i] + gradient[i - IN * FIRST];
    assert_ok(dti_dnnl_create_add_rows(&op, &rows, own, &p, home, FIRST, &err), &err);
    assert_ok(dt_dnnl_run(op, &(dt_dnnl_bytes){.x = from, .y = sum}, &err), &err);
    assert_memory_equal(sum, expected, (size_t)IN * OUT * sizeof *sum);
    dt_dnnl_destroy(op);
    free(from);
    free(expected);
    free(gradient);
    free(sum);
}

DT_TEST_GROUP(weighted)
{
    static struct conv_case copies[DT_COUNT(conv_cases)];
    struct CMUnitTest tests[DT_COUNT(conv_cases) + 6] = {
        cmocka_unit_test(fc_of_an_image_is_its_definition),
        cmocka_unit_test(a_large_fc_adds_the_gradient_that_it_writes),
        cmocka_unit_test(a_narrow_image_gives_a_gradient_of_its_own),
        cmocka_unit_test(a_dilated_kernel_gives_a_gradient_of_its_own),
        cmocka_unit_test(weights_come_back_from_every_layout),
        cmocka_unit_test(padded_rows_are_added_to_their_own)};
    for (size_t i = 0; i < DT_COUNT(conv_cases); i++) {
        copies[i] = conv_cases[i];
        tests[i + 6] =
            (struct CMUnitTest){copies[i].opts, conv_is_its_definition, NULL, NULL, &copies[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
