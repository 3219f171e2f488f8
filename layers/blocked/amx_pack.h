/* Values of one sample laid out for the sums of layers/blocked/amx_weights.h.
 *
 * Pixels are counted through an image padded on all sides, of which each of stride * stride phases
 * has its own copy: then a tap's pixels follow each other as dy's do, from an offset on. dy has
 * zeros where x has what is no part of it.
 *   x: [phase][channel][pitch], dy: [group of 16 channels][pair of pixels][16][2] */
#ifndef DT_LAYERS_BLOCKED_AMX_PACK_H
#define DT_LAYERS_BLOCKED_AMX_PACK_H

#include "layers/blocked/amx.h"
#include "layers/blocked/amx_weights.h"

/**
 * struct dt_amx_layout - how a sample is packed.
 * @across @down: pixels of a phase
 * @side @phases: phases along one side, and in all
 * @steps:        of a sample
 * @pitch:        values of a channel of x: an odd number of cache lines, or rows would meet in few
 * @x @dy:        values of a packed sample
 */
typedef struct dt_amx_layout {
    int64_t across, down, side, phases, steps, pitch, x, dy;
} dt_amx_layout;

dt_amx_layout dt_amx_layout_of(const dt_amx_weights *a);

/* One sample, [h][w][c] and [p][q][out]. Where AMX is compiled in only. */
void dt_amx_pack_x(const dt_amx_weights *a, const dt_amx_layout *l, const dt_bf16 *x, dt_bf16 *to);
void dt_amx_pack_dy(
    const dt_amx_weights *a, const dt_amx_layout *l, const dt_bf16 *dy, dt_bf16 *to);

#endif
