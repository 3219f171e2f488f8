/* AlexNet in torchvision's form, Krizhevsky 2014 ("One weird trick"): one column, no response norm.
 */
#include "models/model.h"
#include "models/net.h"

/* Where a map of 6x6 or 12x12 is left; the strides 4, 2, 2 and 2 make whole ranges. */
static const char images[] = "223 to 254 or 415 to 446";

static int32_t alexnet_features(dti_net *n)
{
    static const struct {
        int64_t out, kernel, stride, pad;
        bool pool;
    } rows[] = {
        {64, 11, 4, 2, true},
        {192, 5, 1, 2, true},
        {384, 3, 1, 1, false},
        {256, 3, 1, 1, false},
        {256, 3, 1, 1, true},
    };
    int32_t x = DT_GRAPH_INPUT;
    int at = 0; /* index in torchvision's nn.Sequential */
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const dti_conv c = {
            dti_scale(n, rows[i].out), rows[i].kernel, rows[i].stride, rows[i].pad, true};
        x = dti_add_conv(n, x, c, "features.%d", at++);
        x = dti_add_relu(n, x, "features.%d", at++);
        if (rows[i].pool)
            x = dti_add_maxpool(n, x, (dti_pool){3, 2, 0}, "features.%d", at++);
    }
    return x;
}

static int32_t alexnet_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t x = alexnet_features(n);
    x = dti_add_adaptive(n, x, 6, images);
    x = dti_add_dropout(n, x, "classifier.0");
    x = dti_add_fc(n, x, dti_scale(n, 4096), "classifier.1");
    x = dti_add_relu(n, x, "classifier.2");
    x = dti_add_dropout(n, x, "classifier.3");
    x = dti_add_fc(n, x, dti_scale(n, 4096), "classifier.4");
    x = dti_add_relu(n, x, "classifier.5");
    return dti_add_fc(n, x, n->opts.classes, "classifier.6");
}

const dt_model_desc dt_model_alexnet = {
    .name = "alexnet",
    .summary = "AlexNet, torchvision's one-column form",
    .input = {1, 224, 224, 3},
    .classes = 1000,
    .dropout = 0.5,
    .layers = alexnet_layers,
};
