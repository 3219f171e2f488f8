/* MobileNet v1 (Howard et al. 2017, table 1) and v2 (Sandler et al. 2018, table 2): convolutions of
 * each channel by itself, and of 1x1, which mix channels. v2 is in torchvision's form; v1, which
 * torchvision lacks, has names in its manner. */
#include "models/model.h"
#include "models/net.h"

#include <stdio.h>

#include "layers/elementwise/activations.h"
#include "layers/weighted/conv.h"
#include "layers/plain.h"

/* @alone: each channel by itself */
typedef struct unit {
    int64_t out, kernel, stride;
    bool alone;
} unit;

static int32_t conv_bn(dti_net *n, int32_t x, unit u, const char *conv, const char *bn)
{
    const dt_conv c = {.out = u.out,
        .kernel = u.kernel,
        .stride = u.stride,
        .pad = u.kernel / 2,
        .dilation = 1,
        .groups = u.alone ? u.out : 1};
    x = dti_layer(n, &dt_layer_conv, &c, &x, 1, "%s", conv);
    return dti_add_bn(n, x, false, "%s", bn);
}

/* torchvision's Conv2dNormActivation. */
static int32_t conv_act(
    dti_net *n, int32_t x, unit u, const dt_layer_desc *act, int block, const char *part)
{
    char conv[DT_NAME_BYTES], bn[DT_NAME_BYTES];
    snprintf(conv, sizeof conv, "features.%d%s.0", block, part);
    snprintf(bn, sizeof bn, "features.%d%s.1", block, part);
    x = conv_bn(n, x, u, conv, bn);
    return dti_layer(n, act, NULL, &x, 1, "features.%d%s.2", block, part);
}

static int32_t v1_layers(const dt_model_desc *m, dti_net *n)
{
    static const int64_t out[] = {64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
    static const int64_t stride[] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
    const dt_layer_desc *relu = &dt_layer_relu;
    (void)m;
    int32_t x = conv_act(n, DT_GRAPH_INPUT, (unit){dti_scale(n, 32), 3, 2, false}, relu, 0, "");
    for (int i = 0; i < (int)DT_COUNT(out); i++) {
        x = conv_act(n, x, (unit){dti_channels(n, x), 3, stride[i], true}, relu, i + 1, ".0");
        x = conv_act(n, x, (unit){dti_scale(n, out[i]), 1, 1, false}, relu, i + 1, ".1");
    }
    x = dti_add_global_avgpool(n, x);
    return dti_add_fc(n, x, n->opts.classes, "classifier");
}

/* More channels, each by itself, and few again; beside that the block's input where it fits. */
static int32_t inverted(
    dti_net *n, int32_t x, int block, int64_t expand, int64_t out, int64_t stride)
{
    const dt_layer_desc *act = &dt_layer_relu6;
    const int64_t in = dti_channels(n, x), inner = expand * in;
    const int at = expand > 1 ? 2 : 1; /* of the last convolution */
    char conv[DT_NAME_BYTES], bn[DT_NAME_BYTES];
    snprintf(conv, sizeof conv, "features.%d.conv.%d", block, at);
    snprintf(bn, sizeof bn, "features.%d.conv.%d", block, at + 1);
    int32_t y = x;
    if (expand > 1)
        y = conv_act(n, y, (unit){inner, 1, 1, false}, act, block, ".conv.0");
    y = conv_act(n, y, (unit){inner, 3, stride, true}, act, block, at > 1 ? ".conv.1" : ".conv.0");
    y = conv_bn(n, y, (unit){out, 1, 1, false}, conv, bn);
    return stride == 1 && in == out ? dti_add_sum(n, x, y, "features.%d.add", block) : y;
}

static int32_t v2_layers(const dt_model_desc *m, dti_net *n)
{
    static const struct {
        int64_t expand, out, stride;
        int times;
    } rows[] = {
        {1, 16, 1, 1},
        {6, 24, 2, 2},
        {6, 32, 2, 3},
        {6, 64, 2, 4},
        {6, 96, 1, 3},
        {6, 160, 2, 3},
        {6, 320, 1, 1},
    };
    const dt_layer_desc *act = &dt_layer_relu6;
    int block = 1;
    (void)m;
    int32_t x = conv_act(n, DT_GRAPH_INPUT, (unit){dti_scale(n, 32), 3, 2, false}, act, 0, "");
    for (size_t r = 0; r < DT_COUNT(rows); r++)
        for (int i = 0; i < rows[r].times; i++)
            x = inverted(n, x, block++, rows[r].expand, dti_scale(n, rows[r].out),
                i == 0 ? rows[r].stride : 1);
    x = conv_act(n, x, (unit){dti_scale(n, 1280), 1, 1, false}, act, block, "");
    x = dti_add_global_avgpool(n, x);
    x = dti_add_dropout(n, x, "classifier.0");
    return dti_add_fc(n, x, n->opts.classes, "classifier.1");
}

const dt_model_desc dt_model_mobilenet_v1 = {
    .name = "mobilenet_v1",
    .summary = "MobileNet: depthwise convolutions, 4.2 million parameters",
    .input = {1, 224, 224, 3},
    .classes = 1000,
    .dropout = -1,
    .layers = v1_layers,
};

const dt_model_desc dt_model_mobilenet_v2 = {
    .name = "mobilenet_v2",
    .summary = "MobileNet v2: inverted residual blocks with ReLU6, 3.5 million parameters",
    .input = {1, 224, 224, 3},
    .classes = 1000,
    .dropout = 0.2,
    .layers = v2_layers,
};
