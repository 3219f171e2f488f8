/* Maximum over windows, as PyTorch's MaxPool2d: padding never wins, the first maximum in row-major
 * order of the window takes the gradient, a NaN wins over every number. */
#ifndef DT_LAYERS_MAXPOOL_H
#define DT_LAYERS_MAXPOOL_H

#include "engine/layer.h"

typedef struct dt_maxpool {
    int64_t kernel; /* at most 15: a position in the window fits a byte */
    int64_t stride; /* 0: as kernel */
    int64_t pad;    /* at most kernel / 2 */
    bool ceil;      /* round the output size up; the last window still starts inside */
} dt_maxpool;

extern const dt_layer_desc dt_layer_maxpool;

#endif
