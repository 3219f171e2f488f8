/* Max unpooling (Zeiler et al. 2011; SegNet, Badrinarayanan et al. 2015): each value goes to where
 * the maximum of its window was, everything else is zero. PyTorch's MaxUnpool2d. */
#ifndef DT_LAYERS_POOL_MAX_UNPOOL_H
#define DT_LAYERS_POOL_MAX_UNPOOL_H

#include "engine/layer.h"

/**
 * struct dt_max_unpool - options; kernel, stride and pad as the pool had them.
 * @kernel @stride @pad: pixels, as sides (engine/shape.h); a stride of 0 is the kernel, and none is
 * less: windows may not overlap
 * @more: rows and columns behind the last window, as sides, each less than the stride
 *
 * x0 {n, h, w, c}, the values, and x1 of the same shape, positions as maxpool_index gives them,
 * make y {n, p, q, c} with p = (h - 1) stride + kernel - 2 pad + more, and q likewise. A position
 * that is none of the window's takes its value nowhere. Stash "index": a byte for each position.
 */
typedef struct dt_max_unpool {
    int64_t kernel, stride, pad, more;
} dt_max_unpool;

enum { DTI_UNPOOL_NOWHERE = 255 }; /* in the stash */

extern const dt_layer_desc dt_layer_max_unpool;

#endif
