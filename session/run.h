/* A training run, from its configuration to its summary. Everything that can be refused is refused
 * before the first byte of the arena is reserved, and before anything in a run directory changes.
 * Nothing is printed: an observer is told. */
#ifndef DT_SESSION_RUN_H
#define DT_SESSION_RUN_H

#include "engine/checkpoint/checkpoint.h"
#include "session/feeds.h"
#include "session/rate.h"
#include "session/rig.h"
#include "session/run_dir.h"

typedef struct dt_run dt_run;
typedef struct dti_run_trace dti_run_trace;

/**
 * struct dt_run_observer - who is told of a run. Members may be NULL.
 * @line:  what happens beside the steps, one line each without a newline, under a label such as
 *         "resume", "saving" or "skipped"
 * @ready: once, when the run directory is open and all is known that can be before the first step;
 *         a status other than DT_OK ends the run
 * @step @eval: after each
 * @stop:  polled between micro-batches and before what takes long: whether the run shall end
 */
typedef struct dt_run_observer {
    void *self;
    void (*line)(void *self, const char *label, const char *text);
    dt_status (*ready)(void *self, const dt_run *r, dt_err *err);
    void (*step)(void *self, const dt_step_report *report);
    void (*eval)(void *self, const dt_eval_report *report);
    bool (*stop)(void *self);
} dt_run_observer;

/**
 * struct dt_run - a run.
 * @measured: the highest byte of the arena that a checked run of any plan changed
 * @goes_on:  with the run that is in the run directory
 * @from:     and with this of its checkpoints; NULL: from the first step
 * @course:   of the whole run, resumed parts included
 * @point:    where the weights stand
 * @saved_step: of the newest checkpoint; -1: none
 * @began_seconds: of the course, when this process began to train
 * @begun:    the observer's ready was called
 * @launches_told: that the device keeps no plans
 * @goes_straight: the data stands where the weights do
 * @saved @summarised: DT_RUN_WEIGHTS and summary.json are written
 * @eval_mean_iou: of the latest evaluation in this process; checkpoints have none
 * @process_peak @outside: in bytes, at the end: of the process, and what lies beside the arena
 */
struct dt_run {
    dt_session *s;
    dt_feeds feeds;
    dt_run_dir *dir;
    dt_rig rig;
    dti_run_trace *trace; /* NULL: none */
    dt_run_observer observer;
    dt_rate rate;
    uint64_t measured;
    bool goes_on;
    dt_checkpoint *from;
    dt_course course;
    dt_train_point point;
    int64_t saved_step;
    bool saved_evaluated, is_best;
    double began_seconds;
    int64_t began_step, began_skipped;
    size_t skips_told;
    bool begun, goes_straight, saved, summarised, launches_told;
    bool eval_pixels;
    double eval_mean_iou;
    uint64_t process_peak, outside;
};

/* Read and check a configuration, as dt_session_open does. The caller owns *out even on failure,
 * when it may be NULL. */
dt_status dt_run_open(dt_run **out, const char *path, const char *const *sets, size_t n_sets,
    dt_err *err) DT_NODISCARD;
void dt_run_close(dt_run *r);

/* Have a line written to a file for each row that is executed (docs/commands.md, DT_TRACE), by
 * training and by evaluation: before either begins. @path: NULL or "": none. DT_E_IO when it cannot
 * be created; what cannot be written later is told, and the run goes on. */
dt_status dt_run_trace(dt_run *r, const char *path, dt_err *err) DT_NODISCARD;

/* Plan, open the data, reserve memory, open the run directory, run each plan once, and set the
 * first weights or those of the checkpoint to go on from. @o: copied; NULL: nobody is told.
 * DT_E_STOPPED when the observer asks for it. */
dt_status dt_run_begin(dt_run *r, const dt_run_observer *o, dt_err *err) DT_NODISCARD;

/* Train until so many steps of the run are done, or all of them when it has fewer. Evaluates and
 * saves when the configuration says so. A step that failed is discarded whole. */
dt_status dt_run_train(dt_run *r, int64_t until, dt_err *err) DT_NODISCARD;

/* The end of a run that has opened its run directory, @st being how it went: a checkpoint of the
 * last whole step unless there is one, the weights, and the summary. Gives @st, or what went wrong
 * with these. */
dt_status dt_run_end(dt_run *r, dt_status st, dt_err *err) DT_NODISCARD;

/* One pass over the data kept apart, with the weights as they stand; of a run that has not begun,
 * those of model.weights or the first ones, and nothing is written anywhere. @o as above: stop is
 * polled after each batch. */
dt_status dt_run_evaluate(
    dt_run *r, const dt_run_observer *o, dt_eval_report *report, dt_err *err) DT_NODISCARD;

/* Save a checkpoint of the last whole step now, and remove those that are not kept. */
dt_status dt_run_save(dt_run *r, dt_err *err) DT_NODISCARD;

/* The plan with the highest peak. */
const dt_plan *dt_run_largest_plan(const dt_run *r);

#endif
