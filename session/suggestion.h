/* What may be changed so that a run fits, and how that is said: the lines to set, the peaks and the
 * price. */
#ifndef DT_SESSION_SUGGESTION_H
#define DT_SESSION_SUGGESTION_H

#include "session/plan_set.h"

/* What a run may change to fit. @budget: of the device, for plans that go by it; @at_length: who
 * searches does so as in a run, no less. */
typedef struct dti_alternative {
    int64_t batch, micro;
    const char *policy;
    int tier;
    dt_algorithm_choice algorithms;
    uint64_t budget;
    bool at_length;
} dti_alternative;

/* What came of one. @asked: what was to be tried, of which @v may differ in the budget; @can: it
 * can be trained at all; @order: of its policy among all; @seconds: of a step, as predicted; 0:
 * costs of no machine are known. */
typedef struct dti_trial {
    dti_alternative v, asked;
    size_t order;
    bool can, fits, exact;
    double seconds;
    dt_need need;
    dt_score score;
} dti_trial;

/* @own, the run as it is configured, by another policy, which takes the batch as it is configured,
 * whatever parts the run's own has chosen. */
dti_alternative dti_alternative_by(
    const dt_session *s, const dti_alternative *own, const char *policy);

/* What one sets: as lines of a configuration, and as words to type. @section: of the last
 * line. */
typedef struct dti_change {
    char lines[1200], typed[1200];
    const char *section;
} dti_change;

/* What @v sets that @own does not. */
dti_change dti_change_to(const dt_session *s, const dti_alternative *own, const dti_alternative *v);

/* A note on @err: "fits if: LINES@remark, which needs PEAKS; a step ...", with the peaks and the
 * price of @t. */
void dti_say_fits(const dti_change *c, const char *remark, const dti_alternative *own,
    const dti_trial *t, dt_err *err);

#endif
