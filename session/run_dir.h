/* The folder a run writes: config.ini, plan.txt, env.json, classes.txt where classes have names,
 * metrics.jsonl, summary.json and checkpoints/. It belongs to one process at a time (file lock,
 * which the system drops when the process dies), and nothing that was there before is ever
 * overwritten or deleted, except that a run which goes on writes its own files anew. Links inside
 * it are not followed. */
#ifndef DT_SESSION_RUN_DIR_H
#define DT_SESSION_RUN_DIR_H

#include <stdio.h>

#include "engine/checkpoint/files.h"
#include "engine/config/run_options.h"
#include "engine/train.h"

typedef struct dt_run_dir dt_run_dir;

/* Its files. */
#define DT_RUN_CONFIG "config.ini"
#define DT_RUN_ENV "env.json"
#define DT_RUN_PLAN "plan.txt"
#define DT_RUN_CLASSES "classes.txt"
#define DT_RUN_METRICS "metrics.jsonl"
#define DT_RUN_METRICS_CUT "metrics.cut.jsonl"
#define DT_RUN_SUMMARY "summary.json"
#define DT_RUN_REPORT "report.html"
#define DT_RUN_LOCK "lock"
#define DT_RUN_WEIGHTS DT_CHECKPOINTS "/" DT_CHECKPOINT_MODEL

/**
 * dti_run_dir_open() - make the folder and try it out.
 * @o:     dir NULL: runs/MODEL-POLICY-N, with N above all that are there. Otherwise dir, which is
 *         made, with the folders above it; an empty folder is fine as well
 * @model @policy: for the name; a policy list "a, b" gives "a+b"
 *
 * DT_E_BUSY, with what to do, when the folder is in use by a process (named) or holds something;
 * with @o->overwrite what it holds is moved aside to DIR.old-K instead, the next free K. DT_E_IO
 * when it cannot be made or written: a file is written and renamed in it before anything else is
 * done. When it fails, a folder this call made is removed again, and a run that it moved is back
 * where it was, or the error says where it is.
 */
dt_status dti_run_dir_open(dt_run_dir **out, const dt_dir_opts *o, const char *model,
    const char *policy, dt_err *err) DT_NODISCARD;
/* Go on with the run a folder holds. DT_E_BUSY when a process has it, DT_E_CONFIG when it holds no
 * run, DT_E_IO.
 * Nothing has changed until dti_run_dir_cut. */
dt_status dti_run_dir_continue(dt_run_dir **out, const char *dir, dt_err *err) DT_NODISCARD;

/* The folder runs/MODEL-POLICY-N with the largest N; NULL when there is none. dt_free it.
 * DT_E_NOMEM.
 */
dt_status dti_run_dir_newest(
    char **out, const char *model, const char *policy, dt_err *err) DT_NODISCARD;

/* Whether a folder holds anything, and whether it is a run's. A folder that is not there holds
 * nothing. */
dt_status dt_run_dir_holds(const char *dir, bool *any, bool *run, dt_err *err) DT_NODISCARD;

/* Cut RUN/checkpoints/NAME, a path as realpath gives it, to RUN, by the names alone; false where it
 * is another folder, of which any part may be cut then. */
bool dt_run_dir_of_checkpoint(char *path);

/* Whether a file is one that a run wrote into its folder, or is below its checkpoints. */
bool dti_run_dir_wrote(const char *path);

/* Begin to write where a run goes on: remove what a process that is gone was writing, make what is
 * missing, and cut metrics.jsonl after the lines of @step, or before the evaluation of that step
 * when it is still to be made (@evaluated false), and after a line that is none. What is cut goes
 * to metrics.cut.jsonl, after what is there; *lines says how much. Before any line is written. */
dt_status dti_run_dir_cut(
    dt_run_dir *d, int64_t step, bool evaluated, int64_t *lines, dt_err *err) DT_NODISCARD;

/* Of a run that has not begun: takes away what it wrote, the folder too if that was made for it,
 * and gives the lock back. A run that was moved aside goes back; @err, which says why this is done,
 * says where it is if it cannot. Only dti_run_dir_close may follow. */
void dti_run_dir_discard(dt_run_dir *d, dt_err *err);
/* Adds where an older run went, if one was moved, to an error. */
void dti_run_dir_tell_moved(const dt_run_dir *d, dt_err *err);

/* Gives the lock back, and removes its file. */
void dti_run_dir_close(dt_run_dir *d);

/* In a child of the process that opened it, whose folder it stays: closes what is open here. */
void dti_run_dir_let_go(dt_run_dir *d);

/* Without a / at its end. A folder that is moved while the run goes on is followed, so ask again
 * after writing; what was borrowed before stays readable. */
const char *dt_run_dir_path(const dt_run_dir *d);
const char *dt_run_dir_moved(
    const dt_run_dir *d); /* where an older run went; NULL: there was none */

/* Before files are written by their paths: the folder is followed where it was moved to, so that
 * nothing is written into another in its place. DT_E_IO: it is gone. DT_E_BUSY: its lock is, and
 * another run may have it. */
dt_status dt_run_dir_there(dt_run_dir *d, dt_err *err) DT_NODISCARD;

/* Path of a file in the folder; borrowed until the next call. */
const char *dti_run_dir_file(dt_run_dir *d, const char *name);

/* What a file of the folder is made of: @arg as text. */
typedef dt_status dti_run_dir_printer(const void *arg, FILE *f, dt_err *err);

/* Write a file of the folder, whole or not at all: what @print writes into f, or nothing where it
 * fails. @print may be called once, at once. DT_E_IO, DT_E_NOMEM. */
dt_status dti_run_dir_write(dt_run_dir *d, const char *name, dti_run_dir_printer *print,
    const void *arg, dt_err *err) DT_NODISCARD;

/* config.ini, the effective configuration. */
dt_status dti_run_dir_config(dt_run_dir *d, const dt_config *c, dt_err *err) DT_NODISCARD;

/* Sync what a new run wrote before its first step, all at once: config.ini, env.json, plan.txt,
 * classes.txt.
 * Behind that step, so that it waits for no disk; before the first checkpoint and the summary in
 * any case. Does nothing when that is done, and in a run that goes on, which syncs each. DT_E_IO.
 */
dt_status dti_run_dir_settle(dt_run_dir *d, dt_err *err) DT_NODISCARD;

/* env.json: what results depend on besides the configuration, and what the network is called. */
typedef struct dti_run_facts {
    const char *network;
    const char *version; /* of this program */
    const char *library; /* "oneDNN 2.6.3"; NULL: not said */
    const char *device, *isa, *library_isa;
    int threads;
    uint64_t seed;
} dti_run_facts;
dt_status dti_run_dir_facts(dt_run_dir *d, const dti_run_facts *f, dt_err *err) DT_NODISCARD;

/* What the run in @folder called its network, by its env.json: letters, digits, '.', '_', '-', as
 * files may be called so. False, and @to as it was, where that says nothing of the kind. */
bool dti_run_dir_network(const char *folder, char *to, size_t bytes);
/* After which step the weights of the run in @folder, DT_RUN_WEIGHTS, were written, by its
 * summary.json; -1: that does not say, or there is none. A run that went on since may be further.
 */
int64_t dt_run_dir_weights_step(const char *folder);

/* The best evaluation of a run by checkpoint.best, of which it keeps a checkpoint. */
typedef struct dt_run_best {
    int64_t step; /* 0: none */
    dt_best by;
    double value; /* the loss, or the share that is right */
} dt_run_best;
/* That of the run in @folder when it last came to an end, by its summary.json. */
dt_run_best dt_run_dir_best(const char *folder);

/* Append a line to metrics.jsonl, at once. A line that cannot be written is counted, and training
 * goes on; a line written later takes its place, so the file never holds half a line but at its
 * end. Lines of a file that somebody removed or replaced are lost as well, and the next begins
 * another, where none is in the way; that is looked at by a sync and by the summary. Allocates
 * nothing. */
void dti_run_dir_step(dt_run_dir *d, const dt_step_report *r);
void dti_run_dir_eval(dt_run_dir *d, const dt_eval_report *r);
void dti_run_dir_sync(dt_run_dir *d); /* so that no checkpoint is ahead of its lines */

/* Lines lost so far; *why (may be NULL) is the first reason, "" without any. Borrowed. */
uint64_t dt_run_dir_lost(const dt_run_dir *d, const char **why);

/**
 * struct dti_run_summary - summary.json, at the end of a run of any outcome.
 * @status:  DT_OK, DT_E_STOPPED or the failure; @error: its trail, or NULL
 * @steps @epochs: done; whole epochs
 * @weights_step: -1: there are none of a known step, written as null
 * @samples: trained on, over all steps; @skipped: how often a bad one was left out
 * @seconds: of training, evaluation included
 * @images_per_second: median of this process's steps; NaN, written as null: this process did none
 * @device_peak_measured: 0: not measured, written as null
 * @first_loss @final_loss: of the first and the last step done; null without any
 * @eval:    the last evaluation; NULL: none
 * @best:    left out without any
 */
typedef struct dti_run_summary {
    dt_status status;
    const char *error;
    const char *model, *policy, *chosen_by, *device, *precision, *pool, *isa, *library_isa;
    bool exact;
    int64_t batch, micro_batch, threads, parameters;
    int64_t steps, steps_planned, weights_step, epochs, samples, skipped;
    double seconds, images_per_second, first_loss, final_loss;
    uint64_t device_budget, device_peak_planned, device_peak_measured;
    uint64_t host_peak_planned, disk_peak_planned;
    const dt_runner_stats *moved; /* by this process; NULL: nothing was run */
    int64_t reruns;               /* steps run again because packed values did not fit */
    uint64_t process_peak, outside_arena_bytes;
    const dt_eval_report *eval;
    dt_run_best best;
} dti_run_summary;
/* "done", "stopped" or "failed", as it says of a run that ended so. */
const char *dt_run_word(dt_status s);
dt_status dti_run_dir_summary(dt_run_dir *d, const dti_run_summary *s, dt_err *err) DT_NODISCARD;

#endif
