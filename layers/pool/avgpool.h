/* Mean over windows, as PyTorch's AvgPool2d. */
#ifndef DT_LAYERS_POOL_AVGPOOL_H
#define DT_LAYERS_POOL_AVGPOOL_H

#include "engine/layer.h"

typedef struct dt_avgpool {
    int64_t kernel;   /* sides (engine/shape.h), as stride and pad */
    int64_t stride;   /* 0: as kernel */
    int64_t pad;      /* at most kernel / 2 */
    bool ceil;        /* round the output size up; the last window still starts inside */
    bool include_pad; /* padding counts in the divisor; what lies beyond it never does */
} dt_avgpool;

extern const dt_layer_desc dt_layer_avgpool;

#endif
