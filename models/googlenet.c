/* GoogLeNet, Szegedy et al. 2015, in torchvision's form: batch norm after every convolution, no
 * auxiliary classifiers, and a 3x3 convolution where the paper's third branch has 5x5. */
#include "models/model.h"
#include "models/net.h"

#include "layers/norm/batchnorm.h"
#include "layers/shape/concat.h"
#include "layers/pool/maxpool.h"

/* Channels of one inception module; names are torchvision's. */
typedef struct inception {
    const char *name;
    int64_t ch1x1, ch3x3red, ch3x3, ch5x5red, ch5x5, pool_proj;
} inception;

/* Convolution, normalisation, ReLU: torchvision's BasicConv2d. */
static int32_t conv(dti_net *n, int32_t x, dti_conv c, const char *module, const char *part)
{
    const dt_batchnorm bn = {.eps = 1e-3, .momentum = 0.1};
    c.out = dti_scale(n, c.out);
    x = dti_add_conv(n, x, c, "%s%s.conv", module, part);
    x = dti_layer(n, &dt_layer_batchnorm, &bn, &x, 1, "%s%s.bn", module, part);
    return dti_add_relu(n, x, "%s%s.relu", module, part);
}

static int32_t maxpool(
    dti_net *n, int32_t x, int64_t kernel, int64_t stride, const char *module, const char *part)
{
    const dt_maxpool o = {
        .kernel = kernel, .stride = stride, .pad = stride == 1 ? kernel / 2 : 0, .ceil = true};
    return dti_layer(n, &dt_layer_maxpool, &o, &x, 1, "%s%s", module, part);
}

static int32_t module(dti_net *n, int32_t x, const inception *m)
{
    const dti_conv small = {.kernel = 1, .stride = 1};
    const dti_conv large = {.kernel = 3, .stride = 1, .pad = 1};
    int32_t branch[4];
    dti_conv c = small;
    c.out = m->ch1x1;
    branch[0] = conv(n, x, c, m->name, ".branch1");
    c.out = m->ch3x3red;
    branch[1] = conv(n, x, c, m->name, ".branch2.0");
    c.out = m->ch5x5red;
    branch[2] = conv(n, x, c, m->name, ".branch3.0");
    c.out = m->pool_proj;
    branch[3] = conv(n, maxpool(n, x, 3, 1, m->name, ".branch4.0"), c, m->name, ".branch4.1");
    c = large;
    c.out = m->ch3x3;
    branch[1] = conv(n, branch[1], c, m->name, ".branch2.1");
    c.out = m->ch5x5;
    branch[2] = conv(n, branch[2], c, m->name, ".branch3.1");
    return dti_layer(n, &dt_layer_concat, NULL, branch, 4, "%s.concat", m->name);
}

static int32_t modules(dti_net *n, int32_t x, const inception *m, int count)
{
    for (int i = 0; i < count; i++)
        x = module(n, x, &m[i]);
    return x;
}

static int32_t googlenet_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    static const inception three[] = {
        {"inception3a", 64, 96, 128, 16, 32, 32},
        {"inception3b", 128, 128, 192, 32, 96, 64},
    };
    static const inception four[] = {
        {"inception4a", 192, 96, 208, 16, 48, 64},
        {"inception4b", 160, 112, 224, 24, 64, 64},
        {"inception4c", 128, 128, 256, 24, 64, 64},
        {"inception4d", 112, 144, 288, 32, 64, 64},
        {"inception4e", 256, 160, 320, 32, 128, 128},
    };
    static const inception five[] = {
        {"inception5a", 256, 160, 320, 32, 128, 128},
        {"inception5b", 384, 192, 384, 48, 128, 128},
    };
    int32_t x = DT_GRAPH_INPUT;
    x = conv(n, x, (dti_conv){.out = 64, .kernel = 7, .stride = 2, .pad = 3}, "conv1", "");
    x = maxpool(n, x, 3, 2, "maxpool1", "");
    x = conv(n, x, (dti_conv){.out = 64, .kernel = 1, .stride = 1}, "conv2", "");
    x = conv(n, x, (dti_conv){.out = 192, .kernel = 3, .stride = 1, .pad = 1}, "conv3", "");
    x = maxpool(n, x, 3, 2, "maxpool2", "");
    x = maxpool(n, modules(n, x, three, DT_COUNT(three)), 3, 2, "maxpool3", "");
    x = maxpool(n, modules(n, x, four, DT_COUNT(four)), 2, 2, "maxpool4", "");
    x = dti_add_global_avgpool(n, modules(n, x, five, DT_COUNT(five)));
    x = dti_add_dropout(n, x, "dropout");
    return dti_add_fc(n, x, n->opts.classes, "fc");
}

const dt_model_desc dt_model_googlenet = {
    .name = "googlenet",
    .summary = "inception modules with batch norm, no auxiliary classifiers",
    .input = {1, 224, 224, 3},
    .classes = 1000,
    .dropout = 0.2,
    .layers = googlenet_layers,
};
