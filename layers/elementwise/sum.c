/* The sum of two gradients of one value, an op of no layer. */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

const dt_layer_desc dt_layer_sum = {
    .name = "sum",
    .summary = "add two gradients of one value",
    .min_in = 2,
    .max_in = 2,
    .form =
        {
            [DT_FORWARD] = {.suffix = "sum",
                .reads = DT_BITS(DT_X, 2),
                .writes = DT_BIT(DT_Y),
                .split = true,
                .n_over = 2,
                .over = {{DT_Y, DT_X}, {DT_Y, DT_X + 1}}},
        },
    .cpu = &dt_sum_cpu,
};
