/* Room for one tensor on its way between the arena and a file, or a generator of first values.
 * Between runs of plans the arena beyond the persistent tensors is free, so that saving takes no
 * memory of its own as long as the largest tensor fits there. */
#ifndef DT_ENGINE_RUNNER_ROOM_H
#define DT_ENGINE_RUNNER_ROOM_H

#include "engine/runner/runner.h"

typedef struct dti_room {
    float *p;
    bool owned; /* not the arena's */
} dti_room;

/* Room for @count floats, until the next run of a plan. DT_E_NOMEM. */
dt_status dti_room_take(dti_room *to, dt_runner *r, size_t count, dt_err *err) DT_NODISCARD;
void dti_room_give(dti_room *room); /* a zeroed one is fine */

#endif
