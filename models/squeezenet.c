/* SqueezeNet 1.0 and 1.1, Iandola et al. 2016, in torchvision's form. */
#include "models/model.h"
#include "models/net.h"

#include <stdio.h>

#include "layers/shape/concat.h"
#include "layers/pool/maxpool.h"

/* @kernel @out: of the first convolution
 * @pool: layers of torchvision's nn.Sequential that are pools; 0 ends them */
typedef struct squeezenet {
    int64_t kernel, out;
    int pool[4];
} squeezenet;

enum { LAST = 12 }; /* layer of torchvision's nn.Sequential */

static int32_t conv(
    dti_net *n, int32_t x, int64_t out, int64_t kernel, const char *module, const char *part)
{
    const dti_conv c = {dti_scale(n, out), kernel, 1, kernel / 2, true};
    x = dti_add_conv(n, x, c, "%s.%s", module, part);
    return dti_add_relu(n, x, "%s.%s_activation", module, part);
}

/* Few channels, from which two convolutions make eight times as many. */
static int32_t fire(dti_net *n, int32_t x, int at, int64_t squeeze)
{
    char name[DT_NAME_BYTES];
    snprintf(name, sizeof name, "features.%d", at);
    x = conv(n, x, squeeze, 1, name, "squeeze");
    const int32_t both[] = {conv(n, x, 4 * squeeze, 1, name, "expand1x1"),
        conv(n, x, 4 * squeeze, 3, name, "expand3x3")};
    return dti_layer(n, &dt_layer_concat, NULL, both, 2, "%s", name);
}

static int32_t squeezenet_layers(const dt_model_desc *m, dti_net *n)
{
    static const int64_t squeeze[] = {16, 16, 32, 32, 48, 48, 64, 64};
    const squeezenet *s = m->recipe;
    const dt_maxpool half = {.kernel = 3, .stride = 2, .ceil = true};
    const dti_conv first = {dti_scale(n, s->out), s->kernel, 2, 0, true};
    int32_t x = dti_add_conv(n, DT_GRAPH_INPUT, first, "features.0");
    x = dti_add_relu(n, x, "features.1");
    for (int at = 2, pools = 0, fires = 0; at <= LAST; at++)
        if (at == s->pool[pools]) {
            x = dti_layer(n, &dt_layer_maxpool, &half, &x, 1, "features.%d", at);
            pools++;
        } else {
            x = fire(n, x, at, squeeze[fires++]);
        }
    x = dti_add_dropout(n, x, "classifier.0");
    x = dti_add_conv(n, x, (dti_conv){n->opts.classes, 1, 1, 0, true}, "classifier.1");
    x = dti_add_relu(n, x, "classifier.2");
    return dti_add_global_avgpool(n, x);
}

#define SQUEEZENET(id, text, ...)                                                                  \
    const dt_model_desc dt_model_##id = {                                                          \
        .name = #id,                                                                               \
        .summary = text,                                                                           \
        .input = {1, 224, 224, 3},                                                                 \
        .classes = 1000,                                                                           \
        .dropout = 0.5,                                                                            \
        .recipe = &(const squeezenet){__VA_ARGS__},                                                \
        .layers = squeezenet_layers,                                                               \
    };

/* clang-format off */
SQUEEZENET(squeezenet1_0, "SqueezeNet 1.0: 1.2 million parameters, no fully connected layer", 7, 96, {2, 6, 11})
SQUEEZENET(squeezenet1_1, "SqueezeNet 1.1: squeezenet1_0 with earlier pools", 3, 64, {2, 5, 8})
/* clang-format on */
