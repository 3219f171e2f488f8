/* What stays for later runs in the folder that memory.cache names, or in the user's for such
 * things, $XDG_CACHE_HOME/dnntrain or ~/.cache/dnntrain: profiles for memory.profile = auto, one
 * file for each of what numbers hold for, and network; and auto's fronts. Nothing else asks for the
 * folder, and nothing else of the library asks for what is in the environment. */
#ifndef DT_SESSION_PROFILE_CACHE_H
#define DT_SESSION_PROFILE_CACHE_H

#include <dnntrain.h>

#include "session/profile.h"

enum { DT_CACHE_PATH = 4096 };

/* Where the session's profile is kept, whether it is there or not. DT_E_CONFIG where there is no
 * such folder, or shall be none, or a card computes. */
dt_status dt_profile_kept(const dt_session *s, char to[DT_CACHE_PATH], dt_err *err) DT_NODISCARD;

/* Keep it there, the folder made when it is missing. Ops that the file has at other numbers of
 * samples are added to @p; a file that is no profile is replaced. DT_E_CONFIG as above, DT_E_IO,
 * DT_E_NOMEM. */
dt_status dt_profile_keep(
    const dt_session *s, dt_profile *p, char path[DT_CACHE_PATH], dt_err *err) DT_NODISCARD;

/* Whether the build's sources are those of its commit: else its fronts may be another's. */
bool dti_keeps_fronts(const dt_build *b);
/* What the names of files begin with in which auto's fronts are kept, of a dt_session, by this
 * build; false where there is no folder for them, or the build is of a tree with changes. A
 * dt_kept_stem. */
bool dti_fronts_kept(const void *session, char *to, size_t bytes);

#endif
