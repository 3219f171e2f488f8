/* Stochastic gradient descent, an op of no layer. */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

const dt_layer_desc dt_layer_sgd = {
    .name = "sgd",
    .summary = "stochastic gradient descent with momentum and weight decay, as PyTorch's SGD",
    .form =
        {
            [DT_UPDATE] = {.suffix = "sgd",
                .reads = DT_BIT(DT_DP),
                .updates = DT_BIT(DT_P) | DT_BIT(DT_M),
                .may_lack = DT_BIT(DT_M)},
        },
    .cpu = &dt_sgd_cpu,
};
