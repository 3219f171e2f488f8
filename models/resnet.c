/* Residual networks for ImageNet, He et al. 2016, in torchvision's form: the stride of a bottleneck
 * is on its 3x3 convolution. That one has groups in ResNeXt (Xie et al. 2017) and more channels in
 * wide networks (Zagoruyko and Komodakis 2016). */
#include "models/resnet.h"

#include "layers/weighted/conv.h"

/* One residual block; names as in torchvision, below "layerS.B" of @in. */
typedef struct block {
    const char *in;
    int stage, index;
    int64_t planes, stride, dilation, inner, groups;
    bool plain_sum;
} block;

/* The last normalisation of a block starts at 0, so that every block starts as its shortcut: deep
 * networks then learn from the first steps on (Goyal et al. 2017, section 5.1; torchvision's
 * zero_init_residual). Not where a ReLU follows it, which would let no gradient through. */
static int32_t conv_bn(dti_net *n, int32_t x, const block *b, int i, dt_conv c, bool last)
{
    c.dilation = c.dilation > 0 ? c.dilation : 1;
    c.groups = c.groups > 0 ? c.groups : 1;
    x = dti_layer(
        n, &dt_layer_conv, &c, &x, 1, "%slayer%d.%d.conv%d", b->in, b->stage, b->index, i);
    return dti_add_bn(n, x, last, "%slayer%d.%d.bn%d", b->in, b->stage, b->index, i);
}

static int32_t relu(dti_net *n, int32_t x, const block *b, int i)
{
    return dti_add_relu(n, x, "%slayer%d.%d.relu%d", b->in, b->stage, b->index, i);
}

/* The block's input, brought to its output's shape where they differ. */
static int32_t shortcut(dti_net *n, int32_t x, const block *b, int64_t out)
{
    if (n->status != DT_OK || (b->stride == 1 && dt_graph_shape(n->g, x).c == out))
        return x;
    x = dti_add_conv(n, x, (dti_conv){.out = out, .kernel = 1, .stride = b->stride},
        "%slayer%d.%d.downsample.0", b->in, b->stage, b->index);
    x = dti_add_bn(n, x, false, "%slayer%d.%d.downsample.1", b->in, b->stage, b->index);
    return b->plain_sum ? dti_add_relu(n, x, "%slayer%d.%d.downsample.2", b->in, b->stage, b->index)
                        : x;
}

static int32_t basic(dti_net *n, int32_t x, const block *b)
{
    const dt_conv first = {.out = b->planes, .kernel = 3, .stride = b->stride, .pad = 1};
    const dt_conv second = {.out = b->planes, .kernel = 3, .stride = 1, .pad = 1};
    int32_t y = relu(n, conv_bn(n, x, b, 1, first, false), b, 1);
    y = conv_bn(n, y, b, 2, second, true);
    y = dti_add_sum(
        n, y, shortcut(n, x, b, b->planes), "%slayer%d.%d.add", b->in, b->stage, b->index);
    return relu(n, y, b, 2);
}

static int32_t bottleneck(dti_net *n, int32_t x, const block *b)
{
    const dt_conv reduce = {.out = b->inner, .kernel = 1, .stride = 1};
    const dt_conv middle = {.out = b->inner,
        .kernel = 3,
        .stride = b->stride,
        .pad = b->dilation,
        .dilation = b->dilation,
        .groups = b->groups};
    const dt_conv widen = {.out = 4 * b->planes, .kernel = 1, .stride = 1};
    int32_t y = relu(n, conv_bn(n, x, b, 1, reduce, false), b, 1);
    y = relu(n, conv_bn(n, y, b, 2, middle, false), b, 2);
    y = conv_bn(n, y, b, 3, widen, !b->plain_sum);
    y = b->plain_sum ? relu(n, y, b, 3) : y;
    y = dti_add_sum(
        n, y, shortcut(n, x, b, 4 * b->planes), "%slayer%d.%d.add", b->in, b->stage, b->index);
    return b->plain_sum ? y : relu(n, y, b, 3);
}

static int32_t add_stage(dti_net *n, const dti_resnet *r, const char *in, int32_t x, int s)
{
    const bool dilated = r->dilated && s >= 2;
    const int64_t wide = dilated ? (int64_t)1 << (s - 1) : 1;
    for (int i = 0; i < (int)n->opts.counts[s]; i++) {
        const block b = {.in = in,
            .stage = s + 1,
            .index = i,
            .planes = dti_scale(n, (int64_t)64 << s),
            .stride = s > 0 && i == 0 && !dilated ? 2 : 1,
            .dilation = i == 0 && dilated ? wide / 2 : wide,
            .inner = dti_scale(n, r->inner << s),
            .groups = r->groups,
            .plain_sum = r->plain_sum};
        x = r->bottleneck ? bottleneck(n, x, &b) : basic(n, x, &b);
    }
    return x;
}

int32_t dti_add_resnet(dti_net *n, const dti_resnet *r, const char *in)
{
    int32_t x = DT_GRAPH_INPUT;
    x = dti_add_conv(n, x, (dti_conv){dti_scale(n, 64), 7, 2, 3, false}, "%sconv1", in);
    x = dti_add_bn(n, x, false, "%sbn1", in);
    x = dti_add_relu(n, x, "%srelu", in);
    x = dti_add_maxpool(n, x, (dti_pool){3, 2, 1}, "%smaxpool", in);
    for (int s = 0; s < 4; s++)
        x = add_stage(n, r, in, x, s);
    return x;
}

static int32_t resnet_layers(const dt_model_desc *m, dti_net *n)
{
    const int32_t x = dti_add_global_avgpool(n, dti_add_resnet(n, m->recipe, ""));
    return dti_add_fc(n, x, n->opts.classes, "fc");
}

#define RESNET(id, text, form, ...)                                                                \
    const dt_model_desc dt_model_##id = {                                                          \
        .name = #id,                                                                               \
        .summary = text,                                                                           \
        .input = {1, 224, 224, 3},                                                                 \
        .classes = 1000,                                                                           \
        .dropout = -1,                                                                             \
        .counts = (const int64_t[]){__VA_ARGS__},                                                  \
        .n_counts = 4,                                                                             \
        .recipe = &(const dti_resnet)form,                                                         \
        .layers = resnet_layers,                                                                   \
    };

/* clang-format off */
#define BASIC {.groups = 1}
#define BOTTLENECK(of_groups, of_inner) {.bottleneck = true, .groups = of_groups, .inner = of_inner}
#define PLAIN_SUM {.bottleneck = true, .groups = 1, .inner = 64, .plain_sum = true}
RESNET(resnet18, "residual network of 18 layers, basic blocks", BASIC, 2, 2, 2, 2)
RESNET(resnet34, "residual network of 34 layers, basic blocks", BASIC, 3, 4, 6, 3)
RESNET(resnet50, "residual network of 50 layers, bottlenecks", BOTTLENECK(1, 64), 3, 4, 6, 3)
RESNET(resnet101, "residual network of 101 layers, bottlenecks", BOTTLENECK(1, 64), 3, 4, 23, 3)
RESNET(resnet152, "residual network of 152 layers, bottlenecks", BOTTLENECK(1, 64), 3, 8, 36, 3)
RESNET(resnet200, "residual network of 200 layers, bottlenecks", BOTTLENECK(1, 64), 3, 24, 36, 3)
RESNET(resnext50_32x4d, "ResNeXt-50: 3x3 convolutions of 32 groups", BOTTLENECK(32, 128), 3, 4, 6, 3)
RESNET(resnext101_32x8d, "ResNeXt-101: 3x3 convolutions of 32 groups", BOTTLENECK(32, 256), 3, 4, 23, 3)
RESNET(wide_resnet50_2, "resnet50 with 3x3 convolutions of twice the channels", BOTTLENECK(1, 128), 3, 4, 6, 3)
RESNET(wide_resnet101_2, "resnet101 with 3x3 convolutions of twice the channels", BOTTLENECK(1, 128), 3, 4, 23, 3)
RESNET(resnet200_memonger, "mxnet-memonger's example: a ReLU behind each norm, none behind a sum", PLAIN_SUM, 3, 24, 36, 3)
/* clang-format on */
