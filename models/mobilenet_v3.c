/* MobileNet v3 (Howard et al. 2019, tables 1 and 2) in torchvision's form: v2's inverted blocks
 * with hardswish, and in some a factor for each channel, made from the means of all (squeeze and
 * excitation, Hu et al. 2018). */
#include "models/model.h"
#include "models/net.h"

#include <stdio.h>

#include "layers/elementwise/activations.h"
#include "layers/norm/batchnorm.h"
#include "layers/weighted/conv.h"
#include "layers/elementwise/mul.h"
#include "layers/plain.h"

/* @inner: channels of the convolution of each channel by itself; @squeeze: with factors; @swish:
 * hardswish, or ReLU */
typedef struct block {
    int64_t kernel, inner, out;
    bool squeeze, swish;
    int64_t stride;
} block;

typedef struct recipe {
    const block *block;
    int n;
    int64_t hidden; /* outputs of the first layer of the classifier */
} recipe;

/* torchvision's Conv2dNormActivation called @name. @act: NULL: none */
static int32_t conv_act(
    dti_net *n, int32_t x, dt_conv c, const dt_layer_desc *act, const char *name)
{
    const dt_batchnorm norm = {.eps = 1e-3, .momentum = 0.01};
    c.pad = c.kernel / 2;
    c.dilation = 1;
    c.groups = c.groups > 0 ? c.groups : 1;
    x = dti_layer(n, &dt_layer_conv, &c, &x, 1, "%s.0", name);
    x = dti_layer(n, &dt_layer_batchnorm, &norm, &x, 1, "%s.1", name);
    return act != NULL ? dti_layer(n, act, NULL, &x, 1, "%s.2", name) : x;
}

/* The nearest multiple of eight, where that takes away no more than a tenth. */
static int64_t eights(int64_t c)
{
    const int64_t near = c < 12 ? 8 : (c + 4) / 8 * 8;
    return 10 * near < 9 * c ? near + 8 : near;
}

static int32_t squeeze(dti_net *n, int32_t x, const char *name)
{
    const dti_conv less = {
        .out = eights(dti_channels(n, x) / 4), .kernel = 1, .stride = 1, .bias = true};
    const dti_conv more = {.out = dti_channels(n, x), .kernel = 1, .stride = 1, .bias = true};
    int32_t y = dti_layer(n, &dt_layer_global_avgpool, NULL, &x, 1, "%s.avgpool", name);
    y = dti_add_conv(n, y, less, "%s.fc1", name);
    y = dti_add_relu(n, y, "%s.activation", name);
    y = dti_add_conv(n, y, more, "%s.fc2", name);
    y = dti_layer(n, &dt_layer_hardsigmoid, NULL, &y, 1, "%s.scale_activation", name);
    const int32_t both[] = {x, y};
    return dti_layer(n, &dt_layer_mul, NULL, both, 2, "%s.mul", name);
}

/* torchvision's InvertedResidual number @i. */
static int32_t inverted(dti_net *n, int32_t x, const block *b, int i)
{
    const dt_layer_desc *act = b->swish ? &dt_layer_hardswish : &dt_layer_relu;
    const int64_t in = dti_channels(n, x), inner = dti_scale(n, b->inner),
                  out = dti_scale(n, b->out);
    char name[DT_NAME_BYTES];
    int part = 0;
    int32_t y = x;
#define PART (snprintf(name, sizeof name, "features.%d.block.%d", i, part++), name)
    if (inner != in)
        y = conv_act(n, y, (dt_conv){.out = inner, .kernel = 1, .stride = 1}, act, PART);
    const dt_conv alone = {.out = inner, .kernel = b->kernel, .stride = b->stride, .groups = inner};
    y = conv_act(n, y, alone, act, PART);
    if (b->squeeze)
        y = squeeze(n, y, PART);
    y = conv_act(n, y, (dt_conv){.out = out, .kernel = 1, .stride = 1}, NULL, PART);
#undef PART
    return b->stride == 1 && in == out ? dti_add_sum(n, x, y, "features.%d.add", i) : y;
}

static int32_t v3_layers(const dt_model_desc *m, dti_net *n)
{
    const recipe *r = m->recipe;
    const dt_layer_desc *act = &dt_layer_hardswish;
    char last[DT_NAME_BYTES];
    const dt_conv first = {.out = dti_scale(n, 16), .kernel = 3, .stride = 2};
    int32_t x = conv_act(n, DT_GRAPH_INPUT, first, act, "features.0");
    for (int i = 0; i < r->n; i++)
        x = inverted(n, x, &r->block[i], i + 1);
    snprintf(last, sizeof last, "features.%d", r->n + 1);
    x = conv_act(
        n, x, (dt_conv){.out = 6 * dti_channels(n, x), .kernel = 1, .stride = 1}, act, last);
    x = dti_add_global_avgpool(n, x);
    x = dti_add_fc(n, x, dti_scale(n, r->hidden), "classifier.0");
    x = dti_layer(n, act, NULL, &x, 1, "classifier.1");
    x = dti_add_dropout(n, x, "classifier.2");
    return dti_add_fc(n, x, n->opts.classes, "classifier.3");
}

static const block large[] = {
    {3, 16, 16, false, false, 1},
    {3, 64, 24, false, false, 2},
    {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},
    {5, 120, 40, true, false, 1},
    {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2},
    {3, 200, 80, false, true, 1},
    {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1},
    {3, 480, 112, true, true, 1},
    {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2},
    {5, 960, 160, true, true, 1},
    {5, 960, 160, true, true, 1},
};

static const block small[] = {
    {3, 16, 16, true, false, 2},
    {3, 72, 24, false, false, 2},
    {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},
    {5, 240, 40, true, true, 1},
    {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1},
    {5, 144, 48, true, true, 1},
    {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1},
    {5, 576, 96, true, true, 1},
};

#define V3(blocks, inputs, text)                                                                   \
    const dt_model_desc dt_model_mobilenet_v3_##blocks = {                                         \
        .name = "mobilenet_v3_" #blocks,                                                           \
        .summary = text,                                                                           \
        .input = {1, 224, 224, 3},                                                                 \
        .classes = 1000,                                                                           \
        .dropout = 0.2,                                                                            \
        .recipe = &(const recipe){blocks, (int)DT_COUNT(blocks), inputs},                          \
        .layers = v3_layers,                                                                       \
    }

V3(large, 1280, "MobileNet v3, large: squeeze and excitation, 5.5 million parameters");
V3(small, 1024, "MobileNet v3, small: squeeze and excitation, 2.5 million parameters");
