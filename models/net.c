/* Layers appended to a network one call each, up to the first error. */
#include "models/net.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/config/options.h"
#include "engine/graph_share.h"
#include "layers/pool/avgpool.h"
#include "layers/norm/batchnorm.h"
#include "layers/shape/concat.h"
#include "layers/weighted/conv.h"
#include "layers/elementwise/dropout.h"
#include "layers/weighted/fc.h"
#include "layers/pool/maxpool.h"
#include "layers/plain.h"
#include "layers/loss/softmax_tile.h"

static int32_t __attribute__((format(printf, 6, 0))) append(dti_net *n, const dt_layer_desc *desc,
    const void *opts, const int32_t *in, int n_in, const char *fmt, va_list args)
{
    if (n->status != DT_OK)
        return DT_GRAPH_INPUT;
    char name[DT_NAME_BYTES];
    const int len = vsnprintf(name, sizeof name, fmt, args);
    int32_t id = DT_GRAPH_INPUT;
    if (len <= 0 || (size_t)len >= sizeof name) { /* a layer's own, with more behind it */
        n->status = DT_FAIL(n->err, DT_E_CONFIG, "layer '%.40s...': its name is too long by %d",
            name, len - (int)sizeof name + 1);
        return id;
    }
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

/* ---- tiles ---- */

/* Outputs of a tile. Where they do not divide it names the numbers next to @tiles that would. */
static int64_t tile_outputs(
    dti_net *n, const char *key, int64_t tiles, int64_t most, int64_t outputs, const char *name)
{
    if (outputs % tiles == 0)
        return outputs / tiles;
    int64_t below = tiles, above = tiles;
    while (outputs % below != 0)
        below--;
    while (above < most && above < outputs && outputs % above != 0)
        above++;
    char more[32] = "";
    if (outputs % above == 0)
        snprintf(more, sizeof more, " or %" PRId64, above);
    if (n->status == DT_OK)
        n->status = DT_FAIL(n->err, DT_E_CONFIG,
            "%s: %s = %" PRId64 " does not divide the %" PRId64 " outputs of '%s'; %" PRId64
            "%s would",
            n->g->name, key, tiles, outputs, name, below, more);
    return 1;
}

/* The node appended last is a part of the layer that begins with @with. */
static void join(const dti_net *n, int32_t node, int32_t with, dt_part part)
{
    if (n->status == DT_OK)
        dt_graph_join(n->g, node, with, part);
}

typedef union weighted_opts {
    int64_t out;
    dt_fc fc;
    dt_linear linear;
} weighted_opts;
_Static_assert(offsetof(dt_fc, out) == 0 && offsetof(dt_linear, out) == 0, "out is the first");

bool dti_is_weighted(const dt_layer_desc *desc)
{
    return desc == &dt_layer_fc || desc == &dt_layer_linear;
}

int32_t dti_add_weighted(
    dti_net *n, const dt_layer_desc *desc, const void *opts, int32_t x, const char *name)
{
    DT_ASSERT(dti_is_weighted(desc));
    const int64_t tiles = n->opts.tiles;
    weighted_opts o;
    int32_t tile[DTI_MODEL_TILES];
    memcpy(&o, opts, desc->opts_bytes);
    const int64_t outputs = o.out;
    n->cut = true;
    if (tiles < 2)
        return dti_layer(n, desc, opts, &x, 1, "%s", name);
    o.out = tile_outputs(n, "tiles", tiles, DTI_MODEL_TILES, outputs, name);
    for (int i = 0; i < (int)tiles; i++) {
        tile[i] = dti_layer(n, desc, &o, &x, 1, "%s.%d", name, i);
        join(n, tile[i], tile[0], (dt_part){i * o.out, outputs});
    }
    const int32_t y = dti_layer(n, &dt_layer_concat, NULL, tile, (int)tiles, "%s", name);
    join(n, y, tile[0], (dt_part){0, 0});
    return y;
}

static void DT_PRINTF(2, 0) put_name(char to[DT_NAME_BYTES], const char *fmt, va_list args)
{
    const int len = vsnprintf(to, DT_NAME_BYTES, fmt, args);
    DT_ASSERT(len > 0 && len < DT_NAME_BYTES);
}

int32_t dti_add_fc(dti_net *n, int32_t x, int64_t out, const char *fmt, ...)
{
    char name[DT_NAME_BYTES];
    va_list args;
    va_start(args, fmt);
    put_name(name, fmt, args);
    va_end(args);
    const dt_fc o = {.out = out, .bias = true};
    return dti_add_weighted(n, &dt_layer_fc, &o, x, name);
}

int32_t dti_add_linear(dti_net *n, int32_t x, const dt_linear *o, const char *fmt, ...)
{
    char name[DT_NAME_BYTES];
    va_list args;
    va_start(args, fmt);
    put_name(name, fmt, args);
    va_end(args);
    return dti_add_weighted(n, &dt_layer_linear, o, x, name);
}

/* Node of tile i, where tile 0 is node @first: behind each further one stands a sum. */
static int32_t tokens_of_tile(int32_t first, int i)
{
    return i == 0 ? first : first + 2 * i - 1;
}

int32_t dti_add_tokens(dti_net *n, const dt_embedding *o, int32_t *first, const char *name)
{
    const int32_t x = DT_GRAPH_INPUT;
    const int64_t tiles = n->opts.head_tiles;
    n->cut_head = true;
    if (tiles < 2)
        return *first = dti_layer(n, &dt_layer_embedding, o, &x, 1, "%s", name);
    dt_embedding tile = *o;
    tile.rows = tile_outputs(n, "head_tiles", tiles, o->vocab, o->vocab, name);
    int32_t y = *first = dti_layer(n, &dt_layer_embedding, &tile, &x, 1, "%s.0", name);
    join(n, y, *first, (dt_part){0, o->vocab});
    for (int i = 1; i < (int)tiles; i++) {
        tile.first = i * tile.rows;
        const int32_t more = dti_layer(n, &dt_layer_embedding, &tile, &x, 1, "%s.%d", name, i);
        join(n, more, *first, (dt_part){tile.first, o->vocab});
        y = i + 1 == (int)tiles ? dti_add_sum(n, y, more, "%s", name)
                                : dti_add_sum(n, y, more, "%s.sum.%d", name, i);
        join(n, y, *first, (dt_part){0, 0});
    }
    return y;
}

static void share(dti_net *n, int32_t node, int32_t owner)
{
    if (n->status == DT_OK)
        n->status = dt_graph_share(n->g, node, owner, n->err);
}

int32_t dti_add_head(dti_net *n, int32_t x, const dt_linear *o, int32_t shares, const char *name)
{
    const int64_t tiles = n->opts.head_tiles;
    n->cut_head = true;
    if (tiles < 2) {
        const int32_t y = dti_layer(n, &dt_layer_linear, o, &x, 1, "%s", name);
        if (shares != DT_SHARES_NONE)
            share(n, y, shares);
        return y;
    }
    dt_linear tile = *o;
    int32_t first = DT_GRAPH_INPUT, known[2] = {DT_GRAPH_INPUT, DT_GRAPH_INPUT};
    tile.out = tile_outputs(n, "head_tiles", tiles, o->out, o->out, name);
    for (int i = 0; i < (int)tiles; i++) {
        const dt_softmax_tile s = {.first = i * tile.out};
        known[0] = dti_layer(n, &dt_layer_linear, &tile, &x, 1, "%s.%d", name, i);
        first = i == 0 ? known[0] : first;
        join(n, known[0], first, (dt_part){s.first, o->out});
        if (shares != DT_SHARES_NONE)
            share(n, known[0], tokens_of_tile(shares, i));
        known[1] = dti_layer(n, &dt_layer_softmax_tile, &s, known, i == 0 ? 1 : 2, "softmax.%d", i);
    }
    return known[1];
}

const dt_layer_desc *dti_loss_of(const dt_graph *g, int32_t scores)
{
    const bool tiled = scores != DT_GRAPH_INPUT && g->node[scores].desc == &dt_layer_softmax_tile;
    return tiled ? &dt_layer_tiled_cross_entropy : &dt_layer_cross_entropy;
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

void dti_check_image(dti_net *n, int64_t multiple)
{
    const int64_t h = dt_sides_h(n->opts.image), w = dt_sides_w(n->opts.image);
    if (n->status == DT_OK && (h % multiple != 0 || w % multiple != 0))
        n->status = DT_FAIL(n->err, DT_E_CONFIG,
            "%s: an image of %s pixels; height and width must be multiples of %" PRId64
            ": set [model] image",
            n->g->name, dt_sides_print(n->opts.image).s, multiple);
}

int32_t dti_add_adaptive(dti_net *n, int32_t x, int64_t side, const char *images)
{
    if (n->status != DT_OK)
        return x;
    const dt_shape map = dt_graph_shape(n->g, x);
    if (map.h == side && map.w == side)
        return x;
    if (map.h % side != 0 || map.w % side != 0) {
        n->status = DT_FAIL(n->err, DT_E_CONFIG,
            "%s: an image of %s pixels leaves a map of %" PRId64 "x%" PRId64
            " before the classifier, which wants %" PRId64 "x%" PRId64
            " or a multiple; [model] image may be %s",
            n->g->name, dt_sides_print(n->opts.image).s, map.h, map.w, side, side, images);
        return x;
    }
    const int64_t window = dt_sides(map.h / side, map.w / side);
    const dt_avgpool o = {.kernel = window, .stride = window, .include_pad = true};
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

int64_t dti_channels(const dti_net *n, int32_t x)
{
    return n->status == DT_OK ? dt_graph_shape(n->g, x).c : 1;
}

int64_t dti_scale(const dti_net *n, int64_t channels)
{
    const int64_t c = (channels * n->opts.width + 32) / 64;
    return c > 0 ? c : 1;
}
