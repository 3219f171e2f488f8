/* The plans of the run that a session's configuration describes. */
#ifndef DT_SESSION_RUN_PLANS_H
#define DT_SESSION_RUN_PLANS_H

#include "session/plan_set.h"

/* Plans of the run, made once each: see dt_plan_set_add and dti_plan_set_run. */
dt_status dti_session_plan(dt_session *s, dt_program_kind kind, int64_t n, const dt_planned **out,
    dt_err *err) DT_NODISCARD;
dt_status dt_session_plan_run(
    dt_session *s, bool eval, int64_t last, int64_t eval_last, dt_err *err) DT_NODISCARD;
void dti_session_forget(dt_session *s); /* those plans */

/* Take the plans of a file from here on, and make none; before the first plan. */
dt_status dti_session_take_plans(dt_session *s, const char *path, dt_err *err) DT_NODISCARD;

#endif
