/* What pooling layers share: where windows lie. */
#ifndef DT_LAYERS_POOL_POOL_H
#define DT_LAYERS_POOL_POOL_H

#include "layers/cpu/tasks.h"
#include "engine/base/error.h"
#include "engine/shape.h"

/* Windows along one side of a map; stride is never 0 here. */
typedef struct dti_window_side {
    int64_t kernel, stride, pad;
    bool ceil;
} dti_window_side;

/* Along both. */
typedef struct dti_windows {
    dti_window_side h, w;
} dti_windows;

/* Of options: sides (engine/shape.h); a stride of 0 is the kernel's. */
static inline dti_windows dti_windows_of(int64_t kernel, int64_t stride, int64_t pad, bool ceil)
{
    dti_windows p;
    p.h.kernel = dt_sides_h(kernel);
    p.w.kernel = dt_sides_w(kernel);
    p.h.stride = dt_sides_h(stride) == 0 ? p.h.kernel : dt_sides_h(stride);
    p.w.stride = dt_sides_w(stride) == 0 ? p.w.kernel : dt_sides_w(stride);
    p.h.pad = dt_sides_h(pad);
    p.w.pad = dt_sides_w(pad);
    p.h.ceil = p.w.ceil = ceil;
    return p;
}

/* Shape of the output. With ceil the size is rounded up, but the last window must start inside the
 * input or its left padding. DT_E_CONFIG for numbers out of range, padding over half a kernel, and
 * windows larger than the padded input, with ceil by a stride or more, as in PyTorch. */
dt_status dti_windows_infer(const dti_windows *p, const char *layer, const dt_shape *x, dt_shape *y,
    dt_err *err) DT_NODISCARD;

/* Part of [0, size) that window number i covers. */
DT_BOTH static inline dti_span dti_window_span(const dti_window_side *p, int64_t i, int64_t size)
{
    const int64_t begin = i * p->stride - p->pad, end = begin + p->kernel;
    return (dti_span){begin > 0 ? begin : 0, end < size ? end : size};
}

/* Windows, of @count, that reach any of some pixels. */
DT_BOTH static inline dti_span dti_windows_reaching(
    const dti_window_side *p, dti_span pixels, int64_t count)
{
    const int64_t late = pixels.begin + p->pad - p->kernel;
    const int64_t begin = late < 0 ? 0 : dti_quotient(late, p->stride) + 1;
    const int64_t end = dti_quotient(pixels.end - 1 + p->pad, p->stride) + 1;
    return (dti_span){begin, end < count ? end : count};
}

#endif
