/* Where an axis has its numbers. */
#ifndef DT_TOOLS_AXIS_H
#define DT_TOOLS_AXIS_H

#include <math.h>

/* 1, 2 or 5 times a power of ten, of which some @parts make the range. */
static inline double dti_axis_step(double range, int parts)
{
    const double raw = range / parts, ten = pow(10, floor(log10(raw)));
    return raw < 1.5 * ten ? ten : raw < 3.5 * ten ? 2 * ten : raw < 7.5 * ten ? 5 * ten : 10 * ten;
}

#endif
