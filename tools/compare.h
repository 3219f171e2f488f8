/* What `dnntrain compare` finds of policies under budgets, and what it does with that. */
#ifndef DT_TOOLS_COMPARE_H
#define DT_TOOLS_COMPARE_H

#include <stdio.h>

#include "session/predict.h"
#include "session/session.h"
#include "tools/policy_lists.h"

/**
 * struct dt_compare_row - the plans of a list of policies, under a budget if they go by one.
 * @policy:  the list; borrowed
 * @budget:  of the device, by which they are planned; 0: they are the same for all budgets
 * @can:     a run of them can be trained, in the budgets of host and disk
 * @best:    none of the exact rows that can takes neither more bytes nor more time, and less of one
 * @again:   they are those of the row before
 * @traffic: expected of a step
 * @lives:   bytes of what outlives steps, by the tier where it lives
 * @bound:   what no placement of these plans is below
 * @measured @spread: seconds of a step and the range of its middle half; 0: it was not run
 * @plans:   and what they are made by, kept where they are to be run; NULL otherwise
 */
typedef struct dt_compare_row {
    const char *policy;
    uint64_t budget, bound, lives[DT_TIERS];
    bool exact, can, best, again;
    dt_need need;
    dt_score score;
    dt_traffic traffic;
    dt_prediction time;
    double measured, spread;
    dt_plan_set *plans;
    dt_policies policies;
} dt_compare_row;

enum { DT_COMPARE_BUDGETS = 64 };

/**
 * struct dt_compare - all of them.
 * @lists:   of policies
 * @budget:  ascending
 * @row:     of list l under budget b: row[of[l][b]]
 * @kept:    the row of keep_all
 * @least:   by budget, seconds that no plan's step is below within it; the last of any budget
 * @run:     they are to be run
 */
typedef struct dt_compare {
    dt_session *session;
    size_t n_budget, n, kept;
    bool run;
    dt_policy_lists lists;
    uint64_t budget[DT_COMPARE_BUDGETS];
    double least[DT_COMPARE_BUDGETS + 1];
    dt_compare_row *row;
    size_t of[DT_POLICY_LISTS][DT_COMPARE_BUDGETS];
} dt_compare;

/* "measured" of a profile, "simulated" of a card, "defaults". */
const char *dti_compare_costs(const dt_compare *c);
bool dti_compare_fits(const dt_compare_row *r, uint64_t budget);
/* What no plan is below under the b-th budget if the row fits it, else under any. */
double dti_compare_least(const dt_compare *c, const dt_compare_row *r, size_t b);

/* Run some steps of each, in turns, on a made-up batch, and fill @measured and @spread. */
dt_status dti_compare_run(dt_compare *c, dt_err *err) DT_NODISCARD;

void dti_compare_table(const dt_compare *c);
dt_status dti_compare_json(const dt_compare *c, dt_err *err) DT_NODISCARD;
dt_status dti_compare_csv(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;
/* Peak against time. */
dt_status dti_compare_svg(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;
/* That and the table, as a page. */
dt_status dti_compare_html(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;

#endif
