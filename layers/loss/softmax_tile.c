/* A tile of the scores of which a softmax is made. */
#include "layers/loss/softmax_tile.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"

/* clang-format off */
static const dt_opt options[] = {
    {"first", DT_OPT_I64, offsetof(dt_softmax_tile, first), "0", 0, 1 << 20, NULL, "classes", "class of the first score"},
    {0},
};
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_softmax_tile *o = opts;
    const double elements = (double)dt_shape_sample(&x[0]);
    if (x[0].w != 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "softmax_tile: takes scores of samples or of the positions of a sequence, not of a map "
            "%" PRId64 " wide; give cross_entropy all scores of the pixels",
            x[0].w);
    if (n_x > 1 && (x[1].h != x[0].h || x[1].w != 1 || x[1].c != DTI_TILE_STATE))
        return DT_FAIL(err, DT_E_CONFIG,
            "softmax_tile: its second input is what the softmax_tile before gives, for as many "
            "positions");
    *info = (dt_layer_info){
        .y = {1, x[0].h, 1, DTI_TILE_STATE},
        .scores = x[0].c,
        .first_score = o->first,
        .forward_flops = 5 * elements,
        .backward_flops = {3 * elements},
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_softmax_tile = {
    .name = "softmax_tile",
    .summary = "what a loss wants to know of a tile of the scores, and of those before",
    .opts = options,
    .opts_bytes = sizeof(dt_softmax_tile),
    .min_in = 1,
    .max_in = 2,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_LABELS),
                .writes = DT_BIT(DT_Y)},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY) | DT_BIT(DT_LABELS),
                .writes = DT_BIT(DT_DX),
                .saved = true,
                .n_over = 1,
                .over = {{DT_DX, DT_X}}},
        },
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X) | DT_BIT(DT_Y)}},
    .repeatable = true,
    .fp32 = DT_BIT(DT_Y) | DT_BIT(DT_X + 1),
    .infer = infer,
    .cpu = &dt_softmax_tile_cpu,
};
