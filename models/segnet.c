/* SegNet (Badrinarayanan, Kendall, Cipolla, 2017): the convolutions of VGG-16, and the same back,
 * where each pool is undone by the positions of its maxima. Every convolution has batch norm and a
 * ReLU behind it, but for the last, which gives the scores of each pixel. Names are "encoder" and
 * "decoder", level and number. */
#include "models/model.h"
#include "models/net.h"

#include "layers/pool/max_unpool.h"
#include "layers/pool/maxpool.h"

enum { LEVELS = 5 };

static int32_t unit(dti_net *n, int32_t x, int64_t out, const char *side, int level, int i)
{
    const dti_conv c = {.out = out, .kernel = 3, .stride = 1, .pad = 1, .bias = true};
    x = dti_add_conv(n, x, c, "%s%d.%d.conv", side, level, i);
    x = dti_add_bn(n, x, false, "%s%d.%d.norm", side, level, i);
    return dti_add_relu(n, x, "%s%d.%d.relu", side, level, i);
}

static int32_t segnet_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    static const int64_t out[LEVELS] = {64, 128, 256, 512, 512};
    static const int times[LEVELS] = {2, 2, 3, 3, 3};
    const dt_maxpool halve = {.kernel = 2, .stride = 2};
    const dt_max_unpool twice = {.kernel = 2};
    int32_t place[LEVELS];
    dti_check_image(n, 1 << LEVELS);
    int32_t x = DT_GRAPH_INPUT;
    for (int k = 0; k < LEVELS; k++) {
        for (int i = 0; i < times[k]; i++)
            x = unit(n, x, dti_scale(n, out[k]), "encoder", k + 1, i + 1);
        place[k] = dti_layer(n, &dt_layer_maxpool_index, &halve, &x, 1, "index%d", k + 1);
        x = dti_layer(n, &dt_layer_maxpool, &halve, &x, 1, "pool%d", k + 1);
    }
    for (int k = LEVELS - 1; k >= 0; k--) {
        const int32_t both[] = {x, place[k]};
        x = dti_layer(n, &dt_layer_max_unpool, &twice, both, 2, "unpool%d", k + 1);
        for (int i = 0; i < times[k]; i++) {
            const bool narrows = i == times[k] - 1;
            if (k > 0 || !narrows)
                x = unit(
                    n, x, dti_scale(n, narrows ? out[k - 1] : out[k]), "decoder", k + 1, i + 1);
        }
    }
    const dti_conv scores = {
        .out = n->opts.classes, .kernel = 3, .stride = 1, .pad = 1, .bias = true};
    return dti_add_conv(n, x, scores, "scores");
}

const dt_model_desc dt_model_segnet = {
    .name = "segnet",
    .summary = "SegNet: VGG-16 and back by the positions of maxima, a label for every pixel",
    .input = {1, 224, 224, 3},
    .classes = 11,
    .dropout = -1,
    .layers = segnet_layers,
};
