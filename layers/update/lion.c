/* Lion, an op of no layer: Chen et al., "Symbolic Discovery of Optimization Algorithms" (NeurIPS
 * 2023), Program 1. It keeps one moment of each weight, where Adam keeps two. */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

const dt_layer_desc dt_layer_lion = {
    .name = "lion",
    .summary = "Lion with decoupled weight decay: steps of lr by the sign of a mean gradient",
    .form =
        {
            [DT_UPDATE] = {.suffix = "lion",
                .reads = DT_BIT(DT_DP),
                .updates = DT_BIT(DT_P) | DT_BIT(DT_M)},
        },
    .cpu = &dt_lion_cpu,
};
