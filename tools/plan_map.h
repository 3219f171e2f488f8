/* A plan as a picture: which bytes hold what, op by op, and what is copied meanwhile. */
#ifndef DT_TOOLS_PLAN_MAP_H
#define DT_TOOLS_PLAN_MAP_H

#include <stdio.h>

#include "engine/plan.h"

/* Print @p, which must be verified, as one SVG document that needs nothing else; pointing at a
 * tensor or an op shows its name. DT_E_NOMEM. What is wrong with @f is left to the caller. */
dt_status dti_plan_map(const dt_plan *p, FILE *f, dt_err *err) DT_NODISCARD;

#endif
