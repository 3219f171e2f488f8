/* Backward-data of convolutions that look at one pixel, in bf16: what pixels.h does in fp32, by
 * pairs of values (AVX512_BF16). */
#ifndef DT_LAYERS_BLOCKED_PIXEL_PAIRS_H
#define DT_LAYERS_BLOCKED_PIXEL_PAIRS_H

#include "engine/dtype.h"
#include "layers/blocked/pixels.h"

/* Whether this processor and this kernel can; the rule does not look at @n. */
bool dti_pixel_pairs_accepts(const dti_pixels *s, dt_why *why);

/* The weight's copy, in bytes, and to make it of one that lives as [c][out]. */
size_t dti_pixel_pairs_weight_bytes(const dti_pixels *s);
void dti_pixel_pairs_weight(const dti_pixels *s, const float *weight, dt_bf16 *copy);

/* A sample's bits do not depend on what is computed with it. */
void dti_pixel_pairs_run(
    const dti_pixels *s, const dt_bf16 *dy, const dt_bf16 *weight, dt_bf16 *dx);

#endif
