/* Inside a run: how its parts call each other. */
#ifndef DT_SESSION_RUN_RUN_INTERNAL_H
#define DT_SESSION_RUN_RUN_INTERNAL_H

#include "session/run.h"

/* A line for the observer. */
void dti_run_tell(dt_run *r, const char *label, const char *fmt, ...) DT_PRINTF(3, 4);
dt_teller dti_run_teller(dt_run *r); /* lines under "resume" */
bool dti_run_stop(const dt_run *r);
/* Samples left out by data.on_error = skip, each once. */
void dti_run_tell_skips(dt_run *r);
/* Asks the observer, which may end the run. */
dt_status dti_run_tell_ready(dt_run *r, dt_err *err) DT_NODISCARD;

/* Whoever is outside may ask NULL, or a run that could not be opened: whether it is another, and
 * DT_E_CONFIG unless it is and this process and thread can work on it. */
bool dti_run_is_open(const dt_run *r);
dt_status dti_run_check_open(const dt_run *r, dt_err *err) DT_NODISCARD;
/* The same, and DT_E_CONFIG within a call for this run: its observer, or what it registered, may
 * ask of the run but change nothing. */
dt_status dti_run_check_idle(const dt_run *r, dt_err *err) DT_NODISCARD;
/* DT_E_CONFIG where a pointer is NULL that has to be there; @what: "a path of a file". */
dt_status dti_run_need(const void *given, const char *what, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG unless there are weights, and whole ones. */
dt_status dti_run_check_weights(const dt_run *r, dt_err *err) DT_NODISCARD;
/* For a run that has not begun and will not: a plan of an evaluation of so many samples, and the
 * weights. */
dt_status dti_run_open_eval(dt_run *r, int64_t samples, dt_err *err) DT_NODISCARD;
/* A plan of evaluation, and its id in the runner; NULL: there is none. One that was given has no
 * program to ask for its scores. */
const dt_planned *dti_run_eval_plan(const dt_run *r, int *id);

/* Leave the session, which the caller has entered, and give @st. */
dt_status dti_run_left(dt_run *r, dt_status st) DT_NODISCARD;

/* ---- names.c ---- */

/* Where model.weights is of a run that has written down what its classes are called: they are
 * called so from now on. Not where @fresh has all that goes by them, as these are learned anew. */
dt_status dti_run_take_learned(dt_run *r, const char *fresh, dt_err *err) DT_NODISCARD;
/* The same, and DT_E_DATA where a source calls them otherwise. */
dt_status dti_run_check_learned(
    dt_run *r, const dt_source *source, const char *fresh, dt_err *err) DT_NODISCARD;

/* ---- prepare.c ---- */

/* config.ini, env.json, plan.txt, and classes.txt where the data has names for classes. */
dt_status dti_run_describe(dt_run *r, dt_err *err) DT_NODISCARD;
/* Run each plan once, then set the first weights, or those of the checkpoint. DT_E_STOPPED. */
dt_status dti_run_prepare(dt_run *r, dt_err *err) DT_NODISCARD;

/* Room for trying plans: a batch of zeros. */
typedef struct dti_tried {
    float *x;
    int32_t *labels;
} dti_tried;
dt_status dti_run_tried_open(dti_tried *t, const dt_run *r, dt_err *err) DT_NODISCARD;
void dti_run_tried_close(dti_tried *t);
/* Add a plan to the runner and run it once in the patterned arena, which loses what lives on there.
 * What was measured counts for the run. DT_E_STOPPED. */
dt_status dti_run_try(
    dt_run *r, const dt_planned *p, const dti_tried *with, dt_ready *to, dt_err *err) DT_NODISCARD;

/* ---- replan.c ---- */

/* Where a policy says so (dt_policy.replan) and nothing is in the way, which is told: the run plans
 * its steps anew every so many epochs. Close it even after a failure. */
dt_status dti_run_replan_open(dt_run *r, dt_err *err) DT_NODISCARD;
void dti_run_replan_close(dt_run *r);
/* Before steps: how far to train at once, at most to @until; the step that is counted is one by
 * itself. After every step. And when such steps are done. */
int64_t dti_run_replan_until(dt_run *r, int64_t until);
void dti_run_replan_seen(dt_run *r);
dt_status dti_run_replan(dt_run *r, dt_err *err) DT_NODISCARD;

/* ---- resume.c ---- */

/* Open the run directory: a new one, or the one to go on with and the checkpoint there. Nothing has
 * changed after a refusal. */
dt_status dti_run_open_dir(dt_run *r, dt_err *err) DT_NODISCARD;
/* Tidy what lies there, and put the checkpoint into the runner. */
dt_status dti_run_go_on(dt_run *r, dt_err *err) DT_NODISCARD;

/* ---- save.c ---- */

/* A line when the run's checkpoints will not fit beside what is there. */
void dti_run_foresee_space(dt_run *r);
/* Save if it is time to; a failure is told, and the run goes on, but where another may have its
 * folder: DT_E_BUSY. */
dt_status dti_run_save_due(dt_run *r, dt_err *err) DT_NODISCARD;
/* At the end: a checkpoint of the last whole step, unless there is one, and its weights. */
dt_status dti_run_save_last(dt_run *r, dt_err *err) DT_NODISCARD;

/* ---- facts.c ---- */

/* What a run is: keys and values, "train.batch" and "64". */
typedef struct dti_facts {
    size_t n, cap;
    bool full;     /* there was no room for all keys of layers */
    dt_fact *fact; /* texts are owned */
} dti_facts;
dt_status dti_facts_init(dti_facts *f, const dt_run *r, dt_err *err) DT_NODISCARD;
void dti_facts_deinit(dti_facts *f);

/* Before the run begins: DT_E_CONFIG when its checkpoints could not hold them. */
dt_status dti_facts_check(const dt_run *r, dt_err *err) DT_NODISCARD;

/* With the checkpoint to go on from. DT_E_CONFIG with a table when what must not change has
 * changed; what may is told. */
dt_status dti_facts_compare(dt_run *r, dt_err *err) DT_NODISCARD;

/* Whether what is held out is what that checkpoint's evaluations were of, as far as it tells. */
bool dti_facts_same_held_out(const dt_run *r);

/* ---- trace.c ---- */

/* All plans are in the runner: from now on they are traced, if that was asked for; what was
 * collected is written; the trace is closed. */
dt_status dti_run_trace_begin(dt_run *r, dt_err *err) DT_NODISCARD;
void dti_run_trace_flush(dt_run *r);
void dti_run_trace_close(dt_run *r);

/* ---- end.c ---- */

/* What moving cost, when it cost much, and the summary. Gives @st, or what went wrong here. */
dt_status dti_run_summarise(dt_run *r, dt_status st, dt_err *err) DT_NODISCARD;

#endif
