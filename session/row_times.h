/* Timing, while a run goes on, what ops and copies take, for costs by which steps are planned anew.
 */
#ifndef DT_SESSION_ROW_TIMES_H
#define DT_SESSION_ROW_TIMES_H

#include "engine/runner/runner.h"
#include "memory/time/costs.h"

/* A plan as the runner knows it, and the least seconds that each of its rows took; below 0: none
 * was seen. Of a copy also what it moved then. */
typedef struct dti_timed_plan {
    int id;
    const dt_plan *plan;
    double *seconds;
    uint64_t *moved;
} dti_timed_plan;

/**
 * struct dti_row_times - a timing.
 * @of:    n plans
 * @trace: for dt_runner_set_trace, as long as it times; the timing stays where it is
 */
typedef struct dti_row_times {
    size_t n, cap;
    dti_timed_plan *of;
    dt_trace trace;
} dti_row_times;

/* One plan more, with nothing seen; borrowed. DT_E_NOMEM. Close it even after a failure. */
dt_status dti_row_times_add(dti_row_times *t, int id, const dt_plan *p, dt_err *err) DT_NODISCARD;
void dti_row_times_close(dti_row_times *t);

/* Put what was seen in the place of what @costs, which is sealed, has of the same ops, and of links
 * as whole teams use them (@team) or threads; the rest stays. DT_E_NOMEM, and then nothing has
 * changed. */
dt_status dti_row_times_keep(
    const dti_row_times *t, bool team, dt_costs *costs, dt_err *err) DT_NODISCARD;

#endif
