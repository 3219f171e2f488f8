/* Inside the session: how plans and the choice before them call each other. */
#ifndef DT_SESSION_SESSION_PARTS_H
#define DT_SESSION_SESSION_PARTS_H

#include "memory/fit.h"
#include "session/session.h"

/* All plans of a step, an update and an evaluation, to see what they need. */
dt_status dti_session_plan_all(dt_session *s, dt_err *err) DT_NODISCARD;

/* Where one of the policies is a ladder: take the first rung that fits the budgets, or the last
 * one. */
dt_status dti_session_climb(dt_session *s, dt_err *err) DT_NODISCARD;

#endif
