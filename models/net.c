/* Layers appended to a network one call each, up to the first error. */
#include "models/net.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "layers/avgpool.h"
#include "layers/batchnorm.h"
#include "layers/conv.h"
#include "layers/dropout.h"
#include "layers/fc.h"
#include "layers/maxpool.h"
#include "layers/plain.h"

static int32_t __attribute__((format(printf, 6, 0))) append(dti_net *n, const dt_layer_desc *desc,
    const void *opts, const int32_t *in, int n_in, const char *fmt, va_list args)
{
    if (n->status != DT_OK)
        return DT_GRAPH_INPUT;
    char name[DT_NAME_BYTES];
    const int len = vsnprintf(name, sizeof name, fmt, args);
    DT_ASSERT(len > 0 && (size_t)len < sizeof name);
    int32_t id = DT_GRAPH_INPUT;
    n->status = dt_graph_add(n->g, desc, name, opts, in, n_in, &id, n->err);
    return id;
}

int32_t dti_layer(dti_net *n, const dt_layer_desc *desc, const void *opts, const int32_t *in,
    int n_in, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, desc, opts, in, n_in, fmt, args);
    va_end(args);
    return y;
}

int32_t dti_add_conv(dti_net *n, int32_t x, dti_conv c, const char *fmt, ...)
{
    const dt_conv o = {.out = c.out,
        .kernel = c.kernel,
        .stride = c.stride,
        .pad = c.pad,
        .dilation = 1,
        .groups = 1,
        .bias = c.bias};
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, &dt_layer_conv, &o, &x, 1, fmt, args);
    va_end(args);
    return y;
}

int32_t dti_add_bn(dti_net *n, int32_t x, bool zero_init, const char *fmt, ...)
{
    const dt_batchnorm o = {.eps = 1e-5, .momentum = 0.1, .zero_init = zero_init};
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, &dt_layer_batchnorm, &o, &x, 1, fmt, args);
    va_end(args);
    return y;
}

int32_t dti_add_relu(dti_net *n, int32_t x, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, &dt_layer_relu, NULL, &x, 1, fmt, args);
    va_end(args);
    return y;
}

int32_t dti_add_fc(dti_net *n, int32_t x, int64_t out, const char *fmt, ...)
{
    const dt_fc o = {.out = out, .bias = true};
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, &dt_layer_fc, &o, &x, 1, fmt, args);
    va_end(args);
    return y;
}

int32_t dti_add_sum(dti_net *n, int32_t a, int32_t b, const char *fmt, ...)
{
    const int32_t in[2] = {a, b};
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, &dt_layer_add, NULL, in, 2, fmt, args);
    va_end(args);
    return y;
}

int32_t dti_add_maxpool(dti_net *n, int32_t x, dti_pool p, const char *fmt, ...)
{
    const dt_maxpool o = {.kernel = p.kernel, .stride = p.stride, .pad = p.pad};
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, &dt_layer_maxpool, &o, &x, 1, fmt, args);
    va_end(args);
    return y;
}

int32_t dti_add_adaptive(dti_net *n, int32_t x, int64_t side, const char *images)
{
    if (n->status != DT_OK)
        return x;
    const dt_shape map = dt_graph_shape(n->g, x);
    if (map.h == side && map.w == side)
        return x;
    if (map.h != map.w || map.h % side != 0) {
        n->status = DT_FAIL(n->err, DT_E_CONFIG,
            "%s: an image of %" PRId64 " pixels leaves a map of %" PRId64 "x%" PRId64
            " before the classifier, which wants %" PRId64 "x%" PRId64
            " or a multiple; [model] image may be %s",
            n->g->name, n->opts.image, map.h, map.w, side, side, images);
        return x;
    }
    const dt_avgpool o = {.kernel = map.h / side, .stride = map.h / side, .include_pad = true};
    return dti_layer(n, &dt_layer_avgpool, &o, &x, 1, "avgpool");
}

int32_t dti_add_global_avgpool(dti_net *n, int32_t x)
{
    return dti_layer(n, &dt_layer_global_avgpool, NULL, &x, 1, "avgpool");
}

int32_t dti_add_dropout(dti_net *n, int32_t x, const char *fmt, ...)
{
    if (!(n->opts.dropout > 0))
        return x;
    const dt_dropout o = {.rate = n->opts.dropout};
    va_list args;
    va_start(args, fmt);
    const int32_t y = append(n, &dt_layer_dropout, &o, &x, 1, fmt, args);
    va_end(args);
    return y;
}

int64_t dti_scale(const dti_net *n, int64_t channels)
{
    const int64_t c = (channels * n->opts.width + 32) / 64;
    return c > 0 ? c : 1;
}
