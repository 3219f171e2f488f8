/* What every subcommand that looks at a network does first: read the configuration and build the
 * graph. */
#ifndef DT_SESSION_OPEN_H
#define DT_SESSION_OPEN_H

#include "session/session.h"

/* Read, bind and check everything: @sets are "--set" assignments. Afterwards s->graph is built. The
 * caller owns *out even on failure, when it may be NULL. */
dt_status dt_session_open(dt_session **out, const char *path, const char *const *sets,
    size_t n_sets, dt_err *err) DT_NODISCARD;
/* The same from text in memory, which messages call @name; relative paths in it count from the
 * current folder. */
dt_status dti_session_open_text(dt_session **out, const char *name, const char *text, size_t bytes,
    const char *const *sets, size_t n_sets, dt_err *err) DT_NODISCARD;
void dt_session_close(dt_session *s);

/**
 * struct dti_session_also - what a command that plans variants asks for besides.
 * @list: @n other policies than memory.policy says, each written as that key is. Their sections
 *        [policy.NAME] count, too, and must hold what they may
 * @n_varied: so many assignments, the last, are values of --vary, and called so in messages
 * @path: where there are any, of the configuration that they vary
 */
typedef struct dti_session_also {
    const char *const *list;
    size_t n, n_varied;
    const char *path;
} dti_session_also;
dt_status dti_session_open_for(dt_session **out, const char *path, const char *const *sets,
    size_t n_sets, const dti_session_also *also, dt_err *err) DT_NODISCARD;

/* "configs/NAME", with .ini if need be, when there is such a file. */
bool dt_session_in_configs(const char *name, char *to, size_t bytes);

#endif
