/* Axes in another order: PyTorch's x.permute, of NHWC values. */
#ifndef DT_LAYERS_SHAPE_PERMUTE_H
#define DT_LAYERS_SHAPE_PERMUTE_H

#include "engine/layer.h"

enum { DTI_PERMUTE_HCW, DTI_PERMUTE_WHC, DTI_PERMUTE_WCH, DTI_PERMUTE_CHW, DTI_PERMUTE_CWH };

/* Height, width and channels of y are these axes of x: chw makes {n, h, w, c} a value of
 * {n, c, h, w}. */
typedef struct dti_permute {
    int order; /* DTI_PERMUTE_HCW ... */
} dti_permute;

/* How y is read off x, or dx off dy: its sides, and how far apart in the other value the
 * neighbours along each of them lie. */
typedef struct dti_permute_walk {
    int64_t side[3], step[3];
} dti_permute_walk;

/* @x: the layer's input; @back: from dy to dx. */
static inline dti_permute_walk dti_permute_walk_of(dt_shape x, int order, bool back)
{
    static const int axes[][3] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const int *axis = axes[order];
    const int64_t x_side[3] = {x.h, x.w, x.c}, x_step[3] = {x.w * x.c, x.c, 1};
    dti_permute_walk y, dx;
    for (int k = 0; k < 3; k++) {
        y.side[k] = x_side[axis[k]];
        y.step[k] = x_step[axis[k]];
    }
    const int64_t y_step[3] = {y.side[1] * y.side[2], y.side[2], 1};
    for (int k = 0; k < 3; k++) {
        dx.side[axis[k]] = y.side[k];
        dx.step[axis[k]] = y_step[k];
    }
    return back ? dx : y;
}

extern const dt_layer_desc dt_layer_permute;

#endif
