/* Means along an axis, or over both of a map: PyTorch's x.mean(axis, keepdim=True). */
#ifndef DT_LAYERS_POOL_MEAN_H
#define DT_LAYERS_POOL_MEAN_H

#include "engine/layer.h"

enum { DTI_MEAN_HEIGHT, DTI_MEAN_WIDTH, DTI_MEAN_SPACE, DTI_MEAN_CHANNELS };

/* x {n, h, w, c} gives {n, 1, w, c} over the height, which are the positions of a sequence,
 * {n, h, 1, c} over the width, {n, 1, 1, c} over both and {n, h, w, 1} over the channels. */
typedef struct dti_mean {
    int over; /* DTI_MEAN_HEIGHT ... */
} dti_mean;

/* A sample of x as @outer times @count times @inner values. A mean is over @count of them, which
 * are @inner apart. */
typedef struct dti_mean_view {
    int64_t outer, count, inner;
} dti_mean_view;

static inline dti_mean_view dti_mean_view_of(dt_shape x, int over)
{
    if (over == DTI_MEAN_HEIGHT)
        return (dti_mean_view){1, x.h, x.w * x.c};
    if (over == DTI_MEAN_WIDTH)
        return (dti_mean_view){x.h, x.w, x.c};
    if (over == DTI_MEAN_SPACE)
        return (dti_mean_view){1, x.h * x.w, x.c};
    return (dti_mean_view){x.h * x.w, x.c, 1};
}

extern const dt_layer_desc dt_layer_mean;

#endif
