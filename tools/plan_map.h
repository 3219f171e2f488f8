/* A plan as a picture: which bytes hold what, op by op, and what is copied meanwhile. The same
 * drawing stands in a file by itself and in a page, whose script zooms in on it. */
#ifndef DT_TOOLS_PLAN_MAP_H
#define DT_TOOLS_PLAN_MAP_H

#include "tools/plan_map_box.h"

/* Print @n plans, one below the other on one scale of bytes, as an SVG document that needs nothing
 * else; pointing at a box shows what it is. DT_E_NOMEM. What is wrong with @f is left to the
 * caller. */
dt_status dti_plan_map(const dti_plan_picture *v, size_t n, FILE *f, dt_err *err) DT_NODISCARD;

/* One plan as part of a page, whose style is dti_plan_map_style: boxes bear the number of their
 * tensor or op in place of a name, and what zooms is in groups of the class "zoom". */
dt_status dti_plan_map_part(const dti_plan_picture *v, FILE *f, dt_err *err) DT_NODISCARD;
/* What its colours mean, in lines that break where the window ends; in the same page. */
void dti_plan_map_key(const dti_plan_picture *v, FILE *f);

/* The rules that all these pictures go by, as they stand in tools/picture.css. */
extern const char dti_plan_map_style[];

#endif
