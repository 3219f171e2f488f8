/* Layers without options, and the ops that belong to no layer. */
#ifndef DT_LAYERS_PLAIN_H
#define DT_LAYERS_PLAIN_H

#include "engine/layer.h"

extern const dt_layer_desc dt_layer_relu;     /* y = max(x, 0) */
extern const dt_layer_desc dt_layer_add;      /* y = x0 + x1 + ..., 2 to 16 inputs of one shape */
extern const dt_layer_desc dt_layer_add_relu; /* y = max(0, x0 + x1 + ...) */
extern const dt_layer_desc dt_layer_flatten;  /* no op; fc reads a map as one vector */
extern const dt_layer_desc dt_layer_global_avgpool; /* mean over height and width */
extern const dt_layer_desc dt_layer_cross_entropy;  /* softmax and negative log-likelihood */

extern const dt_layer_desc dt_layer_sum;  /* Y = X0 + X1 over call->count elements */
extern const dt_layer_desc dt_layer_sgd;  /* P0, M0 moved along DP0; M0 unbound without momentum */
extern const dt_layer_desc dt_layer_adam; /* the same with two moments, M0 and M1 */
extern const dt_layer_desc dt_layer_adamw;
extern const dt_layer_desc dt_layer_lion; /* with one, M0 */
extern const dt_layer_desc dt_layer_sgd8; /* moments in 8 bits, with their scales */
extern const dt_layer_desc dt_layer_adam8;
extern const dt_layer_desc dt_layer_adamw8;
extern const dt_layer_desc dt_layer_lion8;
extern const dt_layer_desc dt_layer_commit; /* P0 = Q0: running statistic = pending one */

#endif
