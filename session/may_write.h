/* What may be written: no file that is read, and none that a run left. */
#ifndef DT_SESSION_MAY_WRITE_H
#define DT_SESSION_MAY_WRITE_H

#include "session/session.h"

/* DT_E_CONFIG where a file to be written would take the place of one that the session reads: of its
 * configuration, of what any key of that names (a file, or what there is in a folder of data), of
 * the plans that it was given; or of one that a run wrote into its folder. */
dt_status dt_may_write(const dt_session *s, const char *path, dt_err *err) DT_NODISCARD;

#endif
