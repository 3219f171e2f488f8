/* The commit of a pending running statistic, an op of no layer. */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

const dt_layer_desc dt_layer_commit = {
    .name = "commit",
    .summary = "a running statistic takes the value the step has prepared",
    .form =
        {
            [DT_UPDATE] = {.suffix = "commit", .reads = DT_BIT(DT_Q), .writes = DT_BIT(DT_P)},
        },
    .cpu = &dt_commit_cpu,
};
