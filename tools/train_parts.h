/* For train*.c only: one run, from its configuration to its summary. */
#ifndef DT_TOOLS_TRAIN_PARTS_H
#define DT_TOOLS_TRAIN_PARTS_H

#include "engine/checkpoint/checkpoint.h"
#include "session/feeds.h"
#include "tools/progress.h"
#include "session/run_dir.h"

typedef struct dti_training {
    dt_session *s;
    dt_feeds feeds;
    dt_run_dir *dir;
    dt_runner *runner;
    dt_progress *progress;
    dt_ready *ready;
    uint64_t measured;
    bool goes_on;         /* with the run that is in the run directory */
    dt_checkpoint *from;  /* and with this of its checkpoints; NULL: from the first step */
    char *note;           /* lines told before the facts are shown; NULL: none */
    dt_course course;     /* of the whole run, resumed parts included */
    dt_train_point point; /* where the weights stand */
    int64_t saved_step;   /* of the newest checkpoint; -1: none */
    bool saved_evaluated, is_best;
    double began_seconds; /* of the course, when this process began to train */
    int64_t began_step, began_skipped;
    size_t skips_told;
    bool saved; /* DT_RUN_WEIGHTS */
    bool eval_pixels;
    double eval_mean_iou; /* of the latest evaluation in this process; checkpoints have none */
} dti_training;

double dti_now(void);

/* ---- train_prepare.c ---- */

/* Reserve memory; a run that is refused until here leaves no folder. */
dt_status dti_train_reserve(dti_training *t, dt_err *err) DT_NODISCARD;
/* config.ini, env.json, plan.txt; then the facts on stderr. */
dt_status dti_train_describe(dti_training *t, dt_err *err) DT_NODISCARD;
/* Run each plan once, then set the first weights, or those of the checkpoint. DT_E_STOPPED. */
dt_status dti_train_prepare(dti_training *t, dt_err *err) DT_NODISCARD;

/* ---- train_resume.c ---- */

/* Open the run directory: a new one, or the one to go on with and the checkpoint there. Nothing has
 * changed after a refusal. */
dt_status dti_train_open(dti_training *t, dt_err *err) DT_NODISCARD;
/* Tidy what lies there, and put the checkpoint into the runner. */
dt_status dti_train_go_on(dti_training *t, dt_err *err) DT_NODISCARD;

/* ---- train_save.c ---- */

/* A line when the run's checkpoints will not fit beside what is there. */
void dti_train_foresee_space(dti_training *t);
/* Save if it is time to; a failure is told, and the run goes on. */
void dti_train_save_due(dti_training *t);
/* At the end: a checkpoint of the last whole step, unless there is one, and its weights. */
dt_status dti_train_save_last(dti_training *t, dt_err *err) DT_NODISCARD;

/* ---- train_facts.c ---- */

/* What a run is: keys and values, "train.batch" and "64". */
typedef struct dti_facts {
    size_t n, cap;
    dt_fact *fact; /* texts are owned */
} dti_facts;
dt_status dti_facts_init(dti_facts *f, const dti_training *t, dt_err *err) DT_NODISCARD;
void dti_facts_deinit(dti_facts *f);

/* Before the run begins: DT_E_CONFIG when its checkpoints could not hold them. */
dt_status dti_facts_check(const dti_training *t, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG with a table when what must not change has changed; what may is told. */
dt_status dti_facts_compare(dti_training *t, const dt_checkpoint *c, dt_err *err) DT_NODISCARD;

/* ---- train_report.c ---- */

extern const dt_observer dti_train_observer; /* its self is a dti_training; stop is not set */

/* A line above the progress; kept until there is one. */
void dti_train_tell(dti_training *t, const char *label, const char *fmt, ...) DT_PRINTF(3, 4);
dt_teller dti_train_teller(dti_training *t);
void dti_train_tell_skips(dti_training *t);

/* Summary and last lines. @st: how the run went. */
dt_status dti_train_finish(dti_training *t, dt_status st, dt_err *err) DT_NODISCARD;

/* ---- train.c ---- */

bool dti_train_asked_to_stop(void);

#endif
