/* The last step of lowering: order across streams. */
#ifndef DT_MEMORY_LOWER_SYNC_H
#define DT_MEMORY_LOWER_SYNC_H

#include "engine/plan.h"

/* Insert WAIT rows and events, as few as order needs. */
dt_status dti_sync(dt_plan *p, dt_err *err);

#endif
