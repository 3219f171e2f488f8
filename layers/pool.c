/* Windows over a map: what the pooling layers share of their shapes. */
#include "layers/pool.h"

#include <inttypes.h>

static int64_t windows(const dt_window *p, int64_t size)
{
    const int64_t beyond = size + 2 * p->pad - p->kernel;
    int64_t n = (beyond + (p->ceil ? p->stride - 1 : 0)) / p->stride + 1;
    if (p->ceil && (n - 1) * p->stride >= size + p->pad)
        n--;
    return n;
}

dt_status dti_window_infer(
    const dt_window *p, const char *layer, const dt_shape *x, dt_shape *y, dt_err *err)
{
    if (p->kernel < 1 || p->stride < 1 || p->pad < 0 || p->kernel > INT32_MAX ||
        p->stride > INT32_MAX)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: kernel %" PRId64 ", stride %" PRId64 ", pad %" PRId64
            "; kernel and stride must be at least 1, pad at least 0",
            layer, p->kernel, p->stride, p->pad);
    if (p->pad > p->kernel / 2)
        return DT_FAIL(err, DT_E_CONFIG, "%s: pad %" PRId64 " is more than half of kernel %" PRId64,
            layer, p->pad, p->kernel);
    if (x->h + 2 * p->pad < p->kernel || x->w + 2 * p->pad < p->kernel)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: kernel %" PRId64 " is larger than the input, %" PRId64 "x%" PRId64
            " with pad %" PRId64,
            layer, p->kernel, x->h, x->w, p->pad);
    *y = (dt_shape){x->n, windows(p, x->h), windows(p, x->w), x->c};
    return DT_OK;
}
