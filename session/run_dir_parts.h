/* For run_dir*.c only. */
#ifndef DT_SESSION_RUN_DIR_PARTS_H
#define DT_SESSION_RUN_DIR_PARTS_H

#include "session/run_dir.h"

struct dt_run_dir {
    char *path, *file; /* file: room for dti_run_dir_file */
    char **older;      /* paths it had before, which are borrowed still */
    size_t n_older, cap_older;
    int folder;        /* descriptor of the folder itself; -1 */
    char *moved;       /* NULL: nothing was */
    bool made;         /* this process made the folder */
    int lock, metrics; /* descriptors; -1 */
    int64_t metrics_bytes;
    uint64_t lost;
    dt_err why; /* of the first line lost */
};

#define DTI_RUNS "runs"

enum { DTI_LOCK_TEXT = 160, DTI_PREFIX_BYTES = 194 };

dt_status dti_run_no_memory(dt_err *err);

/* MODEL-POLICY, and the largest N of the folders PREFIX-N in runs/; 0 when there is none. */
void dti_run_prefix(char to[DTI_PREFIX_BYTES], const char *model, const char *policy);
long dti_run_last(const char *prefix);

/* What a folder holds besides a lock. */
typedef struct dti_content {
    bool any, run; /* of a run */
} dti_content;
dt_status dti_run_look(const char *path, dti_content *c, dt_err *err) DT_NODISCARD;
/* DT_E_BUSY: what to do about it. */
dt_status dti_run_used(const char *path, const dti_content *c, dt_err *err);

/* The folder has its name: hold on to it, and make room for the names of its files. */
dt_status dti_run_named(dt_run_dir *d, dt_err *err) DT_NODISCARD;
/* Write, sync and rename a file in the folder. */
dt_status dti_run_probe(dt_run_dir *d, dt_err *err) DT_NODISCARD;

/* Take the lock of a folder, for as long as *fd stays open. DT_E_BUSY names the process that holds
 * it. */
dt_status dti_lock_take(int *fd, const char *folder, dt_err *err) DT_NODISCARD;
/* Remove the lock's file, then let go. */
void dti_lock_drop(int fd, const char *folder);

/* Who holds, or held, the lock of a folder: "process 12 on host"; "" when there is no lock file. */
bool dti_lock_held(const char *folder, char holder[DTI_LOCK_TEXT]);

/* Open metrics.jsonl: one that must not exist, or the one that is there, if any. */
dt_status dti_metrics_open(dt_run_dir *d, bool go_on, dt_err *err) DT_NODISCARD;
void dti_metrics_close(dt_run_dir *d);

#endif
