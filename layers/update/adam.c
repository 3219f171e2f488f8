/* Adam, an op of no layer. */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

const dt_layer_desc dt_layer_adam = {
    .name = "adam",
    .summary = "Adam with weight decay added to the gradient, as PyTorch's Adam",
    .form =
        {
            [DT_UPDATE] = {.suffix = "adam",
                .reads = DT_BIT(DT_DP),
                .updates = DT_BIT(DT_P) | DT_BIT(DT_M) | DT_BIT(DT_M + 1)},
        },
    .cpu = &dt_adam_cpu,
};
