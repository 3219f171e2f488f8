/* A session's plans, made ready to be run: what tools need that run plans but are not training. */
#ifndef DT_TOOLS_RIG_H
#define DT_TOOLS_RIG_H

#include "tools/session.h"

typedef struct dt_rig {
    dt_runner *runner;
    dt_ready *ready; /* ready[i] is s->planned[i] */
    size_t n;
} dt_rig;

/* Reserve memory for all plans the session has, prepare them, and put the weights in: those of
 * model.weights, else first ones from train.seed. Release with dt_rig_close even after a failure.
 */
dt_status dt_rig_open(dt_rig *g, const dt_session *s, dt_err *err) DT_NODISCARD;
void dt_rig_close(dt_rig *g);

#endif
