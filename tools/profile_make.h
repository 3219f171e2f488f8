/* Making a profile of a configuration: for `dnntrain profile`, and ahead of a run that goes by what
 * is kept where nothing is. */
#ifndef DT_TOOLS_PROFILE_MAKE_H
#define DT_TOOLS_PROFILE_MAKE_H

#include "session/profile.h"

/* The session that is measured: as CONFIG and --set have it, but without a profile, which is being
 * made anew, and without evaluations. Its notes are told. Close it with dt_session_close. */
dt_status dti_profile_session(dt_session **out, const char *config, const char *const *set,
    size_t n_set, const dt_profile_opts *o, dt_err *err) DT_NODISCARD;

/* How far a profile is, on stderr: a line as each stage begins and, at a terminal, one that is
 * drawn again before each step, and is gone with the next line; zero-initialised. */
typedef struct dti_profile_watch {
    bool tty, on_line;
    double drawn;
} dti_profile_watch;
void dti_profile_watch_begin(dti_profile_watch *w, dt_profile_opts *o);
void dti_profile_watch_end(dti_profile_watch *w);

/* Before it is measured in vain: whether it could be kept, for which its folder is made. */
dt_status dti_profile_can_keep(const dt_session *s, dt_err *err) DT_NODISCARD;
/* Keep it for memory.profile = auto, and say where. */
dt_status dti_profile_keep(const dt_session *s, dt_profile *p, dt_err *err) DT_NODISCARD;

/* Whether a run goes by memory.profile = auto, and nothing is kept of it yet, though it could be. A
 * run that goes on goes on with what it has. */
bool dti_profile_is_missing(const dt_session *s);

/* Measure and keep what is missing. Where that cannot be, a line says why, as a run goes without.
 */
void dti_profile_missing(const char *config, const char *const *set, size_t n_set);

#endif
