/* What the two pooling layers share: where windows lie. */
#ifndef DT_LAYERS_POOL_H
#define DT_LAYERS_POOL_H

#include "layers/cpu/tasks.h"
#include "engine/base/error.h"
#include "engine/shape.h"

/* Square windows; stride is never 0 here. */
typedef struct dt_window {
    int64_t kernel, stride, pad;
    bool ceil;
} dt_window;

/* Shape of the output. With ceil the size is rounded up, but the last window must start inside the
 * input or its left padding. DT_E_CONFIG for numbers out of range, padding over half a kernel, and
 * windows larger than the padded input. */
dt_status dti_window_infer(const dt_window *p, const char *layer, const dt_shape *x, dt_shape *y,
    dt_err *err) DT_NODISCARD;

/* Part of [0, size) that window number i covers. */
DT_BOTH static inline dt_span dti_window_span(const dt_window *p, int64_t i, int64_t size)
{
    const int64_t begin = i * p->stride - p->pad, end = begin + p->kernel;
    return (dt_span){begin > 0 ? begin : 0, end < size ? end : size};
}

#endif
