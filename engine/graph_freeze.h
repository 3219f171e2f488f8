/* Layers that are not trained. */
#ifndef DT_ENGINE_GRAPH_FREEZE_H
#define DT_ENGINE_GRAPH_FREEZE_H

#include "engine/graph.h"

/**
 * dt_graph_freeze() - keep layers as they are while others are trained.
 * @globs: "conv1, layer1.*": names of layers, comma-separated; * stands for any letters. A name
 *         that was fused into another layer counts as there
 *
 * Parameters and running statistics of such a layer stay, it has no gradients and no optimizer
 * state, and it computes as in an evaluation: batch norm by its running statistics, dropout not at
 * all. So backward ends where the last of them stands, and nothing before that is kept for it.
 *
 * A layer behind them that has the weight of one of them gives its gradient on, and none of the
 * weight. Before anything is planned. DT_E_CONFIG for a name that no layer has, for a layer behind
 * one that is trained, or with its weight, and where nothing is left to train.
 */
dt_status dt_graph_freeze(dt_graph *g, const char *globs, dt_err *err) DT_NODISCARD;

/**
 * dt_graph_untaught() - find a layer that is to be trained and that no gradient reaches.
 * @node:   the first one, or DT_GRAPH_INPUT where there is none
 * @reader: one that reads its value; none of them gives a gradient, as maxpool_index does not
 */
dt_status dt_graph_untaught(
    const dt_graph *g, int32_t *node, int32_t *reader, dt_err *err) DT_NODISCARD;

/* How many parameters of it, in elements. */
int64_t dt_graph_frozen(const dt_graph *g);

#endif
