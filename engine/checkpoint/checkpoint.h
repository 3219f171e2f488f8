/* Checkpoints: all a run needs to go on as if it had not stopped, in a folder of its own,
 *
 *   FOLDER/step-00001200/model.safetensors  weights and running statistics, see weights.h
 *                        state.safetensors  optimizer state, and where the run stands
 *                        manifest.json      bytes and SHA-256 of both, format, facts of the run
 *
 * A checkpoint is written beside, under a name that starts with a dot, each file and the folder
 * synced, then renamed, so that under its own name it is whole. That is never relied on: reading
 * looks at every byte. FOLDER belongs to the caller alone (a run directory's lock); links in it are
 * not followed. */
#ifndef DT_ENGINE_CHECKPOINT_CHECKPOINT_H
#define DT_ENGINE_CHECKPOINT_CHECKPOINT_H

#include <dnntrain/report.h>

#include "engine/runner/runner.h"

enum { DT_CHECKPOINT_FORMAT = 1, DT_CHECKPOINT_FACTS = 512 };

/* Where a run stands, in numbers. Only the first four decide how it goes on. */
typedef struct dt_course {
    int64_t step;      /* steps done */
    int64_t epoch;     /* of the next step */
    int64_t at;        /* place in that epoch's order where the next batch begins */
    int64_t evaluated; /* 0: the evaluation due after the last step is still to be made */
    int64_t samples, skipped, reruns;
    double seconds, first_loss, last_loss;
    int64_t best_step; /* of the best evaluation; 0: none yet */
    int64_t best_by;   /* checkpoint.best, by which it was; 0: not told, as by older versions */
    double best;
    int64_t improved_step; /* for train.patience: of the best, also where it could not be saved */
    double improved;
    int64_t worse;       /* evaluations since that were no better */
    dt_eval_report eval; /* the last; step 0: none yet; mean_iou, accuracy: NaN where not told */
    bool waits; /* gradients of the last step, whose update is delayed, are there as well */
} dt_course;

/* What a checkpoint tells of its run besides numbers: keys and values, UTF-8. */
typedef struct dt_fact {
    const char *key, *value;
} dt_fact;
const char *dt_fact_find(const dt_fact *facts, size_t n, const char *key); /* NULL if none */

/* What is saved, and what is loaded into. */
typedef struct dt_trained {
    dt_runner *runner;
    const dt_graph *graph;
    const dt_map *map;
} dt_trained;

/* Bytes on disk: few more than it takes, with facts of a few KiB as a run's are. */
uint64_t dt_checkpoint_bytes(const dt_trained *t);

/* Before a run: DT_E_CONFIG when a checkpoint with these facts could not be read again: too many,
 * too long, or no UTF-8. Saving refuses them as well. */
dt_status dt_checkpoint_check_facts(const dt_fact *facts, size_t n, dt_err *err) DT_NODISCARD;

/* The same of the tensors of what is trained, whose number a file bounds. */
dt_status dt_checkpoint_check_tensors(const dt_trained *t, dt_err *err) DT_NODISCARD;

/* DT_E_IO with both numbers when a file system has less than @bytes free. One that does not say is
 * taken to have enough. */
dt_status dt_space_check(const char *folder, uint64_t bytes, dt_err *err) DT_NODISCARD;

/* DT_E_IO where FOLDER is not there, or is no folder: what is written below a link goes elsewhere.
 */
dt_status dt_checkpoint_folder(const char *folder, dt_err *err) DT_NODISCARD;

/* Write FOLDER/step-N for c->step. An older one of the same step gives way once the new one is
 * whole. After a failure what was there before is there still, and nothing is left behind that
 * could be removed; only when the folder's own sync fails, which comes last, the new one is there
 * too, and an older one of its step under a name that dt_checkpoint_tidy removes. DT_E_IO,
 * DT_E_NOMEM, DT_E_CONFIG as above. */
dt_status dt_checkpoint_save(const char *folder, const dt_trained *t, const dt_course *c,
    const dt_fact *facts, size_t n_facts, dt_err *err) DT_NODISCARD;

/* Have the file @path be the weights of FOLDER/step-N: a second name of the file there. DT_E_IO
 * where that cannot be; @path is then as it was. */
dt_status dt_checkpoint_link_weights(
    const char *folder, int64_t step, const char *path, dt_err *err) DT_NODISCARD;

/* "step-N", as a checkpoint's folder is called. Returns @to. */
enum { DT_CHECKPOINT_NAME = 40 };
const char *dt_checkpoint_name(char to[DT_CHECKPOINT_NAME], int64_t step);

/* Whether there is FOLDER/step-N, whole or not. */
bool dt_checkpoint_there(const char *folder, int64_t step);

/* The step of the newest checkpoint in a folder, whole or not, by the names alone; -1: there is
 * none. DT_E_IO, DT_E_NOMEM. */
dt_status dt_checkpoint_last(int64_t *step, const char *folder, dt_err *err) DT_NODISCARD;

typedef struct dt_checkpoint dt_checkpoint;

/* Read the manifest and verify every byte. DT_E_DATA says what is wrong with it. Until it is let go
 * or closed, pruning leaves it there. */
dt_status dt_checkpoint_open(dt_checkpoint **out, const char *path, dt_err *err) DT_NODISCARD;
void dt_checkpoint_let_go(dt_checkpoint *c); /* its files are no longer needed */
void dt_checkpoint_close(dt_checkpoint *c);

const char *dt_checkpoint_path(const dt_checkpoint *c);
const dt_course *dt_checkpoint_course(const dt_checkpoint *c);
const char *dt_checkpoint_fact(const dt_checkpoint *c, const char *key); /* NULL: not told */
size_t dt_checkpoint_facts(const dt_checkpoint *c);
dt_fact dt_checkpoint_fact_at(const dt_checkpoint *c, size_t i);

/* Where things are told, one line each, without a newline. */
typedef struct dt_teller {
    void *self;
    void (*tell)(void *self, const char *line);
} dt_teller;

/* A checkpoint that a save had taken the name from, to put another in its place, when it was cut
 * short has that again; each is told. For the run whose folder it is, before it looks for the
 * newest. DT_E_IO. */
dt_status dt_checkpoint_put_back(
    const char *folder, const dt_teller *tell, dt_err *err) DT_NODISCARD;

/* The newest valid checkpoint of a folder. Others that are newer are passed over, each with a line
 * told. *out is NULL when there is none at all; DT_E_DATA when there are some, but none is valid,
 * with the reason for each. */
dt_status dt_checkpoint_newest(
    dt_checkpoint **out, const char *folder, const dt_teller *tell, dt_err *err) DT_NODISCARD;

/* Put weights, running statistics and optimizer state where the runner has them. Looks at all names
 * and shapes first. DT_E_DATA when the network is another one. */
dt_status dt_checkpoint_load(const dt_checkpoint *c, const dt_trained *t, dt_err *err) DT_NODISCARD;

/* Before a run goes on from @step: remove what saves that were cut short have left, but for a whole
 * checkpoint of a step that has no other, which gets its name again; and give checkpoints of later
 * steps (damaged, or of a future that is now another) names under which they are no longer found.
 * So are the weights beside them, where they are of a later end; @ended: the step of that, -1: not
 * known. Each is told. A folder that is not there is tidy. */
dt_status dt_checkpoint_tidy(const char *folder, int64_t step, int64_t ended, const dt_teller *tell,
    dt_err *err) DT_NODISCARD;

/* Remove all but the newest @keep that are whole by their sizes, and step @best; damaged ones stay
 * and do not count. Each is renamed before it is removed. What another holds open stays until the
 * next time. */
dt_status dt_checkpoint_prune(
    const char *folder, int64_t keep, int64_t best, dt_err *err) DT_NODISCARD;

#endif
