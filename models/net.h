/* Writing a network down, for the family files. Each call appends a layer that reads value x and
 * returns the value it makes. After the first error every call does nothing, so a family needs no
 * checks of its own. Names are printf formats. */
#ifndef DT_MODELS_NET_H
#define DT_MODELS_NET_H

#include "engine/graph.h"
#include "layers/sequence/embedding.h"
#include "layers/weighted/linear.h"
#include "models/model_opts.h"

typedef struct dti_net {
    dt_graph *g;
    dt_model_opts opts; /* no standards left in it: every number is meant */
    bool cut, cut_head; /* whether tiles, and head_tiles, were asked for by a layer */
    dt_status status;
    dt_err *err;
} dti_net;

int32_t dti_layer(dti_net *n, const dt_layer_desc *desc, const void *opts, const int32_t *in,
    int n_in, const char *fmt, ...) DT_PRINTF(6, 7);

typedef struct dti_conv {
    int64_t out, kernel, stride, pad;
    bool bias;
} dti_conv;
int32_t dti_add_conv(dti_net *n, int32_t x, dti_conv c, const char *fmt, ...) DT_PRINTF(4, 5);
int32_t dti_add_bn(dti_net *n, int32_t x, bool zero_init, const char *fmt, ...) DT_PRINTF(4, 5);
int32_t dti_add_relu(dti_net *n, int32_t x, const char *fmt, ...) DT_PRINTF(3, 4);
/* Linear layers, cut into opts.tiles tiles where that is more than 1: NAME.0, NAME.1 ..., each of
 * some of the outputs, and NAME, which puts them side by side. */
int32_t dti_add_fc(dti_net *n, int32_t x, int64_t out, const char *fmt, ...) DT_PRINTF(4, 5);
int32_t dti_add_linear(dti_net *n, int32_t x, const dt_linear *o, const char *fmt, ...)
    DT_PRINTF(4, 5);
/* Either of them, which dti_is_weighted tells from others. */
int32_t dti_add_weighted(
    dti_net *n, const dt_layer_desc *desc, const void *opts, int32_t x, const char *name);
bool dti_is_weighted(const dt_layer_desc *desc);

/* Vectors of tokens, the sum of opts.head_tiles tiles of the vocabulary. *first: for a head that
 * shares them. */
int32_t dti_add_tokens(dti_net *n, const dt_embedding *o, int32_t *first, const char *name);

/* The output layer of a model of tokens, in opts.head_tiles tiles whose scores a softmax_tile each
 * takes. @shares: the first node of dti_add_tokens, or DT_SHARES_NONE. Gives what the loss takes.
 */
int32_t dti_add_head(dti_net *n, int32_t x, const dt_linear *o, int32_t shares, const char *name);
int32_t dti_add_sum(dti_net *n, int32_t a, int32_t b, const char *fmt, ...) DT_PRINTF(4, 5);

typedef struct dti_pool {
    int64_t kernel, stride, pad;
} dti_pool;
int32_t dti_add_maxpool(dti_net *n, int32_t x, dti_pool p, const char *fmt, ...) DT_PRINTF(4, 5);

/* Refuses an image whose height or width is no such @multiple. */
void dti_check_image(dti_net *n, int64_t multiple);

/* PyTorch's AdaptiveAvgPool2d(side) as a layer called "avgpool": none when the map has that side
 * already, average pooling when the map's side is a multiple of it. Otherwise an error that names
 * the images the model can take, in words. */
int32_t dti_add_adaptive(dti_net *n, int32_t x, int64_t side, const char *images);

int32_t dti_add_global_avgpool(dti_net *n, int32_t x);

/* Adds no layer when the rate is 0. */
int32_t dti_add_dropout(dti_net *n, int32_t x, const char *fmt, ...) DT_PRINTF(3, 4);

/* Of a node's output; 1 of a net that has failed. */
int64_t dti_channels(const dti_net *n, int32_t x);

/* A number of channels at this net's width, at least 1, rounded to the nearest. */
int64_t dti_scale(const dti_net *n, int64_t channels);

/* The loss of scores that are whole, or of the state that their tiles leave. */
const dt_layer_desc *dti_loss_of(const dt_graph *g, int32_t scores);

#endif
