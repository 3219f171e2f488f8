/* What `dnntrain plan` knows of a run's plans, summed up for the table and for JSON. */
#ifndef DT_TOOLS_PLAN_REPORT_H
#define DT_TOOLS_PLAN_REPORT_H

#include <stdio.h>

#include "memory/usage.h"
#include "session/budget.h"
#include "session/plan_set.h"

/**
 * struct dti_report - the sums.
 * @session: open, with its plans made; borrowed
 * @top:     the plan with the highest peak
 * @usage:   of it
 * @need:    peaks of all plans, those included that run a step again whose packed values did not
 * fit
 * @host:    peak on the host of those but for the latter
 * @bound:   largest lower bound of all plans, so of the run
 * @cost:    of a step
 * @traffic: that a step is expected to move
 * @here:    the same against this machine
 * @saving:  against keep_all
 * @time:    what a step takes
 * @least:   seconds that no plan's step is below within memory.device_budget, if that holds
 * @fits:    all budgets hold
 * @again:   there are plans for steps whose packed values do not fit
 * @seconds: that planning took, and the bound
 */
typedef struct dti_report {
    const dt_session *session;
    const dt_planned *top;
    dt_usage usage;
    dt_need need;
    uint64_t host, bound;
    dt_score cost;
    dt_traffic traffic;
    dt_here here;
    dt_saving saving;
    dt_prediction time;
    double seconds, least;
    bool fits, again;
} dti_report;

dt_status dti_report_init(dti_report *out, const dt_session *s, dt_err *err) DT_NODISCARD;
void dti_report_deinit(dti_report *r);

/* The plan of a program by its name, of the first of its sizes; DT_E_CONFIG with the nearest and
 * all of the run. */
dt_status dti_find_program(
    const dt_session *s, const char *name, const dt_planned **out, dt_err *err) DT_NODISCARD;

/* What runs at the peak: the op, or the tensor that is copied; "" in a plan that does nothing. */
const char *dti_report_peak_layer(const dti_report *r);
const char *dti_report_precision(const dti_report *r);

/* What a row with a reason decides, "offload" or "in place"; NULL: it gives none, or decides
 * nothing. */
const char *dti_plan_fate(const dt_plan *p, const dt_row *r);
/* What an op of the plan makes: the first tensor that it writes; DT_NONE. */
int32_t dti_plan_made(const dt_plan *p, int32_t op);

/* For people, dti_term_width() columns wide. */
void dti_report_table(const dti_report *r);
/* One object, on one line each member. */
dt_status dti_report_json(const dti_report *r, dt_err *err) DT_NODISCARD;

#endif
