/* LeNet-5, LeCun et al. 1998, with the sizes of the paper and the parts of today: ReLU, max
 * pooling, every map connected to every other, softmax. */
#include "models/model.h"
#include "models/net.h"

#include "engine/config/options.h"

static int32_t lenet5_layers(const dt_model_desc *m, dti_net *n)
{
    if (n->opts.image != 28 && n->opts.image != 32) {
        n->status = DT_FAIL(n->err, DT_E_CONFIG,
            "%s takes images of 28 or 32 pixels, not %s; set [model] image", m->name,
            dt_sides_print(n->opts.image).s);
        return DT_GRAPH_INPUT;
    }
    const int64_t pad = n->opts.image == 28 ? 2 : 0; /* the paper set 28 pixels into 32 */
    const dti_pool halve = {.kernel = 2, .stride = 2};
    int32_t x = DT_GRAPH_INPUT;
    x = dti_add_conv(n, x, (dti_conv){dti_scale(n, 6), 5, 1, pad, true}, "conv1");
    x = dti_add_relu(n, x, "relu1");
    x = dti_add_maxpool(n, x, halve, "pool1");
    x = dti_add_conv(n, x, (dti_conv){dti_scale(n, 16), 5, 1, 0, true}, "conv2");
    x = dti_add_relu(n, x, "relu2");
    x = dti_add_maxpool(n, x, halve, "pool2");
    x = dti_add_fc(n, x, dti_scale(n, 120), "fc1");
    x = dti_add_relu(n, x, "relu3");
    x = dti_add_fc(n, x, dti_scale(n, 84), "fc2");
    x = dti_add_relu(n, x, "relu4");
    return dti_add_fc(n, x, n->opts.classes, "fc3");
}

const dt_model_desc dt_model_lenet5 = {
    .name = "lenet5",
    .summary = "LeNet-5 for digits of 28 or 32 pixels, with ReLU and max pooling",
    .input = {1, 28, 28, 1},
    .classes = 10,
    .dropout = -1,
    .layers = lenet5_layers,
};
