/* The inside of the training loop, which its files share. */
#ifndef DT_ENGINE_TRAIN_TRAIN_INTERNAL_H
#define DT_ENGINE_TRAIN_TRAIN_INTERNAL_H

#include "engine/train.h"

/* The plan of a kind and size; the dense one if there is such and it is asked for. DT_E_INTERNAL
 * where the job has none. */
dt_status dti_train_ready(const dt_train_job *j, dt_program_kind kind, int64_t n, bool dense,
    int *id, dt_err *err) DT_NODISCARD;

/* Whether the observer wants the run to end. */
bool dti_train_stops(const dt_train_job *j);

void dti_train_rest(const dt_feed *f);     /* no batch is wanted for some time */
dt_batch dti_train_peek(const dt_feed *f); /* the next batch, if that is there already */

/* What users know of labels that do not count. */
#define DTI_NO_LABEL "data.ignore_label, NaN and DT_NO_LABEL do not"
/* The first sample of a batch with a value that is not finite; -1: none. */
int64_t dti_train_bad_sample(const dt_train_job *j, const dt_batch *b);
/* Labels of a batch that count. */
int64_t dti_train_labels(const dt_train_job *j, const dt_batch *b);

/* All of the step at *p. *begun: when it fails, something that lives on may have been written. */
dt_status dti_train_step(const dt_train_job *j, const dt_train_point *p, dt_step_report *r,
    bool *begun, dt_err *err) DT_NODISCARD;

#endif
