/* Activations, normalisation across channels, joining and resampling: what is the same whichever
 * way a layer is run, hand-made values, values that are not ordinary, and bf16 beside fp32. */
#include "tests/fixture/check.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/dtype.h"
#include "layers/elementwise/activations.h"
#include "layers/pool/adaptive_avgpool.h"
#include "layers/shape/concat.h"
#include "layers/weighted/conv_transpose.h"
#include "layers/norm/lrn.h"
#include "layers/pool/max_unpool.h"
#include "layers/pool/maxpool.h"
#include "layers/elementwise/mul.h"
#include "layers/registry.h"
#include "layers/shape/upsample.h"
#include "layers/shape/zero_pad.h"
#include "tests/fixture/layer_check.h"

/* Every kernel once small and odd, and once large enough to be cut into several tasks. */
static const struct row {
    const char *layer, *opts;
    int n_x;
    int64_t n;
    dt_shape x;
    bool pixel; /* inputs behind the first are one pixel */
} rows[] = {
    {"sigmoid", "", 1, 1, {1, 1, 1, 1}, false},
    {"sigmoid", "", 1, 3, {1, 41, 40, 33}, false},
    {"tanh", "", 1, 5, {1, 3, 5, 7}, false},
    {"tanh", "", 1, 3, {1, 41, 40, 33}, false},
    {"gelu", "", 1, 5, {1, 3, 5, 7}, false},
    {"gelu", "", 1, 3, {1, 41, 40, 33}, false},
    {"gelu", "approximate=tanh", 1, 5, {1, 3, 5, 7}, false},
    {"gelu", "approximate=tanh", 1, 3, {1, 41, 40, 33}, false},
    {"hardsigmoid", "", 1, 5, {1, 3, 5, 7}, false},
    {"hardsigmoid", "", 1, 3, {1, 41, 40, 33}, false},
    {"hardswish", "", 1, 5, {1, 3, 5, 7}, false},
    {"hardswish", "", 1, 3, {1, 41, 40, 33}, false},
    {"relu6", "", 1, 5, {1, 3, 5, 7}, false},
    {"relu6", "", 1, 3, {1, 41, 40, 33}, false},
    {"silu", "", 1, 5, {1, 3, 5, 7}, false},
    {"silu", "", 1, 3, {1, 41, 40, 33}, false},
    {"leaky_relu", "slope=0.2", 1, 5, {1, 3, 5, 7}, false},
    {"leaky_relu", "", 1, 3, {1, 41, 40, 33}, false},
    {"lrn", "alpha=0.5", 1, 5, {1, 3, 5, 1}, false},
    {"lrn", "size=1 alpha=2", 1, 2, {1, 3, 5, 65}, false},
    {"lrn", "size=4 alpha=2 beta=0.6 k=2", 1, 3, {1, 13, 12, 64}, false},
    {"lrn", "size=63 alpha=3", 1, 3, {1, 5, 7, 200}, false},
    {"concat", "", 2, 1, {1, 1, 1, 1}, false},
    {"concat", "", 3, 5, {1, 3, 5, 7}, false},
    {"concat", "", 16, 3, {1, 21, 18, 9}, false},
    {"mul", "", 2, 5, {1, 3, 5, 7}, false},
    {"mul", "", 2, 5, {1, 3, 5, 7}, true},
    {"mul", "", 2, 3, {1, 41, 40, 33}, false},
    {"mul", "", 2, 3, {1, 41, 40, 130}, true},
    {"mean", "over=height", 1, 5, {1, 70, 5, 7}, false},
    {"mean", "over=width", 1, 3, {1, 9, 40, 130}, false},
    {"mean", "", 1, 2, {1, 9, 40, 130}, false},
    {"mean", "over=channels", 1, 3, {1, 9, 8, 130}, false},
    {"mean", "over=channels", 1, 2, {1, 3, 4, 1100}, false},
    {"permute", "order=chw", 1, 5, {1, 3, 5, 7}, false},
    {"permute", "order=hcw", 1, 3, {1, 21, 20, 40}, false},
    {"permute", "order=whc", 1, 3, {1, 21, 20, 40}, false},
    {"groupnorm", "groups=7", 1, 5, {1, 3, 5, 7}, false},
    {"groupnorm", "groups=2", 1, 3, {1, 9, 8, 140}, false},
    {"groupnorm", "groups=35", 1, 3, {1, 3, 5, 70}, false},
    {"additive_attention", "hidden=1", 2, 1, {1, 1, 1, 1}, false},
    {"additive_attention", "hidden=19 causal=on", 2, 5, {1, 13, 2, 7}, false},
    {"additive_attention", "hidden=32 kind=naive", 2, 3, {1, 70, 1, 37}, false},
    {"additive_attention", "hidden=40", 2, 3, {1, 70, 1, 33}, true},
    {"lstm", "out=5", 1, 3, {1, 1, 1, 7}, false},
    {"lstm", "out=45", 1, 70, {1, 9, 1, 33}, false},
    {"lstm", "out=45 keep=cells", 1, 7, {1, 9, 2, 33}, false},
    {"lstm", "out=290", 1, 40, {1, 3, 1, 6}, false},
    {"lstm", "out=290 keep=cells", 1, 5, {1, 4, 1, 6}, false},
    {"lstm", "out=64 bias=off", 1, 3, {1, 25, 20, 19}, false},
    {"rmsnorm", "", 1, 5, {1, 3, 5, 7}, false},
    {"rmsnorm", "", 1, 3, {1, 21, 20, 130}, false},
    {"upsample", "factor=1", 1, 2, {1, 3, 2, 5}, false},
    {"upsample", "factor=3", 1, 5, {1, 3, 5, 7}, false},
    {"upsample", "", 1, 3, {1, 9, 8, 130}, false},
    {"zero_pad", "pad=0 more=1x0", 1, 2, {1, 3, 2, 5}, false},
    {"zero_pad", "pad=2x1 more=0x3", 1, 5, {1, 3, 5, 7}, false},
    {"zero_pad", "", 1, 3, {1, 9, 8, 130}, false},
    {"avgpool", "kernel=3x2 stride=1x2 pad=1x0", 1, 5, {1, 7, 5, 3}, false},
    {"adaptive_avgpool", "out=1", 1, 5, {1, 7, 5, 3}, false},
    {"adaptive_avgpool", "out=4", 1, 3, {1, 9, 14, 130}, false},
    {"adaptive_avgpool", "out=7", 1, 2, {1, 3, 5, 4}, false},
};

static const dt_layer_desc *find(const char *name)
{
    const dt_layer_desc *d = dt_layer_find(name);
    assert_non_null(d);
    return d;
}

/* dt_layer_options, also where there are none. */
static void *options(const dt_layer_desc *d, const char *text)
{
    return d->opts_bytes > 0 ? dt_layer_options(d, text) : NULL;
}

/* A row, run one way; the inputs stay the same. */
typedef struct outcome {
    dt_layer_run run;
    float *in[DT_MAX_IN], *param[DT_MAX_PARAM], *dy;
    void *opts;
    size_t x_count[DT_MAX_IN], y_count;
} outcome;

static dt_shape shape_of(const struct row *row, int i)
{
    return row->pixel && i > 0 ? (dt_shape){1, 1, 1, row->x.c} : row->x;
}

static void run_row(const struct row *row, int64_t piece, bool in_place, outcome *o)
{
    const dt_layer_desc *d = find(row->layer);
    dt_layer_info info;
    dt_err err = {0};
    *o = (outcome){.opts = options(d, row->opts)};
    dt_layer_run *r = &o->run;
    *r = (dt_layer_run){.desc = d,
        .opts = o->opts,
        .n = row->n,
        .piece = piece,
        .n_x = row->n_x,
        .in_place = in_place};
    for (int i = 0; i < row->n_x; i++) {
        r->x[i] = shape_of(row, i);
        o->x_count[i] = (size_t)(row->n * dt_shape_sample(&r->x[i]));
        r->in[i] = o->in[i] = dt_random_values(o->x_count[i], (uint32_t)i);
    }
    assert_ok(d->infer(o->opts, r->x, r->n_x, &info, &err), &err);
    o->y_count = (size_t)(row->n * dt_shape_sample(&info.y));
    r->dy = o->dy = dt_random_values(o->y_count, 100);
    for (int i = 0; i < info.n_param; i++)
        r->param[i] = o->param[i] =
            dt_random_values((size_t)dt_param_count(&info.param[i]), 200 + (uint32_t)i);
    dt_layer_check(r);
}

static void drop(outcome *o)
{
    dt_layer_check_free(&o->run);
    for (int i = 0; i < DT_MAX_IN; i++)
        free(o->in[i]);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        free(o->param[i]);
    free(o->dy);
    dt_free(o->opts);
}

static void assert_same(const char *layer, const char *of, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(a[i]))
            fail_msg("%s: %s[%zu] was not written", layer, of, i);
    if (memcmp(a, b, n * sizeof *a) != 0)
        fail_msg("%s: bits of %s differ", layer, of);
}

/* Each row on one thread in one piece, and another way. */
static void compare_ways(int threads, int64_t piece, bool in_place)
{
    const int usual = omp_get_max_threads();
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        outcome a, b;
        omp_set_num_threads(1);
        run_row(&rows[i], 0, false, &a);
        omp_set_num_threads(threads);
        run_row(&rows[i], piece, in_place, &b);
        assert_same(rows[i].layer, "y", a.run.got_y, b.run.got_y, a.y_count);
        for (int k = 0; k < rows[i].n_x; k++)
            assert_same(rows[i].layer, "dx", a.run.got_dx[k], b.run.got_dx[k], a.x_count[k]);
        for (int k = 0; k < a.run.info.n_param; k++)
            assert_same(rows[i].layer, "a parameter's gradient", a.run.got_dparam[k],
                b.run.got_dparam[k], (size_t)dt_param_count(&a.run.info.param[k]));
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
            compare_ways(threads, 0, false);
}

static void pieces_of_the_batch_give_the_same_bits(void **state)
{
    (void)state;
    for (int piece = 1; piece <= 2; piece++) /* on so many threads */
        if (dt_picked((uint64_t)piece, 2, 2, 1))
            compare_ways(piece, piece, false);
}

static void in_place_gives_the_same_bits(void **state)
{
    (void)state;
    compare_ways(2, 0, true);
}

/* A layer in a graph, its op called directly with values of a type: for what the bench above does
 * not do. Inputs may differ in channels. */
typedef struct direct {
    dt_graph *g;
    dt_call call;
    dt_args a;
    dt_err err;
} direct;

static const dt_layer_desc no_op = {.name = "value", .max_in = 1, .identity = true};

static void open_direct(
    direct *d, const dt_layer_desc *desc, const void *opts, dt_shape x, int n_x, int64_t n)
{
    int32_t in[DT_MAX_IN], id;
    *d = (direct){.g = NULL};
    assert_ok(dt_graph_create(&d->g, "direct", x, 10, &d->err), &d->err);
    for (int i = 0; i < n_x; i++)
        in[i] = DT_GRAPH_INPUT;
    assert_ok(dt_graph_add(d->g, desc, "layer", opts, in, n_x, &id, &d->err), &d->err);
    d->call = (dt_call){.node = &d->g->node[id], .graph = d->g, .n = n, .home_n = n};
    d->call.needs_dx = true;
    d->a.n = n;
}

static void run_direct(direct *d, dt_form_kind form)
{
    d->call.form = form;
    assert_ok(d->call.node->desc->cpu->run(&d->call, NULL, &d->a, &d->err), &d->err);
}

static void to_bf16(const float *from, dt_bf16 *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = dt_bf16_from_float(from[i]);
}

static void to_float(const dt_bf16 *from, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = dt_bf16_to_float(from[i]);
}

enum { MOST = 170000, SLACK = 8 };

/* bf16 values with some more behind that nobody may touch. */
typedef struct half {
    dt_bf16 v[MOST + SLACK];
} half;

static void wipe(half *h)
{
    memset(h, 0xA5, sizeof *h);
}

static void compare_half(
    const struct row *row, const char *of, const half *h, const float *want, size_t n)
{
    static float got[MOST];
    to_float(h->v, got, n);
    const double off = dt_relative_error(got, want, n);
    if (!(off < 2e-2))
        fail_msg("%s %s: %s in bf16 is off by %g", row->layer, row->opts, of, off);
    for (size_t i = n; i < n + SLACK; i++)
        assert_int_equal(h->v[i], 0xA5A5);
}

/* Everything that backward may read is bound; a kernel takes what it declares. */
static void compare_types(const struct row *row)
{
    static half x[DT_MAX_IN], dx[DT_MAX_IN], y, dy;
    outcome o;
    direct d;
    run_row(row, 0, false, &o);
    const size_t x_count = o.x_count[0];
    assert_true(x_count <= MOST && o.y_count <= MOST);
    open_direct(&d, o.run.desc, o.opts, row->x, row->n_x, row->n);
    d.call.dtype = DT_BF16;
    float *nhwc = dt_random_values(x_count + o.y_count, 1);
    for (int i = 0; i < row->n_x; i++) {
        dt_to_nhwc(o.in[i], nhwc, row->n, &row->x);
        to_bf16(nhwc, x[i].v, x_count);
        wipe(&dx[i]);
        d.a.port[DT_X + i] = x[i].v;
        d.a.port[DT_DX + i] = dx[i].v;
    }
    dt_to_nhwc(o.dy, nhwc, row->n, &o.run.info.y);
    to_bf16(nhwc, dy.v, o.y_count);
    wipe(&y);
    d.a.port[DT_Y] = y.v;
    d.a.port[DT_DY] = dy.v;
    run_direct(&d, DT_FORWARD);
    run_direct(&d, DT_BACKWARD);
    dt_to_nhwc(o.run.got_y, nhwc, row->n, &o.run.info.y);
    compare_half(row, "y", &y, nhwc, o.y_count);
    for (int i = 0; i < row->n_x; i++) {
        dt_to_nhwc(o.run.got_dx[i], nhwc, row->n, &row->x);
        compare_half(row, "dx", &dx[i], nhwc, x_count);
    }
    free(nhwc);
    dt_graph_destroy(d.g);
    drop(&o);
}

/* test_reference.c has those of one pixel, and those with parameters. */
static void bf16_is_close_to_fp32(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        if (!rows[i].pixel && find(rows[i].layer)->form[DT_FORWARD].reads == DT_BIT(DT_X))
            compare_types(&rows[i]);
}

/* One value through an activation: y, and dx for dy = 1. */
static void activate(const char *layer, const char *opts, float x, float *y, float *dx)
{
    const dt_layer_desc *desc = find(layer);
    void *o = options(desc, opts);
    const float one = 1;
    dt_layer_run r = {.desc = desc, .opts = o, .n = 1, .n_x = 1, .x = {{1, 1, 1, 1}}, .dy = &one};
    r.in[0] = &x;
    dt_layer_check(&r);
    *y = r.got_y[0];
    *dx = r.got_dx[0][0];
    dt_layer_check_free(&r);
    dt_free(o);
}

static void activations_reach_their_limits(void **state)
{
    (void)state;
    static const struct {
        const char *layer, *opts;
        float x, y, dx;
    } cases[] = {
        {"sigmoid", "", INFINITY, 1, 0},
        {"sigmoid", "", -INFINITY, 0, 0},
        {"sigmoid", "", 0, 0.5f, 0.25f},
        {"tanh", "", INFINITY, 1, 0},
        {"tanh", "", -INFINITY, -1, 0},
        {"tanh", "", 0, 0, 1},
        {"gelu", "", INFINITY, INFINITY, 1},
        {"gelu", "", -INFINITY, 0, 0},
        {"gelu", "", 1e30f, 1e30f, 1},
        {"gelu", "", -1e30f, 0, 0},
        {"gelu", "", 0, 0, 0.5f},
        {"gelu", "approximate=tanh", INFINITY, INFINITY, 1},
        {"gelu", "approximate=tanh", -INFINITY, 0, 0},
        {"gelu", "approximate=tanh", 1e30f, 1e30f, 1},
        {"gelu", "approximate=tanh", -1e30f, 0, 0},
        {"gelu", "approximate=tanh", 0, 0, 0.5f},
        {"silu", "", INFINITY, INFINITY, 1},
        {"silu", "", -INFINITY, 0, 0},
        {"silu", "", 1e30f, 1e30f, 1},
        {"silu", "", -1e30f, 0, 0},
        {"silu", "", 0, 0, 0.5f},
        {"leaky_relu", "slope=0.25", INFINITY, INFINITY, 1},
        {"leaky_relu", "slope=0.25", -4, -1, 0.25f},
        {"leaky_relu", "", 0, 0, 0.01f},
        {"relu6", "", INFINITY, 6, 0},
        {"relu6", "", -INFINITY, 0, 0},
        {"relu6", "", 6, 6, 0},
        {"relu6", "", 0, 0, 0},
        {"relu6", "", 5.5f, 5.5f, 1},
        {"hardsigmoid", "", INFINITY, 1, 0},
        {"hardsigmoid", "", -INFINITY, 0, 0},
        {"hardsigmoid", "", -3, 0, 0},
        {"hardsigmoid", "", 3, 1, 0},
        {"hardsigmoid", "", 0, 0.5f, 1 / 6.0f},
        {"hardswish", "", INFINITY, INFINITY, 1},
        {"hardswish", "", -INFINITY, 0, 0},
        {"hardswish", "", 1e30f, 1e30f, 1},
        {"hardswish", "", -1e30f, 0, 0},
        {"hardswish", "", 3, 3, 1},
        {"hardswish", "", -3, 0, 0},
        {"hardswish", "", 0, 0, 0.5f},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        float y, dx;
        activate(cases[i].layer, cases[i].opts, cases[i].x, &y, &dx);
        if (!(y == cases[i].y) || !(fabsf(dx - cases[i].dx) < 1e-6f))
            fail_msg("%s %s of %g: %g, slope %g", cases[i].layer, cases[i].opts, (double)cases[i].x,
                (double)y, (double)dx);
        activate(cases[i].layer, cases[i].opts, NAN, &y, &dx);
        assert_true(isnan(y) && isnan(dx));
    }
}

/* Far out, where x times a share of almost nothing must keep its digits. */
static void gelu_is_right_to_single_precision_in_its_tail(void **state)
{
    (void)state;
    for (int i = -130; i <= 60; i++) {
        const float x = (float)i / 10;
        const double want = 0.5 * (double)x * erfc(-(double)x / sqrt(2));
        float y, dx;
        activate("gelu", "", x, &y, &dx);
        if (!(fabs((double)y - want) <= 1e-6 * fabs(want)))
            fail_msg("gelu of %g is %g, not %g", (double)x, (double)y, want);
    }
}

static void concat_puts_channel_after_channel(void **state)
{
    (void)state;
    float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40, 50, 60}, c[] = {7, 8};
    const float want[] = {1, 2, 10, 20, 30, 7, 3, 4, 40, 50, 60, 8};
    const dt_shape shape[] = {{1, 1, 2, 2}, {1, 1, 2, 3}, {1, 1, 2, 1}};
    float y[13], da[5], db[7], dc[3], dy[12];
    direct d = {.g = NULL};
    dt_err err = {0};
    dt_node node[4] = {{.desc = &no_op}, {.desc = &no_op}, {.desc = &no_op},
        {.desc = &dt_layer_concat, .n_in = 3, .in = {0, 1, 2}}};
    dt_graph g = {.input = shape[0], .n_node = 4, .node = node};
    for (int i = 0; i < 3; i++)
        node[i].info.y = shape[i];
    assert_ok(dt_layer_concat.infer(NULL, shape, 3, &node[3].info, &err), &err);
    assert_int_equal(node[3].info.y.c, 6);
    d.call = (dt_call){.node = &node[3], .graph = &g, .n = 1, .needs_dx = true};
    d.a.n = 1;
    d.a.port[DT_X] = a, d.a.port[DT_X + 1] = b, d.a.port[DT_X + 2] = c;
    d.a.port[DT_Y] = y;
    y[12] = da[4] = db[6] = dc[2] = -1;
    run_direct(&d, DT_FORWARD);
    assert_memory_equal(y, want, sizeof want);
    memcpy(dy, want, sizeof dy);
    d.a.port[DT_DY] = dy;
    d.a.port[DT_DX] = da, d.a.port[DT_DX + 1] = db, d.a.port[DT_DX + 2] = dc;
    run_direct(&d, DT_BACKWARD);
    assert_memory_equal(da, a, sizeof a);
    assert_memory_equal(db, b, sizeof b);
    assert_memory_equal(dc, c, sizeof c);
    assert_true(y[12] == -1 && da[4] == -1 && db[6] == -1 && dc[2] == -1);
}

static void concat_leaves_out_the_gradient_nobody_wants(void **state)
{
    (void)state;
    float dy[] = {1, 2, 3, 4}, dx[2] = {0, 0};
    direct d;
    open_direct(&d, &dt_layer_concat, NULL, (dt_shape){1, 1, 2, 1}, 2, 1);
    d.a.port[DT_DY] = dy;
    d.a.port[DT_DX + 1] = dx;
    run_direct(&d, DT_BACKWARD);
    assert_true(dx[0] == 2 && dx[1] == 4);
    dt_graph_destroy(d.g);
}

static void concat_names_the_shapes_that_differ(void **state)
{
    (void)state;
    const dt_shape x[] = {{1, 8, 8, 16}, {1, 8, 8, 3}, {1, 8, 4, 16}};
    dt_layer_info info;
    dt_err err = {0};
    assert_ok(dt_layer_concat.infer(NULL, x, 2, &info, &err), &err);
    assert_fails(dt_layer_concat.infer(NULL, x, 3, &info, &err), DT_E_CONFIG, &err,
        "input 1 is 8x8x16 and input 3 is 8x4x16");
}

static void upsample_repeats_pixels_and_sums_their_gradients(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4}, y[16], dx[4]; /* 1 x 2 pixels of 2 channels */
    const float want[] = {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4};
    float dy[] = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 7, 70, 8, 80};
    const dt_upsample o = {.factor = 2};
    direct d;
    open_direct(&d, &dt_layer_upsample, &o, (dt_shape){1, 1, 2, 2}, 1, 1);
    d.a.port[DT_X] = x, d.a.port[DT_Y] = y, d.a.port[DT_DY] = dy, d.a.port[DT_DX] = dx;
    run_direct(&d, DT_FORWARD);
    assert_memory_equal(y, want, sizeof want);
    run_direct(&d, DT_BACKWARD);
    assert_true(dx[0] == 1 + 2 + 5 + 6 && dx[1] == 140 && dx[2] == 3 + 4 + 7 + 8 && dx[3] == 220);
    dt_graph_destroy(d.g);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const dt_shape x = {1, 8, 8, 4}, tall = {1, INT64_MAX / 4, 1, 1};
    dt_layer_info info;
    dt_err err = {0};
    const dt_upsample none = {0}, many = {65}, eight = {8};
    const dti_adaptive_avgpool empty = {0}, vast = {1025}, two = {2};
    const dti_zero_pad wide = {.pad = dt_sides(1, 4097)}, below = {.pad = 1, .more = -1},
                       one = {1, 0};
    assert_fails(
        dt_layer_zero_pad.infer(&wide, &x, 1, &info, &err), DT_E_CONFIG, &err, "pad 1x4097");
    assert_fails(dt_layer_zero_pad.infer(&below, &x, 1, &info, &err), DT_E_CONFIG, &err, "0 to");
    assert_fails(dt_layer_zero_pad.infer(&one, &tall, 1, &info, &err), DT_E_CONFIG, &err, "a side");
    assert_fails(
        dt_layer_upsample.infer(&none, &x, 1, &info, &err), DT_E_CONFIG, &err, "must be 1 to 64");
    assert_fails(dt_layer_upsample.infer(&many, &x, 1, &info, &err), DT_E_CONFIG, &err, "65");
    assert_fails(
        dt_layer_upsample.infer(&eight, &tall, 1, &info, &err), DT_E_CONFIG, &err, "too large");
    assert_fails(dt_layer_adaptive_avgpool.infer(&empty, &x, 1, &info, &err), DT_E_CONFIG, &err,
        "must be 1 to 1024");
    assert_fails(
        dt_layer_adaptive_avgpool.infer(&vast, &x, 1, &info, &err), DT_E_CONFIG, &err, "1025");
    assert_fails(
        dt_layer_adaptive_avgpool.infer(&two, &tall, 1, &info, &err), DT_E_CONFIG, &err, "a side");
    const dti_lrn bad[] = {{0, 1, 1, 1}, {64, 1, 1, 1}, {5, -1, 1, 1}, {5, 1, 0, 1}, {5, 1, 1, 0},
        {5, (double)NAN, 1, 1}};
    for (size_t i = 0; i < DT_COUNT(bad); i++)
        assert_fails(dt_layer_lrn.infer(&bad[i], &x, 1, &info, &err), DT_E_CONFIG, &err,
            i < 2 ? "1 to 63" : "alpha must be 0 to 1e6");
}

static void products_and_transposed_convolutions_name_what_cannot_be(void **state)
{
    (void)state;
    const dt_shape two[] = {{1, 4, 4, 6}, {1, 1, 1, 5}}, row[] = {{1, 4, 4, 6}, {1, 1, 4, 6}};
    static const struct {
        dt_conv_transpose o;
        const char *text;
    } cases[] = {
        {{.out = 0, .kernel = 3, .stride = 1, .groups = 1}, "out 0"},
        {{.out = 4, .kernel = 3, .stride = 0, .groups = 1}, "stride 0"},
        {{.out = 4, .kernel = 3, .stride = 1, .pad = -1, .groups = 1}, "at least 1 (pad 0)"},
        {{.out = 4, .kernel = 3, .stride = 2, .more = 2, .groups = 1}, "more 2 must be less"},
        {{.out = 4, .kernel = 3, .stride = 2, .more = -1, .groups = 1}, "must be less"},
        {{.out = 4, .kernel = 3, .stride = 1, .groups = 4}, "groups = 4 must divide the 6"},
        {{.out = 4, .kernel = 2, .stride = 1, .pad = 3, .groups = 1}, "cuts off all"},
    };
    dt_layer_info info;
    dt_err err = {0};
    assert_fails(dt_layer_mul.infer(NULL, two, 2, &info, &err), DT_E_CONFIG, &err,
        "one pixel of as many channels, but is 1x1x5");
    assert_fails(dt_layer_mul.infer(NULL, row, 2, &info, &err), DT_E_CONFIG, &err, "1x4x6");
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        assert_fails(dt_layer_conv_transpose.infer(&cases[i].o, two, 1, &info, &err), DT_E_CONFIG,
            &err, cases[i].text);
    const dt_shape vast = {1, INT64_MAX / 4, 1, 6};
    const dt_conv_transpose o = {.out = 4, .kernel = 3, .stride = 2, .groups = 1};
    assert_fails(
        dt_layer_conv_transpose.infer(&o, &vast, 1, &info, &err), DT_E_CONFIG, &err, "a side of");
}

/* Maxima go back to where they were, and their gradients come from there. */
static void unpooling_puts_maxima_back(void **state)
{
    (void)state;
    enum { N = 2, H = 4, W = 6, C = 3, ALL = N * H * W * C, SMALL = ALL / 4 };
    dt_maxpool pool = {.kernel = 2};
    dt_max_unpool unpool = {.kernel = 2};
    float *x = dt_random_values(ALL, 1), *dy = dt_random_values(ALL, 2);
    dt_layer_run index = {
        .desc = &dt_layer_maxpool_index, .opts = &pool, .n = N, .n_x = 1, .x = {{1, H, W, C}}};
    index.in[0] = x;
    dt_layer_run max = index;
    max.desc = &dt_layer_maxpool;
    dt_layer_check(&index);
    dt_layer_check(&max);
    dt_layer_run back = {.desc = &dt_layer_max_unpool,
        .opts = &unpool,
        .n = N,
        .n_x = 2,
        .x = {{1, H / 2, W / 2, C}, {1, H / 2, W / 2, C}},
        .dy = dy};
    back.in[0] = max.got_y;
    back.in[1] = index.got_y;
    dt_layer_check(&back);
    size_t kept = 0;
    double sum = 0, want = 0;
    for (int i = 0; i < ALL; i++) {
        assert_true(back.got_y[i] == x[i] || back.got_y[i] == 0);
        kept += back.got_y[i] != 0;
        want += back.got_y[i] != 0 ? (double)dy[i] : 0;
    }
    for (int i = 0; i < SMALL; i++) {
        sum += (double)back.got_dx[0][i];
        assert_true(back.got_dx[1][i] == 0);
    }
    assert_int_equal(kept, SMALL);
    assert_true(fabs(sum - want) < 1e-6);
    dt_layer_check_free(&back);
    /* What is no position goes nowhere, and is never an address. */
    static const float odd[] = {-1, 0.5f, 4, 1e30f, -1e30f, INFINITY, -INFINITY, NAN, 255};
    float *none = dt_random_values(SMALL, 3);
    for (int i = 0; i < SMALL; i++)
        none[i] = odd[i % (int)DT_COUNT(odd)];
    back.in[1] = none;
    dt_layer_check(&back);
    for (int i = 0; i < ALL; i++)
        assert_true(back.got_y[i] == 0);
    dt_layer_check_free(&back);
    dt_layer_check_free(&index);
    dt_layer_check_free(&max);
    free(none);
    free(x);
    free(dy);
}

static void unpooling_refuses_windows_that_overlap(void **state)
{
    (void)state;
    const dt_shape x[] = {{1, 4, 4, 6}, {1, 4, 4, 6}, {1, 4, 4, 5}};
    static const dt_max_unpool bad[] = {{.kernel = 3, .stride = 2}, {.kernel = 16},
        {.kernel = 2, .pad = 2}, {.kernel = 2, .more = 2}, {.kernel = 2, .pad = -1}};
    dt_layer_info info;
    dt_err err = {0};
    for (size_t i = 0; i < DT_COUNT(bad); i++)
        assert_fails(dt_layer_max_unpool.infer(&bad[i], x, 2, &info, &err), DT_E_CONFIG, &err,
            "stride at least kernel");
    assert_fails(dt_layer_max_unpool.infer(&bad[0], x + 1, 2, &info, &err), DT_E_CONFIG, &err,
        "must have one shape");
}

/* PyTorch: of 5, three windows are [0, 2), [1, 4), [3, 5); of 2, each pixel stands in for two. */
static void adaptive_windows_follow_pytorch(void **state)
{
    (void)state;
    const float x[] = {1, 2, 4, 8, 16}, dy[] = {6, 6, 6, 0, 0, 0, 0, 0, 0};
    const float want[] = {1.5f, 14.0f / 3, 12}, want_dx[] = {3, 5, 2, 5, 3};
    dti_adaptive_avgpool o = {.out = 3};
    dt_layer_run r = {.desc = &dt_layer_adaptive_avgpool,
        .opts = &o,
        .n = 1,
        .n_x = 1,
        .x = {{1, 1, 5, 1}},
        .dy = dy};
    r.in[0] = x;
    dt_layer_check(&r);
    for (int i = 0; i < 9; i++) /* the only row serves all three */
        assert_true(fabsf(r.got_y[i] - want[i % 3]) < 1e-6f);
    assert_true(dt_relative_error(r.got_dx[0], want_dx, 5) < 1e-6);
    dt_layer_check_free(&r);
    o.out = 4;
    r.x[0] = (dt_shape){1, 2, 2, 1};
    r.dy = NULL;
    dt_layer_check(&r);
    for (int i = 0; i < 16; i++)
        assert_true(r.got_y[i] == x[i / 8 * 2 + i % 4 / 2]);
    dt_layer_check_free(&r);
}

/* An even window reaches one channel further back than forth. */
static void lrn_windows_follow_pytorch(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4};
    const float want[] = {1 / (1 + 1.0f), 2 / (1 + 5.0f), 3 / (1 + 13.0f), 4 / (1 + 25.0f)};
    const dti_lrn o = {.size = 2, .alpha = 2, .beta = 1, .k = 1};
    dt_layer_run r = {.desc = &dt_layer_lrn, .opts = &o, .n = 1, .n_x = 1, .x = {{1, 1, 1, 4}}};
    r.in[0] = x;
    dt_layer_check(&r);
    assert_true(dt_relative_error(r.got_y, want, 4) < 1e-6);
    dt_layer_check_free(&r);
}

/* y and dx by the definition, in double precision. */
static void plain_lrn(
    const dti_lrn *o, int channels, const float *x, const float *dy, float *y, float *dx)
{
    double scale[200], part[200];
    assert_true(channels <= 200);
    const int before = (int)o->size / 2, behind = (int)(o->size - 1) / 2;
    for (int c = 0; c < channels; c++) {
        double sum = 0;
        for (int k = c - before; k <= c + behind; k++)
            sum += k >= 0 && k < channels ? (double)x[k] * (double)x[k] : 0;
        scale[c] = o->k + o->alpha / (double)o->size * sum;
        y[c] = (float)((double)x[c] * pow(scale[c], -o->beta));
        part[c] = (double)dy[c] * (double)x[c] * pow(scale[c], -o->beta - 1);
    }
    for (int c = 0; c < channels; c++) {
        double sum = 0;
        for (int k = c - behind; k <= c + before; k++)
            sum += k >= 0 && k < channels ? part[k] : 0;
        dx[c] = (float)((double)dy[c] * pow(scale[c], -o->beta) -
                        2 * o->alpha * o->beta / (double)o->size * (double)x[c] * sum);
    }
}

/* More channels than the kernel works on at a time, and windows as wide as they may be. */
static void lrn_agrees_with_its_definition_over_many_channels(void **state)
{
    (void)state;
    enum { C = 200 };
    static const dti_lrn options[] = {
        {1, 2, 0.75, 1}, {4, 2, 0.6, 2}, {5, 3, 0.75, 1}, {62, 30, 1.5, 0.5}, {63, 30, 0.75, 1}};
    float *x = dt_random_values(C, 1), *dy = dt_random_values(C, 2), y[C], dx[C];
    for (size_t i = 0; i < DT_COUNT(options); i++) {
        dt_layer_run r = {.desc = &dt_layer_lrn,
            .opts = &options[i],
            .n = 1,
            .n_x = 1,
            .x = {{1, 1, 1, C}},
            .dy = dy};
        r.in[0] = x;
        plain_lrn(&options[i], C, x, dy, y, dx);
        dt_layer_check(&r);
        assert_true(dt_relative_error(r.got_y, y, C) < 1e-6);
        assert_true(dt_relative_error(r.got_dx[0], dx, C) < 1e-6);
        dt_layer_check_free(&r);
    }
    free(x);
    free(dy);
}

static void options_have_the_defaults_of_pytorch(void **state)
{
    (void)state;
    dti_lrn l;
    dt_gelu g;
    dt_upsample u;
    dt_opt_defaults(dt_layer_lrn.opts, &l);
    dt_opt_defaults(dt_layer_gelu.opts, &g);
    dt_opt_defaults(dt_layer_upsample.opts, &u);
    assert_true(l.size == 5 && l.alpha == 1e-4 && l.beta == 0.75 && l.k == 1);
    assert_true(g.approximate == DT_GELU_EXACT && u.factor == 2);
}

static void zeros_stand_around_a_map_whose_gradients_go_nowhere(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4}, y[16], dx[4]; /* 1 x 2 pixels of 2 channels in 2 x 4 */
    const float want[16] = {0, 0, 1, 2, 3, 4};
    float dy[16] = {9, 9, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    const dti_zero_pad o = {.pad = dt_sides(0, 1), .more = dt_sides(1, 0)};
    direct d;
    open_direct(&d, &dt_layer_zero_pad, &o, (dt_shape){1, 1, 2, 2}, 1, 1);
    d.a.port[DT_X] = x, d.a.port[DT_Y] = y, d.a.port[DT_DY] = dy, d.a.port[DT_DX] = dx;
    memset(y, 0xFF, sizeof y);
    run_direct(&d, DT_FORWARD);
    assert_memory_equal(y, want, sizeof want);
    run_direct(&d, DT_BACKWARD);
    assert_memory_equal(dx, dy + 2, sizeof dx);
    dt_graph_destroy(d.g);
}

/* Policies decide by these. */
static void backward_reads_what_the_descriptor_says_and_no_more(void **state)
{
    (void)state;
    static const struct {
        const char *layer;
        dt_ports reads;
    } facts[] = {
        {"sigmoid", DT_BIT(DT_Y)},
        {"tanh", DT_BIT(DT_Y)},
        {"gelu", DT_BIT(DT_X)},
        {"silu", DT_BIT(DT_X)},
        {"leaky_relu", DT_BIT(DT_Y)},
        {"relu6", DT_BIT(DT_Y)},
        {"hardsigmoid", DT_BIT(DT_Y)},
        {"hardswish", DT_BIT(DT_X)},
        {"lrn", DT_BIT(DT_X)},
        {"concat", 0},
        {"mean", 0},
        {"permute", 0},
        {"mul", DT_BIT(DT_X)},
        {"upsample", 0},
        {"zero_pad", 0},
        {"adaptive_avgpool", 0},
    };
    for (size_t i = 0; i < DT_COUNT(facts); i++) {
        const dt_layer_desc *d = find(facts[i].layer);
        assert_int_equal(d->n_alt, facts[i].reads != 0);
        assert_true(d->alt[0].reads == facts[i].reads);
        assert_int_equal(d->form[DT_BACKWARD].saved, facts[i].reads != 0);
        assert_true(d->repeatable && !d->reads_sign && !d->keeps_sign && !d->shares_dy);
        assert_true(d->form[DT_FORWARD].split && d->form[DT_BACKWARD].split);
    }
}

DT_TEST_GROUP(wide_layers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(pieces_of_the_batch_give_the_same_bits),
        cmocka_unit_test(in_place_gives_the_same_bits),
        cmocka_unit_test(bf16_is_close_to_fp32),
        cmocka_unit_test(activations_reach_their_limits),
        cmocka_unit_test(gelu_is_right_to_single_precision_in_its_tail),
        cmocka_unit_test(concat_puts_channel_after_channel),
        cmocka_unit_test(concat_leaves_out_the_gradient_nobody_wants),
        cmocka_unit_test(concat_names_the_shapes_that_differ),
        cmocka_unit_test(upsample_repeats_pixels_and_sums_their_gradients),
        cmocka_unit_test(zeros_stand_around_a_map_whose_gradients_go_nowhere),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(products_and_transposed_convolutions_name_what_cannot_be),
        cmocka_unit_test(unpooling_puts_maxima_back),
        cmocka_unit_test(unpooling_refuses_windows_that_overlap),
        cmocka_unit_test(adaptive_windows_follow_pytorch),
        cmocka_unit_test(lrn_windows_follow_pytorch),
        cmocka_unit_test(lrn_agrees_with_its_definition_over_many_channels),
        cmocka_unit_test(options_have_the_defaults_of_pytorch),
        cmocka_unit_test(backward_reads_what_the_descriptor_says_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
