/* Densely connected networks, Huang et al. 2017, in torchvision's form. A layer reads the values of
 * all layers of its block before it; here each value is joined to those before it once, and the
 * next layer reads the whole. */
#include "models/model.h"
#include "models/net.h"

#include "layers/pool/avgpool.h"
#include "layers/shape/concat.h"

enum { GROWTH = 32, BOTTLENECK = 4 };

/* One layer of a block: returns everything so far with GROWTH channels more. */
static int32_t dense_layer(dti_net *n, int32_t x, int block, int i)
{
    const dti_conv reduce = {.out = dti_scale(n, BOTTLENECK * GROWTH), .kernel = 1, .stride = 1};
    const dti_conv grow = {.out = dti_scale(n, GROWTH), .kernel = 3, .stride = 1, .pad = 1};
    int32_t y = dti_add_bn(n, x, false, "features.denseblock%d.denselayer%d.norm1", block, i);
    y = dti_add_relu(n, y, "features.denseblock%d.denselayer%d.relu1", block, i);
    y = dti_add_conv(n, y, reduce, "features.denseblock%d.denselayer%d.conv1", block, i);
    y = dti_add_bn(n, y, false, "features.denseblock%d.denselayer%d.norm2", block, i);
    y = dti_add_relu(n, y, "features.denseblock%d.denselayer%d.relu2", block, i);
    y = dti_add_conv(n, y, grow, "features.denseblock%d.denselayer%d.conv2", block, i);
    const int32_t both[] = {x, y};
    return dti_layer(
        n, &dt_layer_concat, NULL, both, 2, "features.denseblock%d.denselayer%d.concat", block, i);
}

/* Half the channels, half the height and width. */
static int32_t transition(dti_net *n, int32_t x, int block)
{
    const dt_avgpool pool = {.kernel = 2, .stride = 2, .include_pad = true};
    x = dti_add_bn(n, x, false, "features.transition%d.norm", block);
    x = dti_add_relu(n, x, "features.transition%d.relu", block);
    if (n->status == DT_OK) {
        const int64_t out = dt_graph_shape(n->g, x).c / 2;
        const dti_conv c = {.out = out > 0 ? out : 1, .kernel = 1, .stride = 1};
        x = dti_add_conv(n, x, c, "features.transition%d.conv", block);
    }
    return dti_layer(n, &dt_layer_avgpool, &pool, &x, 1, "features.transition%d.pool", block);
}

static int32_t densenet_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t x = DT_GRAPH_INPUT;
    x = dti_add_conv(n, x, (dti_conv){dti_scale(n, 64), 7, 2, 3, false}, "features.conv0");
    x = dti_add_bn(n, x, false, "features.norm0");
    x = dti_add_relu(n, x, "features.relu0");
    x = dti_add_maxpool(n, x, (dti_pool){3, 2, 1}, "features.pool0");
    for (int block = 1; block <= 4; block++) {
        for (int i = 1; i <= (int)n->opts.counts[block - 1]; i++)
            x = dense_layer(n, x, block, i);
        if (block < 4)
            x = transition(n, x, block);
    }
    x = dti_add_bn(n, x, false, "features.norm5");
    x = dti_add_relu(n, x, "relu");
    x = dti_add_global_avgpool(n, x);
    return dti_add_fc(n, x, n->opts.classes, "classifier");
}

#define DENSENET(id, text, ...)                                                                    \
    const dt_model_desc dt_model_##id = {                                                          \
        .name = #id,                                                                               \
        .summary = text,                                                                           \
        .input = {1, 224, 224, 3},                                                                 \
        .classes = 1000,                                                                           \
        .dropout = -1,                                                                             \
        .counts = (const int64_t[]){__VA_ARGS__},                                                  \
        .n_counts = 4,                                                                             \
        .layers = densenet_layers,                                                                 \
    };

/* clang-format off */
DENSENET(densenet121, "densely connected network of 121 layers, growth 32", 6, 12, 24, 16)
DENSENET(densenet264, "densely connected network of 264 layers, growth 32", 6, 12, 64, 48)
/* clang-format on */
