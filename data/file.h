/* Data files: read whole, regular files only, with names that are safe in messages. */
#ifndef DT_DATA_FILE_H
#define DT_DATA_FILE_H

#include <sys/stat.h>

#include "engine/base/error.h"

/* Size and time of change, by which a file that changes during a run is noticed. */
typedef struct dti_stamp {
    int64_t bytes, seconds, nanoseconds;
} dti_stamp;

dti_stamp dti_stamp_of(const struct stat *st);

/* DT_E_IO or DT_E_NOMEM for an errno that tells of the machine, else DT_E_DATA: a fault of the
 * machine is not one of the data, and must not be skipped like one. */
dt_status dti_blame(int error) DT_NODISCARD;

/* A whole file of at most @cap bytes; dt_free it. DT_E_DATA for one that is missing, not regular,
 * not readable, too large or, unless @stamp is NULL, not what it was; DT_E_IO when reading fails.
 */
dt_status dti_slurp(uint8_t **bytes, size_t *n, const char *path, size_t cap,
    const dti_stamp *stamp, dt_err *err) DT_NODISCARD;

/* DT_E_DATA, or what dti_blame says, with the system's text when the path cannot be looked at. */
dt_status dti_is_folder(bool *folder, const char *path, dt_err *err) DT_NODISCARD;

bool dti_is_there(const char *path);

/* "a/b", or NULL when memory is out; dt_free it. */
char *dti_join(const char *a, const char *b) DT_NODISCARD;

#endif
