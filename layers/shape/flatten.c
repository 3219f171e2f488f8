/* A marker that does nothing: fc reads a map as it lies and keeps PyTorch's C, H, W order of weight
 * columns, so the map keeps its shape. */
#include "layers/plain.h"

static dt_status flatten_infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    (void)opts, (void)n_x, (void)err;
    *info = (dt_layer_info){.y = x[0]};
    return DT_OK;
}

const dt_layer_desc dt_layer_flatten = {
    .name = "flatten",
    .summary =
        "marks where a map is read as one vector, as fc does by itself: channel by channel, with "
        "layers between that go value by value; for tokens, which PyTorch flattens place by place, "
        "put permute with order = hcw before it",
    .min_in = 1,
    .max_in = 1,
    .identity = true,
    .reads_flat = true,
    .repeatable = true,
    .infer = flatten_infer,
};
