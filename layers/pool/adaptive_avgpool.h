/* Mean over windows that cut the map into out x out parts, as PyTorch's AdaptiveAvgPool2d(out): of
 * n rows, window i has those from floor(i n / out) up to, without, ceil((i + 1) n / out). Windows
 * may overlap, and repeat when out is larger than the map. */
#ifndef DT_LAYERS_POOL_ADAPTIVE_AVGPOOL_H
#define DT_LAYERS_POOL_ADAPTIVE_AVGPOOL_H

#include "engine/layer.h"

typedef struct dti_adaptive_avgpool {
    int64_t out; /* height and width of the output */
} dti_adaptive_avgpool;

extern const dt_layer_desc dt_layer_adaptive_avgpool;

#endif
