/* Convolutions with 3 x 3 kernels and stride 1 by Winograd's F(4x4, 3x3) (Lavin & Gray 2016, arXiv
 * 1509.09308): a tile of 4 x 4 results takes 36 products a pair of channels in place of 144. Errors
 * are about twice those of plain sums (see winograd_kernel.inc). Transforms and products are fp32
 * whatever the activations are, so of bf16 only results are rounded.
 *
 * A task transforms some tiles of the input into scratch that stays in its cache, multiplies them
 * by the transformed weight, 36 products of matrices, and transforms the results straight into
 * place. The weight lives in the order [3][3][in][out]. A value that is not finite makes the whole
 * tile it meets not finite. */
#ifndef DT_LAYERS_BLOCKED_WINOGRAD_H
#define DT_LAYERS_BLOCKED_WINOGRAD_H

#include "engine/dtype.h"

/* Activations are NHWC, of @type. @c @out: multiples of 16; @pad: 0, 1 or 2; p = h + 2 pad - 2, so
 * q
 */
typedef struct dti_winograd {
    int64_t n, h, w, c, p, q, out, pad;
    dt_dtype type;
} dti_winograd;

/* Whether a third of the products is saved, or more, of p x q results: tiles reach beyond them. */
bool dti_winograd_saves(int64_t p, int64_t q);

/* The transformed weight: bytes, and making it for forward, or transposed: for backward-data. 0
 * bytes where a large weight meets so few tiles that the transforms of these take less: then it is
 * made some outputs at a time, when it is used, by the thread that uses it. */
size_t dti_winograd_weight_bytes(const dti_winograd *s);
void dti_winograd_weight(const dti_winograd *s, bool transposed, const float *weight, float *to);

/* y from x and the transformed weight, or the weight itself where that has no bytes. A sample's
 * bits do not depend on what is computed with it. Backward-data is the same, from dy, with the
 * transposed weight; dti_winograd_transposed says what the layer then is. bias may be NULL. @work:
 * bytes of scratch, for the team of this moment */
dti_winograd dti_winograd_transposed(const dti_winograd *s);
size_t dti_winograd_work(const dti_winograd *s);
void dti_winograd_run(const dti_winograd *s, bool transposed, const void *x, const float *weight,
    const float *bias, void *y, float *work);

/* The gradients of the weight, and of the bias where it is not NULL. @add: bit 0: the weight's is
 * added to what is there, bit 1: the bias's is; each value is whole before */
size_t dti_winograd_gradient_work(const dti_winograd *s);
void dti_winograd_gradient(const dti_winograd *s, const void *x, const void *dy, float *dweight,
    float *dbias, unsigned add, float *work);

#endif
