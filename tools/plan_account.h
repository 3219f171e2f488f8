/* What `dnntrain plan` shows where memory.account asks for a paper's way of counting. */
#ifndef DT_TOOLS_PLAN_ACCOUNT_H
#define DT_TOOLS_PLAN_ACCOUNT_H

#include "session/session.h"

/* The account's figures on stdout, a line each or as one object. DT_E_CONFIG when its rules say
 * nothing of the network. */
dt_status dti_plan_account(const dt_session *s, bool json, dt_err *err) DT_NODISCARD;

#endif
