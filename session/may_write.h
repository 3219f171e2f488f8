/* What can be written, and may be: no file that is read, and none that a run left. */
#ifndef DT_SESSION_MAY_WRITE_H
#define DT_SESSION_MAY_WRITE_H

#include "session/session.h"

/* DT_E_CONFIG where a file to be written would take the place of one that the session reads: of its
 * configuration, of what any key of that names (a file, or what there is in a folder of data), of
 * the plans that it was given; or of one that a run wrote into its folder. */
dt_status dt_may_write(const dt_session *s, const char *path, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG where a file would be run.dir or lie in it, which need not be there yet. */
dt_status dti_may_write_beside(const dt_session *s, const char *path, dt_err *err) DT_NODISCARD;

/* DT_E_IO, with what to do, where no file could be made at a path. */
#define DT_WRITE_REMEDY "name a file in a folder that is there and can be written"
dt_status dt_can_write(const char *path, dt_err *err) DT_NODISCARD;

#endif
