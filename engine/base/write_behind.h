/* Writing behind: what is put is gathered in large blocks, which threads sum up and write past the
 * page cache while the caller makes the next ones. So a file grows as fast as the slowest of the
 * three goes, and not as all of them one after the other. */
#ifndef DT_ENGINE_BASE_WRITE_BEHIND_H
#define DT_ENGINE_BASE_WRITE_BEHIND_H

#include "engine/base/error.h"
#include "engine/base/sha256.h"

typedef struct dti_behind dti_behind;

/* Of an empty file, open for writing; @path is what errors name. Both are borrowed. NULL: no
 * memory.
 */
dti_behind *dti_behind_open(int fd, const char *path);
/* Before anything is put: add all of it to @sum, which is whole once dti_behind_end has returned;
 * NULL: none. Borrowed. */
void dti_behind_sum(dti_behind *b, dt_sha256 *sum);
/* The next bytes. DT_E_IO says what failed, these or earlier ones; nothing may be put after it. */
dt_status dti_behind_put(dti_behind *b, const void *from, size_t n, dt_err *err) DT_NODISCARD;
/* The last of it. All is with the system then, not necessarily on the disk. */
dt_status dti_behind_end(dti_behind *b, dt_err *err) DT_NODISCARD;
/* At any time; what was not ended may be in the file or not. NULL is fine. */
void dti_behind_close(dti_behind *b);

#endif
