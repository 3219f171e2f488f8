/* A cache of the device's bytes, replayed on the load curve: nothing moves before the load would
 * exceed the limit, and then a rule tells what leaves. Both are for dti_planner_run. */
#ifndef DT_MEMORY_GAP_REPLAY_H
#define DT_MEMORY_GAP_REPLAY_H

#include "memory/gap/planner.h"

/* What was used least recently leaves first. */
dt_status dti_replay_oldest(dti_planner *x, const void *opts, dt_err *err) DT_NODISCARD;

/* What is used again last leaves first, which is Belady's rule. */
dt_status dti_replay_farthest(dti_planner *x, const void *opts, dt_err *err) DT_NODISCARD;

#endif
