/* The part of a plan's picture that goes by seconds. */
#ifndef DT_TOOLS_PLAN_MAP_TIME_H
#define DT_TOOLS_PLAN_MAP_TIME_H

#include "tools/plan_map_box.h"

/* The lanes in seconds, waits in red. */
double dti_map_time_tall(const dti_plan_picture *v);
void dti_map_time(const dti_plan_picture *v, bool page, FILE *f, double y);

#endif
