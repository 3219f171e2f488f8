/* The shortcut without parameters of residual networks (option A, He et al. 2016): every stride-th
 * pixel, with channels of zeros around the ones there are. */
#ifndef DT_LAYERS_SHAPE_SHORTCUT_H
#define DT_LAYERS_SHAPE_SHORTCUT_H

#include "engine/layer.h"

typedef struct dt_shortcut {
    int64_t
        out; /* channels, at least the input's; half of the new ones (rounded down) lie in front */
    int64_t stride; /* the output has ceil(h / stride) x ceil(w / stride) pixels */
} dt_shortcut;

extern const dt_layer_desc dt_layer_shortcut;

#endif
