/* Fusion: neighbours that one kernel can do together become one layer. It belongs to the network,
 * before any program is built from it, and so to the identity of a run: no policy changes it. */
#ifndef DT_ENGINE_GRAPH_FUSE_H
#define DT_ENGINE_GRAPH_FUSE_H

#include "engine/graph.h"

/**
 * dt_graph_fuse() - the same network with layers fused, as their descriptors say.
 *
 * A node whose descriptor names a layer that may follow (@fuse), and whose value only one node
 * reads, once, which is of that layer, becomes with it one node, in the place, of the name, with
 * the options and the parameters of the first. All other nodes, and their order, stay; so do the
 * keys of random numbers, and first weights and dropout masks with them. The result is the caller's
 * and needs nothing of @g.
 */
dt_status dt_graph_fuse(dt_graph **out, const dt_graph *g, dt_err *err) DT_NODISCARD;

#endif
