/* Fully convolutional networks (Long, Shelhamer, Darrell, 2015) on VGG-16: its classifier as
 * convolutions, and scores brought back to the image's size by transposed convolutions; of FCN-8s
 * scores of the third and fourth pool are added on the way. The paper pads the image by 100 pixels
 * and crops; here the first convolution of the classifier is padded, so that sizes agree without.
 * Weights begin as those of every layer here (He-normal), where the paper's transposed convolutions
 * begin as bilinear interpolation and its scores at zero. Names are those of the paper's files. */
#include "models/model.h"
#include "models/net.h"

#include "layers/weighted/conv_transpose.h"

enum { STAGES = 5 };

/* Scores of the classes for each place of a map. */
static int32_t score(dti_net *n, int32_t x, const char *name)
{
    const dti_conv c = {.out = n->opts.classes, .kernel = 1, .stride = 1, .bias = true};
    return dti_add_conv(n, x, c, "%s", name);
}

/* To a map of @times the size. */
static int32_t enlarge(dti_net *n, int32_t x, int64_t times, const char *name)
{
    const dt_conv_transpose c = {.out = n->opts.classes,
        .kernel = 2 * times,
        .stride = times,
        .pad = times / 2,
        .groups = 1};
    return dti_layer(n, &dt_layer_conv_transpose, &c, &x, 1, "%s", name);
}

/* A layer of VGG's classifier. */
static int32_t classify(dti_net *n, int32_t x, int64_t kernel, int i)
{
    const dti_conv c = {
        .out = dti_scale(n, 4096), .kernel = kernel, .stride = 1, .pad = kernel / 2, .bias = true};
    x = dti_add_conv(n, x, c, "fc%d", i);
    x = dti_add_relu(n, x, "relu%d", i);
    return dti_add_dropout(n, x, "drop%d", i);
}

static int32_t fcn_layers(const dt_model_desc *m, dti_net *n)
{
    static const int64_t out[STAGES] = {64, 128, 256, 512, 512};
    static const int times[STAGES] = {2, 2, 3, 3, 3};
    const bool skips = *(const bool *)m->recipe;
    int32_t pool[STAGES], x = DT_GRAPH_INPUT;
    dti_check_image(n, 1 << STAGES);
    for (int k = 0; k < STAGES; k++) {
        const dti_conv c = {dti_scale(n, out[k]), 3, 1, 1, true};
        for (int i = 1; i <= times[k]; i++) {
            x = dti_add_conv(n, x, c, "conv%d_%d", k + 1, i);
            x = dti_add_relu(n, x, "relu%d_%d", k + 1, i);
        }
        pool[k] = x = dti_add_maxpool(n, x, (dti_pool){2, 2, 0}, "pool%d", k + 1);
    }
    x = classify(n, x, 7, 6);
    x = classify(n, x, 1, 7);
    x = score(n, x, "score_fr");
    if (!skips)
        return enlarge(n, x, 32, "upscore");
    x = enlarge(n, x, 2, "upscore2");
    x = dti_add_sum(n, x, score(n, pool[3], "score_pool4"), "fuse_pool4");
    x = enlarge(n, x, 2, "upscore_pool4");
    x = dti_add_sum(n, x, score(n, pool[2], "score_pool3"), "fuse_pool3");
    return enlarge(n, x, 8, "upscore8");
}

#define FCN(id, added, text)                                                                       \
    const dt_model_desc dt_model_##id = {                                                          \
        .name = #id,                                                                               \
        .summary = text,                                                                           \
        .input = {1, 224, 224, 3},                                                                 \
        .classes = 21,                                                                             \
        .dropout = 0.5,                                                                            \
        .recipe = &(const bool){added},                                                            \
        .layers = fcn_layers,                                                                      \
    }

FCN(fcn32s, false, "FCN-32s on VGG-16: a label for every pixel, scores enlarged 32 times");
FCN(fcn8s, true, "FCN-8s on VGG-16: the same, with scores of two pools added");
