/* Why a tensor of a plan is where it is. */
#ifndef DT_TOOLS_PLAN_WHY_H
#define DT_TOOLS_PLAN_WHY_H

#include "memory/time/simulate.h"
#include "session/session.h"

/* Print on stdout where the tensor is made and read, how long it lies idle, what each fate would
 * cost it, which was taken and by which rule. @t: of this plan. DT_E_CONFIG with the nearest name
 * when there is none such; DT_E_NOMEM. */
dt_status dti_plan_why(const dt_session *s, const dt_plan *p, const dt_timeline *t,
    const char *tensor, dt_err *err) DT_NODISCARD;

#endif
