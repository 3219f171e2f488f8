/* Reading ahead: a thread reads a file from its beginning on, past the page cache where the file
 * system lets it, while the caller works on the bytes before. So a file that is read once, as those
 * of checkpoints are, goes by as fast as the slower of the two goes, and takes the place of nothing
 * in the page cache. */
#ifndef DT_ENGINE_BASE_READ_AHEAD_H
#define DT_ENGINE_BASE_READ_AHEAD_H

#include <sys/types.h>

#include "engine/base/error.h"

typedef struct dti_ahead dti_ahead;

enum { DTI_AHEAD_BYTES = 8 << 20 }; /* of memory that one takes, its thread not counted */

/* Of a regular file, which is opened here. @wrong is the status of one that is missing or none;
 * DT_E_NOMEM. */
dt_status dti_ahead_open(
    dti_ahead **out, const char *path, dt_status wrong, dt_err *err) DT_NODISCARD;
/* Whether it is of the file that is open as @fd: by its path there may be another by now. */
bool dti_ahead_is(const dti_ahead *a, int fd);
/* Its bytes, as they were when it was opened. */
off_t dti_ahead_bytes(const dti_ahead *a);
/* The next bytes, which stay until the next call; *n is 0 at the end. DT_E_IO; DT_E_DATA when the
 * file has become shorter. */
dt_status dti_ahead_next(dti_ahead *a, const void **bytes, size_t *n, dt_err *err) DT_NODISCARD;
/* @n bytes from @at on, for a caller who goes through the file in this order; *had is false, and
 * nothing done, where they lie behind him or far ahead. */
dt_status dti_ahead_read(
    dti_ahead *a, off_t at, void *to, size_t n, bool *had, dt_err *err) DT_NODISCARD;
void dti_ahead_close(dti_ahead *a); /* at any time; NULL is fine */

#endif
