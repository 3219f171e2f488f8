/* Learning rates by layer. */
#ifndef DT_ENGINE_GRAPH_RATES_H
#define DT_ENGINE_GRAPH_RATES_H

#include "engine/graph.h"

/**
 * dt_graph_rates() - have some layers learn at other rates than the rest.
 * @rates: "fc:10, layer1.*:0.1": names of layers, * standing for any letters, each with what the
 *         learning rate is multiplied by. Of several that mean a layer the last one holds
 *
 * Behind dt_graph_freeze, and before anything is planned. DT_E_CONFIG for a name that no layer with
 * parameters of its own has that are trained, and for what is no number from 1e-6 to 1e6.
 */
dt_status dt_graph_rates(dt_graph *g, const char *rates, dt_err *err) DT_NODISCARD;

#endif
