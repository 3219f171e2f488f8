/* Every layer's gradients against central differences of its own forward.
 *
 * The number differentiated is sum(dy * y), added up in double precision, of a forward in single
 * precision. A step of h leaves an error of about 1e-7 |L| / h from rounding and h^2 from
 * curvature, so linear layers take a large step and a tight tolerance, curved ones a middle of
 * both. Layers with kinks get inputs whose values lie apart by more than two steps and as far from
 * zero, so no difference ever crosses one; a normalisation with a kink behind it gets biases that
 * put the kink of each channel where no value is near. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"
#include "layers/registry.h"
#include "layers/loss/softmax_tile.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

/* PIXEL: linear, and the second input is one pixel. PLACES: linear, and the second input is whole
 * numbers without a gradient. SCORES: curved, and the state of a softmax in tiles, whose gradient
 * tells the slopes of three things. */
typedef enum bend { LINEAR, CURVED, KINKED, CREASED, TOKENS, PIXEL, PLACES, SCORES } bend;

static const struct rule {
    float step;
    double tolerance; /* of ||numeric - analytic|| / ||analytic|| */
} rules[] = {[LINEAR] = {0.5f, 2e-5},
    [CURVED] = {0.01f, 1e-3},
    [KINKED] = {0.01f, 2e-4},
    [CREASED] = {0.01f, 1e-3},
    [TOKENS] = {0.5f, 2e-5},
    [PIXEL] = {0.5f, 2e-5},
    [PLACES] = {0.5f, 2e-5},
    [SCORES] = {0.01f, 1e-3}};

static const struct gradient_case {
    const char *name, *layer, *opts;
    bend kind;
    int n_x;
    int64_t n;
    dt_shape x;
} cases[] = {
    {"adaptive_avgpool", "adaptive_avgpool", "out=3", LINEAR, 1, 2, {1, 5, 7, 3}},
    {"adaptive_avgpool larger", "adaptive_avgpool", "out=4", LINEAR, 1, 2, {1, 3, 2, 3}},
    {"add", "add", "", LINEAR, 3, 2, {1, 3, 4, 5}},
    {"add_relu", "add_relu", "", KINKED, 3, 2, {1, 3, 4, 5}},
    {"avgpool", "avgpool", "kernel=2", LINEAR, 1, 2, {1, 5, 6, 3}},
    {"avgpool overlapping", "avgpool", "kernel=3 stride=2 pad=1", LINEAR, 1, 2, {1, 5, 6, 3}},
    {"avgpool ceil", "avgpool", "kernel=3 stride=2 pad=1 ceil=on include_pad=on", LINEAR, 1, 2,
        {1, 6, 5, 3}},
    {"avgpool beyond", "avgpool", "kernel=3 stride=2 ceil=on", LINEAR, 1, 2, {1, 2, 5, 3}},
    {"avgpool wide", "avgpool", "kernel=1x3 stride=2x1 pad=0x1 include_pad=off", LINEAR, 1, 2,
        {1, 5, 6, 3}},
    {"batchnorm", "batchnorm", "", CURVED, 1, 3, {1, 3, 4, 5}},
    {"batchnorm_relu", "batchnorm_relu", "", CREASED, 1, 3, {1, 3, 4, 5}},
    {"bce", "bce", "", CURVED, 1, 2, {1, 3, 4, 5}},
    {"concat", "concat", "", LINEAR, 3, 2, {1, 3, 4, 5}},
    {"conv smallest", "conv", "out=1 kernel=1", LINEAR, 1, 1, {1, 1, 1, 1}},
    {"conv odd", "conv", "out=4 kernel=3 stride=2 pad=1", LINEAR, 1, 2, {1, 7, 5, 3}},
    {"conv 1x1", "conv", "out=5 kernel=1 bias=off", LINEAR, 1, 2, {1, 4, 3, 6}},
    {"conv 1x1 strided, 3", "conv", "out=16 kernel=1 stride=2 bias=off", LINEAR, 1, 2,
        {1, 12, 12, 3}},
    {"conv 1x1 strided, 5", "conv", "out=16 kernel=1 stride=2", LINEAR, 1, 8, {1, 16, 16, 5}},
    {"conv 1x1 strided, 7", "conv", "out=9 kernel=1 stride=1x3", LINEAR, 1, 2, {1, 5, 32, 7}},
    {"conv 1x1 strided, 12", "conv", "out=16 kernel=1 stride=2", LINEAR, 1, 3, {1, 9, 12, 12}},
    {"conv groups", "conv", "out=6 kernel=3 groups=3 pad=1", LINEAR, 1, 1, {1, 4, 5, 6}},
    {"conv depthwise", "conv", "out=4 kernel=3 groups=4 pad=1", LINEAR, 1, 2, {1, 4, 5, 4}},
    {"conv dilated", "conv", "out=2 kernel=3 dilation=2 pad=2", LINEAR, 1, 1, {1, 6, 5, 3}},
    {"conv wide", "conv", "out=4 kernel=1x5 stride=2x1 pad=0x2", LINEAR, 1, 2, {1, 5, 6, 3}},
    {"conv high", "conv", "out=4 kernel=3x1 stride=1x2 pad=1x0 groups=2", LINEAR, 1, 2,
        {1, 5, 6, 4}},
    {"conv_transpose", "conv_transpose", "out=4 kernel=3 stride=2 pad=1", LINEAR, 1, 2,
        {1, 3, 4, 3}},
    {"conv_transpose 1x1", "conv_transpose", "out=3 kernel=1 stride=2", LINEAR, 1, 4,
        {1, 8, 8, 16}},
    {"conv_transpose uneven", "conv_transpose",
        "out=6 kernel=2x4 stride=3x2 pad=0x1 more=2x0 groups=2", LINEAR, 1, 1, {1, 3, 2, 4}},
    {"cross_entropy", "cross_entropy", "", CURVED, 1, 4, {1, 1, 1, 7}},
    {"dropout", "dropout", "rate=0.4", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"fc", "fc", "out=6", LINEAR, 1, 3, {1, 1, 1, 11}},
    {"fc of an image", "fc", "out=5", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"gelu", "gelu", "", CURVED, 1, 2, {1, 3, 4, 5}},
    {"gelu tanh", "gelu", "approximate=tanh", CURVED, 1, 2, {1, 3, 4, 5}},
    {"global_avgpool", "global_avgpool", "", LINEAR, 1, 3, {1, 5, 4, 3}},
    {"groupnorm", "groupnorm", "groups=2", CURVED, 1, 2, {1, 3, 4, 6}},
    {"groupnorm of single channels", "groupnorm", "groups=5", CURVED, 1, 2, {1, 3, 4, 5}},
    {"hardsigmoid", "hardsigmoid", "", KINKED, 1, 2, {1, 3, 4, 7}},
    {"hardswish", "hardswish", "", KINKED, 1, 2, {1, 3, 4, 7}},
    {"l1", "l1", "", KINKED, 1, 2, {1, 3, 4, 5}},
    {"leaky_relu", "leaky_relu", "slope=0.2", KINKED, 1, 2, {1, 3, 4, 5}},
    {"lrn", "lrn", "alpha=0.5", CURVED, 1, 2, {1, 2, 3, 11}},
    {"lrn even window", "lrn", "size=4 alpha=2 beta=0.6 k=0.5", CURVED, 1, 2, {1, 2, 3, 7}},
    {"max_unpool", "max_unpool", "kernel=2", PLACES, 2, 2, {1, 3, 4, 5}},
    {"max_unpool uneven", "max_unpool", "kernel=2x3 stride=3 pad=1 more=1x2", PLACES, 2, 1,
        {1, 3, 2, 5}},
    {"maxpool", "maxpool", "kernel=2", KINKED, 1, 2, {1, 5, 6, 3}},
    {"maxpool overlapping", "maxpool", "kernel=3 stride=2 pad=1", KINKED, 1, 2, {1, 5, 6, 3}},
    {"maxpool ceil", "maxpool", "kernel=3 stride=2 ceil=on", KINKED, 1, 2, {1, 6, 5, 3}},
    {"maxpool wide", "maxpool", "kernel=1x3 stride=2x1 pad=0x1", KINKED, 1, 2, {1, 5, 6, 3}},
    {"maxpool beyond", "maxpool", "kernel=3 stride=2 ceil=on", KINKED, 1, 2, {1, 5, 2, 3}},
    {"maxpool high", "maxpool", "kernel=5x4 stride=2x3 pad=2x1", KINKED, 1, 2, {1, 7, 6, 3}},
    {"mean", "mean", "", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"mean over the height", "mean", "over=height", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"mean over the width", "mean", "over=width", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"mean over the channels", "mean", "over=channels", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"mse", "mse", "", CURVED, 1, 2, {1, 3, 4, 5}},
    {"mul", "mul", "", LINEAR, 2, 2, {1, 3, 4, 5}},
    {"mul by a pixel", "mul", "", PIXEL, 2, 2, {1, 3, 4, 5}},
    {"permute hcw", "permute", "order=hcw", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"permute whc", "permute", "order=whc", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"permute wch", "permute", "order=wch", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"permute chw", "permute", "order=chw", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"permute cwh", "permute", "order=cwh", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"relu", "relu", "", KINKED, 1, 2, {1, 3, 4, 5}},
    {"relu6", "relu6", "", KINKED, 1, 2, {1, 5, 4, 7}},
    {"shortcut", "shortcut", "out=7 stride=2", LINEAR, 1, 2, {1, 5, 4, 3}},
    {"sigmoid", "sigmoid", "", CURVED, 1, 2, {1, 3, 4, 5}},
    {"smooth_l1", "smooth_l1", "beta=0.5", KINKED, 1, 2, {1, 3, 4, 5}},
    {"softmax_tile", "softmax_tile", "", SCORES, 1, 3, {1, 1, 1, 7}},
    {"softmax_tile behind another", "softmax_tile", "first=2", SCORES, 2, 3, {1, 1, 1, 7}},
    {"tiled_cross_entropy", "tiled_cross_entropy", "", SCORES, 1, 3, {1, 1, 1, 16}},
    {"silu", "silu", "", CURVED, 1, 2, {1, 3, 4, 5}},
    {"tanh", "tanh", "", CURVED, 1, 2, {1, 3, 4, 5}},
    {"additive attention", "additive_attention", "hidden=3", CURVED, 2, 2, {1, 4, 1, 5}},
    {"additive attention causal", "additive_attention", "hidden=4 causal=on", CURVED, 2, 2,
        {1, 5, 1, 2}},
    {"additive attention naive", "additive_attention", "hidden=17 causal=on kind=naive", CURVED, 2,
        1, {1, 3, 2, 3}},
    {"attention", "attention", "heads=2", CURVED, 1, 2, {1, 5, 1, 12}},
    {"attention causal", "attention", "heads=3 causal=on", CURVED, 1, 2, {1, 6, 1, 18}},
    {"attention over an image", "attention", "heads=2", CURVED, 1, 1, {1, 2, 3, 12}},
    {"attention naive", "attention", "heads=1 causal=on kind=naive", CURVED, 1, 1, {1, 7, 1, 9}},
    {"cross_entropy of a sequence", "cross_entropy", "", CURVED, 1, 2, {1, 4, 1, 7}},
    {"embedding", "embedding", "vocab=6 out=5", TOKENS, 1, 2, {1, 7, 1, 1}},
    {"layernorm", "layernorm", "", CURVED, 1, 2, {1, 5, 1, 9}},
    {"linear", "linear", "out=6", LINEAR, 1, 2, {1, 5, 1, 7}},
    {"linear in_out", "linear", "out=6 in_out=on", LINEAR, 1, 2, {1, 5, 1, 7}},
    {"lstm", "lstm", "out=3", CURVED, 1, 2, {1, 5, 1, 4}},
    {"lstm of cells", "lstm", "out=3 keep=cells", CURVED, 1, 2, {1, 5, 1, 4}},
    {"lstm bare", "lstm", "out=5 bias=off", CURVED, 1, 3, {1, 2, 1, 2}},
    {"lstm over an image", "lstm", "out=2", CURVED, 1, 1, {1, 2, 3, 3}},
    {"position", "position", "", LINEAR, 1, 3, {1, 4, 1, 5}},
    {"rmsnorm", "rmsnorm", "", CURVED, 1, 2, {1, 5, 1, 9}},
    {"upsample", "upsample", "factor=3", LINEAR, 1, 2, {1, 3, 4, 5}},
    {"zero_pad", "zero_pad", "pad=1x2 more=3x0", LINEAR, 1, 2, {1, 3, 4, 5}},
};

/* Multiples of 0.05 around zero, without zero, in random order. */
static float *spread_values(size_t n, uint32_t key)
{
    float *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) {
        const size_t j = dt_random(7, DT_RANDOM_TEST, key, 1, i).v[0] % (i + 1);
        v[i] = v[j];
        v[j] = 0.05f * ((float)i - (float)(n / 2) + 0.5f);
    }
    return v;
}

/* Whole numbers below 6, some of them several times. */
static float *tokens(size_t n)
{
    float *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(i * 5 % 13 % 6);
    return v;
}

static bool is_state(const dt_layer_desc *d, int port)
{
    return (d->fp32 & DT_BIT(port)) != 0;
}

/* Whether the gradient of a state tells the slope of this channel. */
static bool told(size_t channel)
{
    return channel == DTI_TILE_MOST || channel == DTI_TILE_OWN || channel == DTI_TILE_TOTAL;
}

/* One that scores may have, of each sample. */
static float *states(size_t n, uint32_t key)
{
    float *v = dt_random_values(n, key);
    for (size_t i = 0; i < n; i += DTI_TILE_STATE) {
        v[i + DTI_TILE_SUM] += 1.5f;
        v[i + DTI_TILE_SUM + 1] = v[i + DTI_TILE_TOTAL + 1] = 0;
    }
    return v;
}

/* What is differentiated of it: the logarithm of all exponentials, the label's score, and the sum
 * of the scores, which the three numbers of dy are slopes of. */
static double value_of_state(const float *y, const float *dy)
{
    const double sum = (double)y[DTI_TILE_SUM] + (double)y[DTI_TILE_SUM + 1];
    const double total = (double)y[DTI_TILE_TOTAL] + (double)y[DTI_TILE_TOTAL + 1];
    return (double)dy[DTI_TILE_MOST] * ((double)y[DTI_TILE_MOST] + log(sum)) +
           (double)dy[DTI_TILE_OWN] * (double)y[DTI_TILE_OWN] + (double)dy[DTI_TILE_TOTAL] * total;
}

/* A case with its values; the run borrows them and the differences change them. */
typedef struct prepared {
    const struct gradient_case *c;
    dt_layer_run r;
    float *in[DT_MAX_IN], *param[DT_MAX_PARAM], *dy;
    int32_t labels[128];
    size_t y_count;
} prepared;

static int by_value(const void *a, const void *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Of n values, the middle of the widest gap between two of the middle half. */
static float widest_gap(float *v, size_t n)
{
    size_t best = n / 4;
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = n / 4; i < n * 3 / 4; i++)
        best = v[i + 1] - v[i] > v[best + 1] - v[best] ? i : best;
    return (v[best] + v[best + 1]) / 2;
}

/* Biases (parameter 1) that put zero into a gap between the values of each channel. */
static void part_from_zero(prepared *p)
{
    const dt_shape x = p->c->x;
    const size_t pixels = (size_t)(x.h * x.w), n = (size_t)p->c->n, channels = (size_t)x.c;
    float v[64];
    assert_true(n * pixels <= DT_COUNT(v));
    memset(p->param[1], 0, channels * sizeof(float));
    dt_layer_run r = p->r;
    r.desc = dt_layer_find("batchnorm");
    r.forward_only = true;
    dt_layer_check(&r);
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < n * pixels; i++)
            v[i] = r.got_y[(i / pixels * channels + c) * pixels + i % pixels];
        p->param[1][c] = -widest_gap(v, n * pixels);
    }
    dt_layer_check_free(&r);
}

/* Tenths from 0 to 1. Where there are kinks, inputs are odd multiples of 0.025, which differ from
 * them by neither 0 nor 0.5. */
static int32_t value_label(size_t i)
{
    return dt_label_of_value(0.1f * (float)(i * 3 % 11));
}

static void prepare(prepared *p, const struct gradient_case *c)
{
    dt_layer_info info = {0};
    dt_err err = {0};
    *p = (prepared){.c = c, .r = {.desc = dt_layer_find(c->layer), .n = c->n, .n_x = c->n_x}};
    assert_non_null(p->r.desc);
    p->r.opts = dt_layer_options(p->r.desc, c->opts);
    for (int i = 0; i < c->n_x; i++) {
        const uint32_t key = 10 + (uint32_t)i;
        p->r.x[i] = i > 0 && c->kind == PIXEL       ? (dt_shape){1, 1, 1, c->x.c}
                    : is_state(p->r.desc, DT_X + i) ? (dt_shape){1, 1, 1, DTI_TILE_STATE}
                                                    : c->x;
        const size_t count = (size_t)(c->n * dt_shape_sample(&p->r.x[i]));
        const bool whole = c->kind == TOKENS || (c->kind == PLACES && i > 0);
        p->in[i] = c->kind == KINKED               ? spread_values(count, key)
                   : whole                         ? tokens(count)
                   : is_state(p->r.desc, DT_X + i) ? states(count, key)
                                                   : dt_random_values(count, key);
        p->r.in[i] = p->in[i];
    }
    assert_ok(p->r.desc->infer(p->r.opts, p->r.x, c->n_x, &info, &err), &err);
    for (int i = 0; i < info.n_param; i++) {
        p->param[i] = dt_random_values((size_t)dt_param_count(&info.param[i]), 20 + (uint32_t)i);
        p->r.param[i] = p->param[i];
    }
    p->y_count = (size_t)(c->n * dt_shape_sample(&info.y));
    p->dy = dt_random_values(p->y_count, 30);
    p->r.dy = p->dy;
    for (size_t i = 0; i < DT_COUNT(p->labels); i++)
        p->labels[i] = p->r.desc->labels == DT_LABEL_CLASS ? (int32_t)(i * 3 % (size_t)c->x.c)
                       : i % 7 == 3                        ? (int32_t)DT_LABEL_NONE
                                                           : value_label(i);
    p->r.labels = p->labels;
    if (c->kind == CREASED)
        part_from_zero(p);
}

static void drop(prepared *p)
{
    void *opts;
    memcpy(&opts, &p->r.opts, sizeof opts);
    dt_free(opts);
    for (int i = 0; i < DT_MAX_IN; i++)
        free(p->in[i]);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        free(p->param[i]);
    free(p->dy);
}

static double value(prepared *p)
{
    double sum = 0;
    p->r.forward_only = true;
    dt_layer_check(&p->r);
    if (p->r.desc->loss)
        sum = p->r.metrics.loss_sum / (double)p->r.metrics.count;
    else if (is_state(p->r.desc, DT_Y))
        for (size_t i = 0; i < p->y_count; i += DTI_TILE_STATE)
            sum += value_of_state(p->r.got_y + i, p->dy + i);
    else
        for (size_t i = 0; i < p->y_count; i++)
            sum += (double)p->dy[i] * (double)p->r.got_y[i];
    dt_layer_check_free(&p->r);
    return sum;
}

/* How far apart the elements of a tensor lie that are looked at: all of a small one. Odd, so that
 * they are of all channels. */
static size_t apart(size_t n)
{
    return n > 600 ? n / 300 | 1 : 1;
}

/* Differences along elements of v, those apart(n) from each other; the others of the result are 0.
 */
static float *numeric(prepared *p, float *v, size_t n)
{
    const float step = rules[p->c->kind].step;
    float *g = calloc(n, sizeof *g);
    assert_non_null(g);
    for (size_t i = 0; i < n; i += apart(n)) {
        const float at = v[i], above = at + step, below = at - step;
        v[i] = above;
        const double high = value(p);
        v[i] = below;
        const double low = value(p);
        v[i] = at;
        g[i] = (float)((high - low) / ((double)above - (double)below));
    }
    return g;
}

static void compare(
    const prepared *p, const char *tensor, int i, const float *all, const float *want, size_t n)
{
    float *got = calloc(n, sizeof *got);
    assert_non_null(got);
    for (size_t k = 0; k < n; k += apart(n))
        got[k] = all[k];
    const double off = dt_relative_error(got, want, n), most = rules[p->c->kind].tolerance;
    double size = 0;
    for (size_t k = 0; k < n; k++)
        size += fabs((double)want[k]);
    free(got);
    if (!(off < most) || !(size > 0))
        fail_msg("%s, alternative %d, %s%d: off by %g, allowed %g; sum of sizes %g", p->c->name,
            p->r.alt, tensor, i, off, most, size);
}

/* Analytic gradients of each alternative against the same differences. */
static void compare_alternatives(
    prepared *p, float *const dx[DT_MAX_IN], float *const dparam[DT_MAX_PARAM])
{
    const int n_alt = p->r.desc->n_alt > 0 ? p->r.desc->n_alt : 1;
    p->r.forward_only = false;
    for (p->r.alt = 0; p->r.alt < n_alt; p->r.alt++) {
        dt_layer_check(&p->r);
        for (int i = 0; i < p->r.n_x; i++)
            if (dx[i] != NULL)
                compare(p, "x", i, p->r.got_dx[i], dx[i],
                    (size_t)(p->r.n * dt_shape_sample(&p->r.x[i])));
        for (int i = 0; i < p->r.info.n_param; i++)
            if (dparam[i] != NULL)
                compare(p, "parameter ", i, p->r.got_dparam[i], dparam[i],
                    (size_t)dt_param_count(&p->r.info.param[i]));
        dt_layer_check_free(&p->r);
    }
}

static void agrees_with_differences(void **state)
{
    prepared p;
    float *dx[DT_MAX_IN] = {0}, *dparam[DT_MAX_PARAM] = {0};
    prepare(&p, *state);
    value(&p); /* fills in what the layer says of its parameters */
    const int smooth = p.c->kind == TOKENS ? 0 : p.c->kind == PLACES ? 1 : p.r.n_x;
    for (int i = 0; i < smooth; i++) {
        const size_t n = (size_t)(p.r.n * dt_shape_sample(&p.r.x[i]));
        dx[i] = numeric(&p, p.in[i], n);
        for (size_t k = 0; k < n && is_state(p.r.desc, DT_X + i); k++)
            dx[i][k] = told(k % DTI_TILE_STATE) ? dx[i][k] : 0;
    }
    for (int i = 0; i < p.r.info.n_param; i++)
        if (!p.r.info.param[i].buffer)
            dparam[i] = numeric(&p, p.param[i], (size_t)dt_param_count(&p.r.info.param[i]));
    compare_alternatives(&p, dx, dparam);
    for (int i = 0; i < DT_MAX_IN; i++)
        free(dx[i]);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        free(dparam[i]);
    drop(&p);
}

static void every_layer_with_an_op_is_here(void **state)
{
    (void)state;
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    for (size_t i = 0; i < n; i++) {
        bool found =
            all[i]->identity || (all[i]->form[DT_BACKWARD].suffix == NULL && !all[i]->shares_dy);
        for (size_t k = 0; k < DT_COUNT(cases); k++)
            found = found || strcmp(cases[k].layer, all[i]->name) == 0;
        if (!found)
            fail_msg("layer %s has no case here", all[i]->name);
    }
}

DT_TEST_GROUP(gradients)
{
    struct CMUnitTest tests[DT_COUNT(cases) + 1] = {
        cmocka_unit_test(every_layer_with_an_op_is_here)};
    static struct gradient_case copies[DT_COUNT(cases)];
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        copies[i] = cases[i];
        tests[i + 1] =
            (struct CMUnitTest){cases[i].name, agrees_with_differences, NULL, NULL, &copies[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
