/* Residual networks for 32x32 images, He et al. 2016, section 4.2, shortcuts without parameters
 * (option A). Depth 6n + 2: three stages of n basic blocks. Names as in Yerlan Idelbayev's
 * pytorch_resnet_cifar10. */
#include "models/model.h"
#include "models/net.h"

#include "layers/shape/shortcut.h"

typedef struct block {
    int stage, index;
    int64_t planes, stride;
} block;

static int32_t conv_bn(dti_net *n, int32_t x, const block *b, int i, int64_t stride)
{
    const dti_conv c = {.out = b->planes, .kernel = 3, .stride = stride, .pad = 1};
    x = dti_add_conv(n, x, c, "layer%d.%d.conv%d", b->stage, b->index, i);
    return dti_add_bn(n, x, false, "layer%d.%d.bn%d", b->stage, b->index, i);
}

static int32_t shortcut(dti_net *n, int32_t x, const block *b)
{
    if (n->status != DT_OK || (b->stride == 1 && dt_graph_shape(n->g, x).c == b->planes))
        return x;
    const dt_shortcut o = {.out = b->planes, .stride = b->stride};
    return dti_layer(n, &dt_layer_shortcut, &o, &x, 1, "layer%d.%d.shortcut", b->stage, b->index);
}

static int32_t basic(dti_net *n, int32_t x, const block *b)
{
    int32_t y = conv_bn(n, x, b, 1, b->stride);
    y = dti_add_relu(n, y, "layer%d.%d.relu1", b->stage, b->index);
    y = conv_bn(n, y, b, 2, 1);
    y = dti_add_sum(n, y, shortcut(n, x, b), "layer%d.%d.add", b->stage, b->index);
    return dti_add_relu(n, y, "layer%d.%d.relu2", b->stage, b->index);
}

static int32_t resnet_cifar_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t x = DT_GRAPH_INPUT;
    x = dti_add_conv(n, x, (dti_conv){dti_scale(n, 16), 3, 1, 1, false}, "conv1");
    x = dti_add_bn(n, x, false, "bn1");
    x = dti_add_relu(n, x, "relu");
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < (int)n->opts.counts[0]; i++) {
            const block b = {.stage = s + 1,
                .index = i,
                .planes = dti_scale(n, (int64_t)16 << s),
                .stride = s > 0 && i == 0 ? 2 : 1};
            x = basic(n, x, &b);
        }
    x = dti_add_global_avgpool(n, x);
    return dti_add_fc(n, x, n->opts.classes, "linear");
}

#define RESNET(id, text, blocks)                                                                   \
    const dt_model_desc dt_model_##id = {                                                          \
        .name = #id,                                                                               \
        .summary = text,                                                                           \
        .input = {1, 32, 32, 3},                                                                   \
        .classes = 10,                                                                             \
        .dropout = -1,                                                                             \
        .counts = &(const int64_t){blocks},                                                        \
        .n_counts = 1,                                                                             \
        .layers = resnet_cifar_layers,                                                             \
    };

/* clang-format off */
RESNET(resnet20, "residual network of 20 layers for 32x32 images, base width 16", 3)
RESNET(resnet32, "residual network of 32 layers for 32x32 images, base width 16", 5)
RESNET(resnet56, "residual network of 56 layers for 32x32 images, base width 16", 9)
RESNET(resnet110, "residual network of 110 layers for 32x32 images, base width 16", 18)
RESNET(resnet1202, "residual network of 1,202 layers for 32x32 images, base width 16", 200)
/* clang-format on */
