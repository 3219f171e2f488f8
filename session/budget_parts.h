/* For budget_suggest.c, budget_trial.c and budget_tell.c only: the search for what fits. */
#ifndef DT_SESSION_BUDGET_PARTS_H
#define DT_SESSION_BUDGET_PARTS_H

#include "session/budget.h"

enum { DTI_WANTED = 3 };

/* What a run may change to fit. */
typedef struct dti_variant {
    int64_t batch, micro;
    const char *policy;
    int tier, algorithms;
} dti_variant;

/* What came of one. @can: it can be trained at all; @order: of its policy among all. */
typedef struct dti_trial {
    dti_variant v;
    size_t order;
    bool can, fits, exact;
    dt_need need;
    dt_cost cost;
} dti_trial;

/* @all: every policy by itself at the configured batch, exact ones first, then by what they cost
 * @said: when something was last heard of the search
 * @until: when it ends at the latest: plans of deep networks under a search of their own take
 * seconds each */
typedef struct dti_search {
    const dt_session *s;
    const dt_room *room;
    bool eval;
    dti_variant own;
    size_t n_tried, cap_tried, n_all;
    dti_trial *tried, *all;
    int n_told;
    dti_variant told[DTI_WANTED];
    double said, until;
} dti_search;

bool dti_same_variant(const dti_variant *a, const dti_variant *b);

/* Peaks and cost of a variant; each is planned once. DT_E_STOPPED without a word when time is up.
 */
dt_status dti_try_variant(dti_search *x, dti_variant v, dti_trial *out, dt_err *err) DT_NODISCARD;

/* The largest batch, taken at once, below the configured micro-batch that fits, by bisection; its
 * batch is 0 when not even 1 does. The same for micro-batches that divide the batch. */
dt_status dti_largest_batch(
    dti_search *x, const char *policy, dti_trial *best, dt_err *err) DT_NODISCARD;
dt_status dti_largest_micro(
    dti_search *x, const char *policy, dti_trial *best, dt_err *err) DT_NODISCARD;

/* The lines to set: those in which it differs. */
void dti_lines_to_set(const dti_search *x, const dti_trial *t, char *to, size_t bytes);

/* A line of it, if it fits, is new and is still wanted; @remark stands behind what to set. */
void dti_tell(dti_search *x, const dti_trial *t, const char *remark, dt_err *err);
void dti_tell_micro(dti_search *x, const dti_trial *t, dt_err *err);
void dti_tell_batch(dti_search *x, const dti_trial *t, dt_err *err);

#endif
