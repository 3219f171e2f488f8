/* A plan in a page: what it takes and why, its map, and a table of its tensors. */
#ifndef DT_TOOLS_PAGE_PLAN_H
#define DT_TOOLS_PAGE_PLAN_H

#include "engine/runner/runner.h"
#include "session/plan_set.h"
#include "session/session.h"
#include "tools/page.h"
#include "tools/plan_map.h"

/* What a page of plans is made of, all borrowed. @saving: against keep_all; @measured: seconds of
 * the rows of @plan, NULL: they were not traced; @moved: what moving has cost a run of @seconds;
 * NULL: nothing was run */
typedef struct dti_page_plan {
    const dt_session *session;
    const dt_plan *plan;
    const dt_saving *saving;
    const dt_timeline *measured;
    const dt_runner_stats *moved;
    double seconds;
} dti_page_plan;

/* What the policy saves and costs. DT_E_NOMEM. */
dt_status dti_page_policy(const dti_page *p, const dti_page_plan *v, dt_err *err) DT_NODISCARD;
/* The map, rows in seconds where costs are known or rows were traced, and the table. DT_E_NOMEM. */
dt_status dti_page_map(dti_page *p, const dti_page_plan *v, dt_err *err) DT_NODISCARD;
/* The machine and the whole configuration. DT_E_NOMEM. */
dt_status dti_page_machine(const dti_page *p, const dt_session *s, dt_err *err) DT_NODISCARD;

/* What is in the plans of an open session with these: "dnntrain plan --html". @page_plan: a
 * dti_page_plan. */
dt_status dti_page_of_plan(const void *page_plan, FILE *f, dt_err *err) DT_NODISCARD;

#endif
