/* Samples a second, as the median of the latest steps. */
#ifndef DT_SESSION_RATE_H
#define DT_SESSION_RATE_H

#include "engine/base/compiler.h"

enum { DTI_RATE_STEPS = 4096 };

/* @n: steps so far; @kept: a ring of DTI_RATE_STEPS rates, and as much room to sort them */
typedef struct dt_rate {
    int64_t n;
    double *kept;
} dt_rate;

/* False: no memory. Release with dt_rate_deinit. */
bool dt_rate_init(dt_rate *r) DT_NODISCARD;
void dt_rate_deinit(dt_rate *r);

/* What a step came to; no number counts for nothing. The first is slow: it counts only until there
 * is a second. */
void dt_rate_add(dt_rate *r, double per_second);

/* Of the latest DTI_RATE_STEPS steps at most; NaN before any step. */
double dt_rate_median(const dt_rate *r);

#endif
