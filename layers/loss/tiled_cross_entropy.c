/* The loss of scores that came in tiles. */
#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/loss/softmax_tile.h"

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x;
    if (x[0].w != 1 || x[0].c != DTI_TILE_STATE)
        return DT_FAIL(err, DT_E_CONFIG,
            "tiled_cross_entropy: takes what the last softmax_tile gives, not %" PRId64
            " channels; cross_entropy takes scores",
            x[0].c);
    *info = (dt_layer_info){.y = {x[0].n, 1, 1, 1}, .forward_flops = 50 * (double)x[0].h};
    return DT_OK;
}

/* Its gradient depends on which positions count alone, so of values backward reads nothing. */
const dt_layer_desc dt_layer_tiled_cross_entropy = {
    .name = "tiled_cross_entropy",
    .summary = "cross_entropy of scores in tiles, by the state that the last softmax_tile gives",
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_LABELS),
                .updates = DT_BIT(DT_METRICS)},
            [DT_EVAL] = {.suffix = "e",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_LABELS),
                .updates = DT_BIT(DT_METRICS)},
            [DT_BACKWARD] = {.suffix = "b", .reads = DT_BIT(DT_LABELS), .writes = DT_BIT(DT_DX)},
        },
    .reads_flat = true,
    .loss = true,
    .fp32 = DT_BIT(DT_X),
    .infer = infer,
    .cpu = &dt_tiled_cross_entropy_cpu,
};
