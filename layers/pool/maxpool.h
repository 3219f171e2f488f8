/* Maximum over windows, as PyTorch's MaxPool2d: padding never wins, the first maximum in row-major
 * order of the window takes the gradient, a NaN wins over every number.
 *
 * The stash "index" holds the winner's position in its window, row by row. Up to 16 positions take
 * four bits (Gist, Jain et al. 2018): output e of a sample, counted in NHWC, is the lower half of
 * byte e / 2 if e is even, else the upper. More positions take a byte each. */
#ifndef DT_LAYERS_POOL_MAXPOOL_H
#define DT_LAYERS_POOL_MAXPOOL_H

#include "engine/layer.h"

typedef struct dt_maxpool {
    int64_t kernel; /* sides (engine/shape.h), as stride and pad; at most 15: a position in the
                       window fits a byte */
    int64_t stride; /* 0: as kernel */
    int64_t pad;    /* at most kernel / 2 */
    bool ceil;      /* round the output size up; the last window still starts inside */
} dt_maxpool;

enum { DTI_MAXPOOL_MOST = 15 }; /* of a kernel: 15 * 15 positions fit a byte */

extern const dt_layer_desc dt_layer_maxpool;
/* The same options; y are the positions that the stash would hold, as numbers. It has no gradient.
 */
extern const dt_layer_desc dt_layer_maxpool_index;

/* Whether a position takes four bits. */
static inline bool dti_maxpool_packed(const dt_maxpool *m)
{
    return dt_sides_h(m->kernel) * dt_sides_w(m->kernel) <= 16;
}

#endif
