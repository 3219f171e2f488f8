/* Perceptrons with two hidden layers, 512 and 256 units at width 64. */
#include "models/model.h"
#include "models/net.h"

static int32_t mlp_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t x = DT_GRAPH_INPUT;
    for (int i = 1; i <= 2; i++) {
        x = dti_add_fc(n, x, dti_scale(n, i == 1 ? 512 : 256), "fc%d", i);
        x = dti_add_relu(n, x, "relu%d", i);
        x = dti_add_dropout(n, x, "dropout%d", i);
    }
    return dti_add_fc(n, x, n->opts.classes, "fc3");
}

const dt_model_desc dt_model_mlp = {
    .name = "mlp",
    .summary = "perceptron 784-512-256-10, dropout on request",
    .input = {1, 28, 28, 1},
    .classes = 10,
    .dropout = 0,
    .layers = mlp_layers,
};
