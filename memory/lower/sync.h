/* The last step of lowering: order across streams. */
#ifndef DT_MEMORY_LOWER_SYNC_H
#define DT_MEMORY_LOWER_SYNC_H

#include "engine/plan.h"

/* Insert WAIT rows and events, as few as order needs. A WAIT that stands there is of a tensor, or
 * of the ops before it: its stream goes on when that is done, whether it needs it or not. */
dt_status dti_sync(dt_plan *p, dt_err *err) DT_NODISCARD;

#endif
