/* Losses of values: what a network gives is compared with labels that are values, element by
 * element, and the loss is the mean over the step's elements whose label counts. As PyTorch's. */
#ifndef DT_LAYERS_LOSS_VALUE_LOSSES_H
#define DT_LAYERS_LOSS_VALUE_LOSSES_H

#include "engine/layer.h"

/* Differences d below @beta count as d^2 / (2 beta), others as |d| - beta / 2. */
typedef struct dti_smooth_l1 {
    double beta;
} dti_smooth_l1;

extern const dt_layer_desc dt_layer_bce;       /* BCEWithLogitsLoss: sigmoid and cross entropy */
extern const dt_layer_desc dt_layer_l1;        /* L1Loss: |x - label| */
extern const dt_layer_desc dt_layer_mse;       /* MSELoss: (x - label)^2 */
extern const dt_layer_desc dt_layer_smooth_l1; /* SmoothL1Loss */

#endif
