/* Backward-data of convolutions that look at one pixel, in fp32: dx = dy weight, a product of
 * matrices whose rows are pixels. With a stride, pixels that no result looked at get zero. */
#ifndef DT_LAYERS_BLOCKED_PIXELS_H
#define DT_LAYERS_BLOCKED_PIXELS_H

#include "engine/implementations.h"
#include "layers/onednn/onednn.h"

/* Whether the layer is one for this; the weight is then wanted as DT_DNNL_PANELS. */
bool dti_pixels_accepts(const dt_dnnl_problem *p, dt_why *why);

size_t dti_pixels_work(void); /* bytes of scratch, for the team of this moment */

/* A sample's bits do not depend on what is computed with it. */
void dti_pixels_run(const dt_dnnl_problem *p, int64_t n, const float *dy, const float *weight,
    float *dx, float *work);

#endif
