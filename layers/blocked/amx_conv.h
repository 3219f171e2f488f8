/* Convolutions with 3 x 3 kernels and stride 1 in bf16, by AMX tiles: rows of a
 * tile are neighbouring pixels as they lie, so nothing is rearranged; a sample is only given its
 * border. Sums are fp32, rounded once. A value that is not finite may make results to its left not
 * finite that do not look at it. */
#ifndef DT_LAYERS_BLOCKED_AMX_CONV_H
#define DT_LAYERS_BLOCKED_AMX_CONV_H

#include "engine/dtype.h"
#include "engine/implementations.h"

/* Activations are NHWC. @pad: 0, 1 or 2; p = h + 2 pad - 2, so q */
typedef struct dti_amx_conv {
    int64_t n, h, w, c, p, q, out, pad;
} dti_amx_conv;

/* Whether this machine and this kernel can: c is 16 or a multiple of 32, out a multiple of 16. */
bool dti_amx_conv_can(const dti_amx_conv *s, dt_why *why);

/* The weight as the tiles want it: bytes, and making it from fp32 [3][3][in][out], for forward or,
 * transposed, for backward-data. */
size_t dti_amx_conv_weight_bytes(const dti_amx_conv *s);
void dti_amx_conv_weight(const dti_amx_conv *s, bool transposed, const float *weight, dt_bf16 *to);

/* y from x. A sample's bits do not depend on what is computed with it. Backward-data is the same,
 * from dy, with the transposed weight; dti_amx_conv_transposed says what the layer then is. @work:
 * bytes of scratch, for the team of this moment; weight and work begin a cache line. */
dti_amx_conv dti_amx_conv_transposed(const dti_amx_conv *s);
size_t dti_amx_conv_work(const dti_amx_conv *s);
void dti_amx_conv_run(
    const dti_amx_conv *s, const dt_bf16 *x, const dt_bf16 *weight, dt_bf16 *y, void *work);

#endif
