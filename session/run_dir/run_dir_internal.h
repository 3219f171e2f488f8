/* What the files of a run directory share. */
#ifndef DT_SESSION_RUN_DIR_RUN_DIR_INTERNAL_H
#define DT_SESSION_RUN_DIR_RUN_DIR_INTERNAL_H

#include "session/run_dir.h"

struct dt_run_dir {
    char *path, *file; /* file: room for dti_run_dir_file */
    char **older;      /* paths it had before, which are borrowed still */
    size_t n_older, cap_older;
    int folder;        /* descriptor of the folder itself; -1 */
    char *moved;       /* NULL: nothing was */
    bool made;         /* this process made the folder */
    bool begins;       /* a new run, of which nothing needs to last yet */
    int lock, metrics; /* descriptors; -1 */
    int64_t metrics_bytes;
    uint64_t lines; /* that this process wrote into that file */
    uint64_t lost;
    dt_err why; /* of the first line lost */
};

/* ---- the lock ---- */

enum { DTI_HOLDER_BYTES = 160 };

/* Take the lock of a folder, for as long as *fd stays open. DT_E_BUSY names the process that holds
 * it. */
dt_status dti_run_lock_take(int *fd, const char *folder, dt_err *err) DT_NODISCARD;
/* Remove the lock's file, then let go; -1: there is none. */
void dti_run_lock_drop(int fd, const char *folder);
/* Whether the file of a lock that was taken still has its name: else another may take it. */
bool dti_run_lock_lasts(int fd, const char *folder);
/* Whether the lock of a folder is held, and who holds, or held, it: "process 12 on host"; "" when
 * there is no lock file. */
bool dti_run_lock_held(const char *folder, char holder[DTI_HOLDER_BYTES]);

/* ---- the folder ---- */

#define DTI_RUNS "runs"
enum { DTI_PREFIX_BYTES = 194 };

/* What a folder holds besides a lock. */
typedef struct dti_content {
    bool any, run; /* of a run */
} dti_content;
dt_status dti_run_look(const char *path, dti_content *c, dt_err *err) DT_NODISCARD;

/* MODEL-POLICY, and the largest N of the folders PREFIX-N in runs/; 0 when there is none. */
void dti_run_prefix(char to[DTI_PREFIX_BYTES], const char *model, const char *policy);
dt_status dti_run_last(long *last, const char *prefix, dt_err *err) DT_NODISCARD;

/* The folder has its name: hold on to it, and make room for the names of its files. */
dt_status dti_run_named(dt_run_dir *d, dt_err *err) DT_NODISCARD;
/* Write and rename a file in the folder; where a run goes on, sync it as well. */
dt_status dti_run_probe(dt_run_dir *d, dt_err *err) DT_NODISCARD;

static inline dt_status DT_NODISCARD dti_run_no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for the run directory's name");
}

/* ---- its files ---- */

enum { DTI_NUMBER_BYTES = 40 };
/* As JSON has it; what is not finite, for which that has no word, as a string. */
const char *dti_real_text(char to[DTI_NUMBER_BYTES], double v);

/* Open metrics.jsonl: one that must not exist, or the one that is there, if any. */
dt_status dti_metrics_open(dt_run_dir *d, bool go_on, dt_err *err) DT_NODISCARD;
/* A file that somebody removed or replaced is let go of, its lines are lost, and the next line
 * begins another. */
void dti_metrics_look(dt_run_dir *d);
/* What a failed write may have left behind the last whole line goes. */
void dti_metrics_close(dt_run_dir *d);

#endif
