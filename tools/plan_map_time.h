/* The part of a plan's picture that goes by seconds. */
#ifndef DT_TOOLS_PLAN_MAP_TIME_H
#define DT_TOOLS_PLAN_MAP_TIME_H

#include "tools/plan_map_box.h"

/* The lanes in seconds, waits in red. */
double dti_map_time_tall(const dti_plan_picture *v);
/* Whether ops wait in them, or copies do. In a page what colours say of that is beside them. */
bool dti_map_waits(const dti_plan_picture *v, bool ops);
void dti_map_time(const dti_plan_picture *v, bool page, FILE *f, double y);

#endif
