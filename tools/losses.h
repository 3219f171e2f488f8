/* The losses of a run as one looks at them: smoothed, and as a curve. */
#ifndef DT_TOOLS_LOSSES_H
#define DT_TOOLS_LOSSES_H

#include "engine/base/compiler.h"

enum { DTI_BINS = 64 };

/* A mean in which each loss counts 0.9 of the next one; zero-initialised. What is no number changes
 * nothing. Returns the mean so far, or @loss while there is none. */
typedef struct dti_smoothed {
    double sum, weight;
} dti_smoothed;
double dti_smooth(dti_smoothed *s, double loss);

/* Mean losses of a whole run in few numbers: when all bins are full, pairs become one. */
typedef struct dti_loss_curve {
    double sum[DTI_BINS];
    int64_t count[DTI_BINS], width; /* steps a bin */
    int bins;
} dti_loss_curve;

void dti_loss_curve_add(dti_loss_curve *c, double loss);

/* The curve as blocks of eight heights, at most @width of them; nothing for fewer than two. Bytes
 * written, without the NUL. */
size_t dti_loss_curve_draw(const dti_loss_curve *c, char *to, size_t room, int width);

#endif
