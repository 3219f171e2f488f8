/* AdamW, an op of no layer. */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

const dt_layer_desc dt_layer_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay, as PyTorch's AdamW",
    .form =
        {
            [DT_UPDATE] = {.suffix = "adamw",
                .reads = DT_BIT(DT_DP),
                .updates = DT_BIT(DT_P) | DT_BIT(DT_M) | DT_BIT(DT_M + 1)},
        },
    .cpu = &dt_adamw_cpu,
};
