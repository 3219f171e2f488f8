/* A session's plans, made ready to be run. */
#ifndef DT_SESSION_RIG_H
#define DT_SESSION_RIG_H

#include "session/session.h"

typedef struct dt_rig {
    dt_runner *runner;
    dt_ready *ready; /* ready[i] is s->plans->planned[i] */
    size_t n;
} dt_rig;

/* That the team has more threads than there are processors that this process may use; "": it has
 * not. Returns @to. */
enum { DTI_RIG_NOTE = 160 };
const char *dti_rig_threads_note(char to[DTI_RIG_NOTE], const dt_session *s);
/* The same to whom the session's notices go. */
void dti_rig_tell_threads(const dt_session *s);

/* The runner, with memory for all plans the session has. DT_E_NOMEM says what to lower. */
dt_status dti_rig_reserve(dt_rig *g, const dt_session *s, dt_err *err) DT_NODISCARD;

/* Globs of the weights that model.weights does not give; NULL: it gives all. Where a run's own
 * configuration is opened with other weights, they are not those that this was said of. */
const char *dti_session_fresh(const dt_session *s);

/* The same where what was learned is asked: model.weights gives all, also what a configuration to
 * begin with calls fresh; but for what is called so on the command line. */
const char *dti_session_fresh_learned(const dt_session *s);

/* Put the weights in: those of model.weights, else, and where that does not give them, first ones
 * from train.seed. */
dt_status dti_rig_first_values(const dt_rig *g, const dt_session *s, dt_err *err) DT_NODISCARD;

/* Reserve memory for all plans the session has, prepare them, and put the weights in. Release with
 * dti_rig_close even after a failure. */
dt_status dti_rig_open(dt_rig *g, const dt_session *s, dt_err *err) DT_NODISCARD;
/* The same to ask what was learned. */
dt_status dti_rig_open_learned(dt_rig *g, const dt_session *s, dt_err *err) DT_NODISCARD;
void dti_rig_close(dt_rig *g);

#endif
