/* Windows over a map: what the pooling layers share of their shapes. */
#include "layers/pool/pool.h"

#include <inttypes.h>

#include "engine/config/options.h"

/* How far the last window may begin behind the first. Less than 0: there is no window. */
static int64_t span_of(const dti_window_side *p, int64_t size)
{
    return size + 2 * p->pad - p->kernel + (p->ceil ? p->stride - 1 : 0);
}

static int64_t windows(const dti_window_side *p, int64_t size)
{
    int64_t n = span_of(p, size) / p->stride + 1;
    if (p->ceil && (n - 1) * p->stride >= size + p->pad)
        n--;
    return n;
}

static dt_status check(const dti_window_side *p, const char *layer, dt_err *err)
{
    if (p->kernel < 1 || p->stride < 1 || p->pad < 0 || p->kernel > INT32_MAX ||
        p->stride > INT32_MAX || p->pad > INT32_MAX)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: kernel %" PRId64 ", stride %" PRId64 ", pad %" PRId64
            "; kernel and stride must be at least 1, pad at least 0",
            layer, p->kernel, p->stride, p->pad);
    if (p->pad > p->kernel / 2)
        return DT_FAIL(err, DT_E_CONFIG, "%s: pad %" PRId64 " is more than half of kernel %" PRId64,
            layer, p->pad, p->kernel);
    return DT_OK;
}

dt_status dti_windows_infer(
    const dti_windows *p, const char *layer, const dt_shape *x, dt_shape *y, dt_err *err)
{
    DT_CHECK(check(&p->h, layer, err));
    DT_CHECK(check(&p->w, layer, err));
    if (span_of(&p->h, x->h) < 0 || span_of(&p->w, x->w) < 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: kernel %s is larger than the input, %" PRId64 "x%" PRId64 " with pad %s", layer,
            dt_sides_print(dt_sides(p->h.kernel, p->w.kernel)).s, x->h, x->w,
            dt_sides_print(dt_sides(p->h.pad, p->w.pad)).s);
    *y = (dt_shape){x->n, windows(&p->h, x->h), windows(&p->w, x->w), x->c};
    return DT_OK;
}
