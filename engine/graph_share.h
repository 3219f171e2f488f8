/* Weights that layers of a graph share. */
#ifndef DT_ENGINE_GRAPH_SHARE_H
#define DT_ENGINE_GRAPH_SHARE_H

#include "engine/graph.h"

/**
 * dt_graph_share() - let a layer use the first parameter of an earlier one (a tied output head).
 *
 * The layer then has no parameter of its own (info.n_param is 0; info.param[0] still says what it
 * wants), and the gradients of both uses are added up. DT_E_CONFIG when the layer cannot share, or
 * the shapes differ.
 */
dt_status dt_graph_share(dt_graph *g, int32_t node, int32_t owner, dt_err *err) DT_NODISCARD;

#endif
