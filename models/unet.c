/* U-Net, Ronneberger et al. 2015, as it is commonly built today: convolutions are padded, so that
 * the scores are as large as the image; each is followed by batch norm; and going up is an
 * upsampling without weights. Names are those of the usual PyTorch code, "down1.maxpool_conv.1.
 * double_conv.0.weight", of which it is the form with nn.Upsample(scale_factor = 2): the bottom and
 * what comes up from it have half the channels of the paper, as nothing else reduces them. */
#include "models/model.h"
#include "models/net.h"

#include <stdio.h>

#include "layers/shape/concat.h"
#include "layers/shape/upsample.h"

enum { LEVELS = 4, WIDTH = 64 };

/* Two convolutions to @mid and @out channels. */
static int32_t double_conv(dti_net *n, int32_t x, int64_t mid, int64_t out, const char *name)
{
    const dti_conv a = {.out = dti_scale(n, mid), .kernel = 3, .stride = 1, .pad = 1};
    const dti_conv b = {.out = dti_scale(n, out), .kernel = 3, .stride = 1, .pad = 1};
    x = dti_add_conv(n, x, a, "%s.double_conv.0", name);
    x = dti_add_bn(n, x, false, "%s.double_conv.1", name);
    x = dti_add_relu(n, x, "%s.double_conv.2", name);
    x = dti_add_conv(n, x, b, "%s.double_conv.3", name);
    x = dti_add_bn(n, x, false, "%s.double_conv.4", name);
    return dti_add_relu(n, x, "%s.double_conv.5", name);
}

static int32_t down(dti_net *n, int32_t x, int64_t out, int level)
{
    char name[DT_NAME_BYTES];
    snprintf(name, sizeof name, "down%d.maxpool_conv.1", level);
    x = dti_add_maxpool(n, x, (dti_pool){2, 2, 0}, "down%d.maxpool_conv.0", level);
    return double_conv(n, x, out, out, name);
}

/* What comes from below, made larger, beside the map of that size on the way down. */
static int32_t up(dti_net *n, int32_t below, int32_t beside, int64_t in, int64_t out, int level)
{
    const dt_upsample twice = {.factor = 2};
    char name[DT_NAME_BYTES];
    snprintf(name, sizeof name, "up%d.conv", level);
    const int32_t y = dti_layer(n, &dt_layer_upsample, &twice, &below, 1, "up%d.up", level);
    const int32_t both[] = {beside, y};
    const int32_t x = dti_layer(n, &dt_layer_concat, NULL, both, 2, "up%d.concat", level);
    return double_conv(n, x, in / 2, out, name);
}

static int32_t unet_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t at[LEVELS]; /* maps on the way down */
    dti_check_image(n, 1 << LEVELS);
    int32_t x = double_conv(n, DT_GRAPH_INPUT, WIDTH, WIDTH, "inc");
    for (int k = 0; k < LEVELS; k++) {
        const int64_t out = WIDTH << (k + 1);
        at[k] = x;
        x = down(n, x, k + 1 < LEVELS ? out : out / 2, k + 1);
    }
    for (int k = LEVELS - 1; k >= 0; k--) {
        const int64_t in = WIDTH << (k + 1);
        x = up(n, x, at[k], in, k > 0 ? in / 4 : WIDTH, LEVELS - k);
    }
    const dti_conv scores = {.out = n->opts.classes, .kernel = 1, .stride = 1, .bias = true};
    return dti_add_conv(n, x, scores, "outc.conv");
}

const dt_model_desc dt_model_unet = {
    .name = "unet",
    .summary = "U-Net with batch norm: a label for every pixel",
    .input = {1, 256, 256, 3},
    .classes = 2,
    .dropout = -1,
    .layers = unet_layers,
};
