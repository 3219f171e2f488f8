/* A session's costs: those of memory.profile or of the card that memory.simulate names, else
 * defaults, by which nothing is predicted in seconds. */
#ifndef DT_SESSION_COSTS_H
#define DT_SESSION_COSTS_H

#include "session/session.h"

/* Read what the configuration says of costs into s->costs, and scale them by @scale; 0: by
 * memory.calibrate, for which a step that keeps all is planned. DT_E_CONFIG, DT_E_DATA. A part of
 * dt_session_open. */
dt_status dti_session_read_costs(dt_session *s, double scale, dt_err *err) DT_NODISCARD;

#endif
