/* A plan in time: as it is predicted, as a file, and held against what a run was traced to do. */
#ifndef DT_TOOLS_PLAN_TIME_H
#define DT_TOOLS_PLAN_TIME_H

#include <stdio.h>

#include "memory/time/simulate.h"

/* A verified plan on the clock of some costs; all borrowed. */
typedef struct dti_plan_time {
    const dt_plan *plan;
    const dt_timeline *time;
    const dt_costs *costs;
} dti_plan_time;

/* A line a row that runs or waits, with commas between: what DT_TRACE writes, where the seconds
 * come from, and whose they are. @plan_time: a dti_plan_time. */
dt_status dti_plan_timeline(const void *plan_time, FILE *f, dt_err *err) DT_NODISCARD;

/* Print on stdout what was measured beside what is predicted: the medians of the file @path, which
 * DT_TRACE wrote, over all times the plan was run. DT_E_DATA, with FILE:LINE, when it is no such
 * file, is cut, has times that are not finite or end before they begin, or is of another plan. */
dt_status dti_plan_against(
    const dti_plan_time *t, int64_t samples, const char *path, dt_err *err) DT_NODISCARD;

/* A plan as it ran: of all times in such a file the one that took the median; seconds from its
 * first row on. Rows that were not traced, waits among them, have none. Release it with
 * dt_timeline_deinit, even after a failure. DT_E_DATA as above, DT_E_NOMEM. */
dt_status dti_plan_measured(const dt_plan *p, int64_t samples, const char *path, dt_timeline *out,
    dt_err *err) DT_NODISCARD;

#endif
