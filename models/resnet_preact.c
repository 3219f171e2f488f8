/* Residual networks with normalisation and ReLU before each convolution, He et al. 2016, "Identity
 * Mappings in Deep Residual Networks", for 32x32 images: bottlenecks, depth 9n + 2, three stages of
 * n blocks. As in the authors' code, the first block of a stage has its stride on its first
 * convolution and a 1x1 convolution as shortcut, which reads what the block's own first convolution
 * reads. */
#include "models/model.h"
#include "models/net.h"

typedef struct block {
    int stage, index;
    int64_t planes, stride;
} block;

static int32_t bn_relu(dti_net *n, int32_t x, const block *b, int i)
{
    x = dti_add_bn(n, x, false, "layer%d.%d.bn%d", b->stage, b->index, i);
    return dti_add_relu(n, x, "layer%d.%d.relu%d", b->stage, b->index, i);
}

static int32_t conv(dti_net *n, int32_t x, const block *b, int i, dti_conv c)
{
    return dti_add_conv(n, x, c, "layer%d.%d.conv%d", b->stage, b->index, i);
}

static int32_t bottleneck(dti_net *n, int32_t x, const block *b)
{
    const int64_t wide = 4 * b->planes;
    const int32_t first = bn_relu(n, x, b, 1);
    int32_t y = conv(n, first, b, 1, (dti_conv){b->planes, 1, b->stride, 0, false});
    y = conv(n, bn_relu(n, y, b, 2), b, 2, (dti_conv){b->planes, 3, 1, 1, false});
    y = conv(n, bn_relu(n, y, b, 3), b, 3, (dti_conv){wide, 1, 1, 0, false});
    if (b->index == 0)
        x = dti_add_conv(n, first, (dti_conv){wide, 1, b->stride, 0, false}, "layer%d.%d.shortcut",
            b->stage, b->index);
    return dti_add_sum(n, y, x, "layer%d.%d.add", b->stage, b->index);
}

static int32_t preact_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t x = DT_GRAPH_INPUT;
    x = dti_add_conv(n, x, (dti_conv){dti_scale(n, 16), 3, 1, 1, false}, "conv1");
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < (int)n->opts.counts[0]; i++) {
            const block b = {.stage = s + 1,
                .index = i,
                .planes = dti_scale(n, (int64_t)16 << s),
                .stride = s > 0 && i == 0 ? 2 : 1};
            x = bottleneck(n, x, &b);
        }
    x = dti_add_bn(n, x, false, "bn");
    x = dti_add_relu(n, x, "relu");
    x = dti_add_global_avgpool(n, x);
    return dti_add_fc(n, x, n->opts.classes, "linear");
}

const dt_model_desc dt_model_resnet1001 = {
    .name = "resnet1001",
    .summary = "pre-activation residual network of 1001 layers for 32x32 images, base width 16",
    .input = {1, 32, 32, 3},
    .classes = 10,
    .dropout = -1,
    .counts = &(const int64_t){111},
    .n_counts = 1,
    .layers = preact_layers,
};
