/* VGG, Simonyan and Zisserman 2015, configurations A, B, D and E, with and without batch norm, in
 * torchvision's form. */
#include "models/model.h"
#include "models/net.h"

/* Where a map of 7x7, 14x14, ... is left after five halvings. */
static const char images[] = "224 to 255, 448 to 479, 672 to 703, and so on";

/* Counts are the convolutions of each block of equal maps. @bn: batch norm behind each of them */
static int32_t vgg_features(dti_net *n, bool bn)
{
    static const int64_t out[5] = {64, 128, 256, 512, 512};
    int32_t x = DT_GRAPH_INPUT;
    int at = 0; /* index in torchvision's nn.Sequential */
    for (int block = 0; block < 5; block++) {
        const dti_conv c = {dti_scale(n, out[block]), 3, 1, 1, true};
        for (int i = 0; i < (int)n->opts.counts[block]; i++) {
            x = dti_add_conv(n, x, c, "features.%d", at++);
            if (bn)
                x = dti_add_bn(n, x, false, "features.%d", at++);
            x = dti_add_relu(n, x, "features.%d", at++);
        }
        x = dti_add_maxpool(n, x, (dti_pool){2, 2, 0}, "features.%d", at++);
    }
    return x;
}

static int32_t vgg_layers(const dt_model_desc *m, dti_net *n)
{
    int32_t x = vgg_features(n, *(const bool *)m->recipe);
    x = dti_add_adaptive(n, x, 7, images);
    for (int i = 0; i < 2; i++) {
        x = dti_add_fc(n, x, dti_scale(n, 4096), "classifier.%d", 3 * i);
        x = dti_add_relu(n, x, "classifier.%d", 3 * i + 1);
        x = dti_add_dropout(n, x, "classifier.%d", 3 * i + 2);
    }
    return dti_add_fc(n, x, n->opts.classes, "classifier.6");
}

#define VGG(id, text, norm, ...)                                                                   \
    const dt_model_desc dt_model_##id = {                                                          \
        .name = #id,                                                                               \
        .summary = text,                                                                           \
        .input = {1, 224, 224, 3},                                                                 \
        .classes = 1000,                                                                           \
        .dropout = 0.5,                                                                            \
        .counts = (const int64_t[]){__VA_ARGS__},                                                  \
        .n_counts = 5,                                                                             \
        .recipe = &(const bool){norm},                                                             \
        .layers = vgg_layers,                                                                      \
    };

/* clang-format off */
VGG(vgg11, "VGG configuration A, 8 convolutions", false, 1, 1, 2, 2, 2)
VGG(vgg13, "VGG configuration B, 10 convolutions", false, 2, 2, 2, 2, 2)
VGG(vgg16, "VGG configuration D, 13 convolutions", false, 2, 2, 3, 3, 3)
VGG(vgg19, "VGG configuration E, 16 convolutions", false, 2, 2, 4, 4, 4)
VGG(vgg416, "vDNN's, 416 convolutions: 80 more in each block than vgg19 has", false, 82, 82, 84, 84, 84)
VGG(vgg11_bn, "vgg11 with batch norm", true, 1, 1, 2, 2, 2)
VGG(vgg13_bn, "vgg13 with batch norm", true, 2, 2, 2, 2, 2)
VGG(vgg16_bn, "vgg16 with batch norm", true, 2, 2, 3, 3, 3)
VGG(vgg19_bn, "vgg19 with batch norm", true, 2, 2, 4, 4, 4)
/* clang-format on */
