/* For run_dir*.c only. */
#ifndef DT_TOOLS_RUN_DIR_PARTS_H
#define DT_TOOLS_RUN_DIR_PARTS_H

#include "tools/run_dir.h"

struct dt_run_dir {
    char *path, *file; /* file: room for dt_run_dir_file */
    char *moved;       /* NULL: nothing was */
    bool made;         /* this process made the folder */
    int lock, metrics; /* descriptors; -1 */
    int64_t metrics_bytes;
    uint64_t lost;
    dt_err why; /* of the first line lost */
};

enum { DTI_LOCK_TEXT = 160 };

/* Take the lock of a folder, for as long as *fd stays open. DT_E_BUSY names the process that holds
 * it. */
dt_status dti_lock_take(int *fd, const char *folder, dt_err *err) DT_NODISCARD;
/* Remove the lock's file, then let go. */
void dti_lock_drop(int fd, const char *folder);

/* Who holds, or held, the lock of a folder: "process 12 on host"; "" when there is no lock file. */
bool dti_lock_held(const char *folder, char holder[DTI_LOCK_TEXT]);

/* Open metrics.jsonl, which must not exist. */
dt_status dti_metrics_open(dt_run_dir *d, dt_err *err) DT_NODISCARD;
void dti_metrics_close(dt_run_dir *d);

#endif
