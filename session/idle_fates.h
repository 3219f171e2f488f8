/* Lines of [memory.layers] that change nothing, as policies that save nothing are told. */
#ifndef DT_SESSION_IDLE_FATES_H
#define DT_SESSION_IDLE_FATES_H

#include "engine/checkpoint/checkpoint.h"
#include "session/session.h"

/* Tells, a line each with its place, which lines that move, pack or compute again do so with
 * nothing in a step: "c.ini:7: [memory.layers] pool = offload saves nothing: ...". Of many some,
 * and how many more there are. Where plans were given the section counts for nothing, and nothing
 * is told. What planning fails with. */
dt_status dt_session_idle_fates(
    const dt_session *s, const dt_teller *tell, dt_err *err) DT_NODISCARD;

#endif
