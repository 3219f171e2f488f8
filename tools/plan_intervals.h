/* The live intervals of a plan, as `dnntrain pool` reads them. */
#ifndef DT_TOOLS_PLAN_INTERVALS_H
#define DT_TOOLS_PLAN_INTERVALS_H

#include "engine/plan.h"
#include "memory/pools/pool.h"

/* Of what is placed and released; tensors that take each other's bytes are one interval. Time is
 * the number of ops and copies before. DT_E_NOMEM, DT_E_IO. */
dt_status dti_plan_find_intervals(
    const dt_plan *p, dt_interval **v, size_t *n, dt_err *err) DT_NODISCARD; /* dt_free *v */
dt_status dti_plan_intervals(const dt_plan *p, const char *path, dt_err *err) DT_NODISCARD;

#endif
