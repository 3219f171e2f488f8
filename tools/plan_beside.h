/* Plans of several policies as one picture. */
#ifndef DT_TOOLS_PLAN_BESIDE_H
#define DT_TOOLS_PLAN_BESIDE_H

#include "session/plan_set.h"
#include "session/session.h"

/* Draw @x, a plan of the session, and below it, on one scale of bytes, the plans of the same
 * program that keep_all and these lists of policies give ("chen_sqrt;vdnn_all"), each once, into
 * the file
 * @path. DT_E_CONFIG for a list that is none, DT_E_NOMEM, DT_E_IO. */
dt_status dti_plan_beside(const dt_session *s, const dt_planned *x, const char *lists,
    const char *path, dt_err *err) DT_NODISCARD;

#endif
