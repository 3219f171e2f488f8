/* The training loop: steps of micro-batches, updates, evaluation; over plans already prepared in a
 * runner. It prints nothing: an observer is told. */
#ifndef DT_ENGINE_TRAIN_H
#define DT_ENGINE_TRAIN_H

#include <dnntrain/report.h>

#include "engine/config/run_options.h"
#include "engine/runner/runner.h"

/* A prepared plan: which program, for how many samples. */
typedef struct dt_ready {
    dt_program_kind kind;
    int64_t n;
    bool dense; /* for steps whose packed values did not fit */
    int id;     /* of the runner */
} dt_ready;

/**
 * struct dt_packing - when packed values do not fit.
 * @rest: steps yet that are run by the dense plans at once
 * @span: how many that was at first; 0: the last step that packed its values had room for them
 *
 * A step whose values do not fit is run twice. Those behind it are likely to be like it, so one of
 * them packs nothing, then another step tries to; where that fails as well, two pack nothing, then
 * four, and so on up to 64. Which plan computes a step never changes a bit.
 */
typedef struct dt_packing {
    int64_t rest, span;
} dt_packing;

/* Where a run stands, between two steps. */
typedef struct dt_train_point {
    int64_t step;    /* steps done */
    int64_t at;      /* of the feed, where the next batch begins */
    int64_t skipped; /* of the feed, bad samples left out before that */
    bool evaluated;  /* if evaluation is due after that step, it has been made */
    bool pending;    /* gradients of the step before wait for an update that is delayed */
    bool broken;     /* an update has failed: what lives on is of no step, and not to be saved */
    dt_packing packing;
} dt_train_point;

/* Told of what happens; a status other than DT_OK ends the run. Members may be NULL. */
typedef struct dt_observer {
    void *self;
    dt_status (*step)(void *self, const dt_step_report *r, dt_err *err);
    dt_status (*eval)(void *self, const dt_eval_report *r, dt_err *err);
    dt_status (*gradients)(
        void *self, dt_err *err); /* after step 0's backward, before its update */
    /* after a step and the evaluation due then: the time to save */
    dt_status (*point)(void *self, const dt_train_point *p, dt_err *err);
    bool (*stop)(void *self); /* polled between micro-batches */
    bool (*enough)(
        void *self); /* asked before each step: whether the run ends here, as at its end */
} dt_observer;

typedef struct dt_train_job {
    dt_runner *runner;
    const dt_map *map;
    const dt_train_opts *opts;
    int64_t micro_batch;   /* samples taken at once; divides the batch */
    const dt_ready *ready; /* plans, each kind and size once */
    size_t n_ready;
    dt_feed *feed, *eval_feed; /* eval_feed NULL: no evaluation */
    int64_t steps, steps_per_epoch;
    int64_t until;         /* end when so many steps of them are done; 0: all */
    bool goes_on;          /* a call that ended at the point came before: the feed stands there */
    dt_train_point *point; /* where to begin; afterwards, failed or not, where the weights stand.
                              NULL: from the first step */
    const dt_observer *observer;
} dt_train_job;

/* How samples are taken: full batches, then what is left; so an epoch is cut into batches, and a
 * batch into micro-batches. @n: how many in all; @last: samples of the last one; @partial: the
 * same, where that is not full, else 0. */
typedef struct dt_batches {
    int64_t n, last, partial;
} dt_batches;
dt_batches dt_batches_of(int64_t samples, int64_t size);

/* Learning rate of a step, counted from 0, of a run of so many @steps. Schedule step looks at the
 * step's epoch. With a warm-up of w steps the rate of step s < w is (s + 1) / w of what it would
 * be; cosine and linear begin to fall after it, and would reach final_lr at step @steps. */
double dti_learning_rate(
    const dt_train_opts *o, int64_t step, int64_t steps, int64_t steps_per_epoch);

/* Factor that brings gradients of this norm down to @most, as PyTorch's clip_grad_norm_: never
 * above 1. */
double dti_clip_factor(double norm, double most);

/* Train. DT_E_NONFINITE, with the step, when the loss, a gradient or a batch's statistics are not
 * finite: that step is discarded before its update changes anything, but with early updates, where
 * @point's broken says that some are made. DT_E_STOPPED when the observer
 * asks for it: the step under way is discarded. */
dt_status dt_train(const dt_train_job *job, dt_err *err) DT_NODISCARD;

/* One pass over the evaluation feed. */
dt_status dt_evaluate(const dt_train_job *job, dt_eval_report *r, dt_err *err) DT_NODISCARD;
/* Of one whose loss is not finite: DT_E_NONFINITE with the first sample that is at fault, or that
 * the weights are. */
dt_status dt_evaluate_blame(const dt_train_job *job, dt_err *err) DT_NODISCARD;

#endif
