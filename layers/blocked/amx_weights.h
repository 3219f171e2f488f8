/* The gradient of a convolution's weight in bf16, by AMX tiles: a sum over all pixels, for every
 * tap, of products of x and dy. Both are packed once, x transposed so that a tap is only an offset.
 * With many channels a task has some of both and all pixels, so no partial sums are joined; with
 * few it has all channels and some samples. The bits do not depend on the number of threads. */
#ifndef DT_LAYERS_BLOCKED_AMX_WEIGHTS_H
#define DT_LAYERS_BLOCKED_AMX_WEIGHTS_H

#include "engine/implementations.h"
#include "layers/blocked/weight_gradient.h"

/* Whether this machine and this kernel can. */
bool dti_amx_weights_can(const dti_weight_gradient *a, dt_why *why);

/* Bytes of scratch. */
size_t dti_amx_weights_work(const dti_weight_gradient *a);

/* dw (fp32, [kernel][kernel][c][out]) is written from x and dy (bf16), or added to by whole
 * sums. work begins a cache
 * line. */
void dti_amx_weights_run(
    const dti_weight_gradient *a, const void *x, const void *dy, float *dw, bool add, void *work);

#endif
