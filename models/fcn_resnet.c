/* A fully convolutional network on ResNet, in torchvision's form: the last two stages dilated, so
 * that the map has an eighth of the image's side, a convolution and its scores. Without the second
 * head that torchvision adds when asked.
 *
 * Where ours differs: torchvision enlarges the scores by bilinear interpolation, this one by
 * repeating each, as there is no bilinear layer. Parameters, values until then, and labels and
 * gradients at the middle of each square of 8 x 8 pixels are hardly touched by that; the seams
 * between squares are. */
#include "models/resnet.h"

#include "layers/shape/upsample.h"

enum { SMALLER = 8, PLANES = 512 };

static int32_t fcn_resnet_layers(const dt_model_desc *m, dti_net *n)
{
    static const dt_upsample enlarge = {SMALLER};
    dti_check_image(n, SMALLER);
    int32_t x = dti_add_resnet(n, m->recipe, "backbone.");
    x = dti_add_conv(n, x, (dti_conv){dti_scale(n, PLANES), 3, 1, 1, false}, "classifier.0");
    x = dti_add_bn(n, x, false, "classifier.1");
    x = dti_add_relu(n, x, "classifier.2");
    x = dti_add_dropout(n, x, "classifier.3");
    x = dti_add_conv(n, x, (dti_conv){n->opts.classes, 1, 1, 0, true}, "classifier.4");
    return dti_layer(n, &dt_layer_upsample, &enlarge, &x, 1, "upsample");
}

#define FCN_RESNET(id, text, third)                                                                \
    const dt_model_desc dt_model_##id = {                                                          \
        .name = #id,                                                                               \
        .summary = text,                                                                           \
        .input = {1, 224, 224, 3},                                                                 \
        .classes = 21,                                                                             \
        .dropout = 0.1,                                                                            \
        .counts = (const int64_t[]){3, 4, third, 3},                                               \
        .n_counts = 4,                                                                             \
        .recipe =                                                                                  \
            &(const dti_resnet){.bottleneck = true, .groups = 1, .inner = 64, .dilated = true},    \
        .layers = fcn_resnet_layers,                                                               \
    };

FCN_RESNET(fcn_resnet50, "FCN on a dilated ResNet-50: a label for every pixel, scores repeated", 6)
FCN_RESNET(fcn_resnet101, "FCN on a dilated ResNet-101", 23)
