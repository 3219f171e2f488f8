/* What a planner is told to keep to, so that what comes of its plan keeps to a budget: a model
 * leaves things out, so plans are made and measured, and the aim is moved by how far they are off.
 */
#ifndef DT_MEMORY_REMAT_AIM_H
#define DT_MEMORY_REMAT_AIM_H

#include "engine/base/error.h"

/* Plan for @aim and measure what comes of it: *peak, and UINT64_MAX where nothing can be planned
 * for so little. Who tries keeps the best. */
typedef dt_status (*dti_aim_try)(void *ctx, uint64_t aim, uint64_t *peak, dt_err *err);

/* Try @rounds aims at most between @least and @most, from @first on: higher ones as long as the
 * budget holds, lower ones where it does not; up to twice as many while none has held. */
typedef struct dti_aim {
    uint64_t budget, least, most, first;
    int rounds;
} dti_aim;
dt_status dti_aim_search(const dti_aim *a, dti_aim_try try_at, void *ctx, dt_err *err) DT_NODISCARD;

#endif
