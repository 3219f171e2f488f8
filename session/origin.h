/* What numbers measured by a session hold for: machine, precision, libraries, network. */
#ifndef DT_SESSION_ORIGIN_H
#define DT_SESSION_ORIGIN_H

#include "memory/time/cost_file.h"
#include "session/session.h"

void dti_session_origin(const dt_session *s, dt_origin *to);

#endif
