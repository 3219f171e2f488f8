/* A plan as a picture: which bytes hold what, op by op, and what is copied meanwhile. */
#ifndef DT_TOOLS_PLAN_MAP_H
#define DT_TOOLS_PLAN_MAP_H

#include <stdio.h>

#include "memory/time/simulate.h"

/* Print @p, which must be verified, as one SVG document that needs nothing else; pointing at a
 * tensor or an op shows its name. @t: its rows in time, drawn below; NULL: they are not.
 * DT_E_NOMEM. What is wrong with @f is left to the caller. */
dt_status dti_plan_map(const dt_plan *p, const dt_timeline *t, FILE *f, dt_err *err) DT_NODISCARD;

/* The part of the picture in which each stream has a lane in seconds, from @y on, between @left and
 * @right, waits in red; how tall it is. */
double dti_plan_map_time_height(const dt_plan *p, const dt_timeline *t);
void dti_plan_map_time(
    const dt_plan *p, const dt_timeline *t, FILE *f, double y, double left, double right);
/* Of a row that computes or copies. */
const char *dti_plan_map_color(const dt_plan *p, const dt_row *r);
/* "ops", "to host" */
void dti_plan_map_lane_name(const dt_plan *p, int stream, FILE *f);

#endif
