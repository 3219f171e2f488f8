/* Backward-data of convolutions that look at one pixel, in fp32: dx = dy weight, a product of
 * matrices whose rows are pixels. With a stride, pixels that no result looked at get zero. */
#ifndef DT_LAYERS_BLOCKED_PIXELS_H
#define DT_LAYERS_BLOCKED_PIXELS_H

#include "engine/implementations.h"

/* Channels that a task has at a time. The weight is wanted as [c / DTI_PIXELS_PANEL][out]
 * [DTI_PIXELS_PANEL]. */
enum { DTI_PIXELS_PANEL = 64 };

/* A kernel of one pixel without padding, in one group. @p @q: height and width of dy; @stride:
 * sides (engine/shape.h) */
typedef struct dti_pixels {
    int64_t n, h, w, c, p, q, out, stride;
} dti_pixels;

/* Whether it is faster than the library; the rule does not look at @n. */
bool dti_pixels_accepts(const dti_pixels *s, dt_why *why);

size_t dti_pixels_work(void); /* bytes of scratch, for the team of this moment */

/* A sample's bits do not depend on what is computed with it. */
void dti_pixels_run(
    const dti_pixels *s, const float *dy, const float *weight, float *dx, float *work);

/* Where in dx the pixel begins at which result @r of the layer looked. */
static inline int64_t dti_pixel_at(const dti_pixels *s, int64_t r)
{
    const int64_t n = r / (s->p * s->q), h = r / s->q % s->p * dt_sides_h(s->stride);
    const int64_t w = r % s->q * dt_sides_w(s->stride);
    return ((n * s->h + h) * s->w + w) * s->c;
}

/* Zeros in all of dx, of values of so many bytes. */
void dti_pixels_clear(const dti_pixels *s, void *dx, size_t value_bytes);

#endif
