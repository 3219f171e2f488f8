/* The sums that the table and the JSON of a plan are made from. */
#include "tools/plan_report.h"

#include <string.h>

#include "engine/config/nearest.h"

dt_status dti_report_init(dti_report *out, const dt_session *s, dt_err *err)
{
    dti_report *r = out;
    *r = (dti_report){.session = s,
        .need = dt_plan_set_need(s->plans),
        .cost = dt_plan_set_score(s->plans),
        .traffic = dt_plan_set_traffic(s->plans)};
    for (size_t i = 0; i < s->plans->n; i++) {
        const dt_planned *p = s->plans->planned[i];
        if (r->top == NULL || p->plan->peak > r->top->plan->peak)
            r->top = p;
        r->bound = p->plan->bound > r->bound ? p->plan->bound : r->bound;
        r->again = r->again || p->dense;
        if (!p->dense && p->plan->tier_peak[DT_TIER_HOST] > r->host)
            r->host = p->plan->tier_peak[DT_TIER_HOST];
    }
    DT_ASSERT(r->top != NULL);
    const dt_available have = dt_plan_set_available(s->plans);
    r->fits = dt_need_fits(&r->need, &have);
    dt_plan_set_here(s->plans, &r->here);
    DT_CHECK(dt_plan_set_saving(s->plans, &r->saving, err));
    DT_CHECK(dt_plan_set_predict(s->plans, &r->time, err));
    const uint64_t budget = s->opts.memory.device_budget;
    if (r->time.known)
        DT_CHECK(
            dt_plan_set_bound(s->plans, r->need.device <= budget ? budget : 0, &r->least, err));
    return dt_plan_usage(r->top->plan, &r->usage, err);
}

void dti_report_deinit(dti_report *r)
{
    dt_usage_deinit(&r->usage);
}

const char *dti_report_peak_layer(const dti_report *r)
{
    const dt_plan *p = r->top->plan;
    if (r->usage.peak == r->usage.n_instant)
        return "";
    const dt_row *row = &p->row[r->usage.instant[r->usage.peak].row];
    return row->kind == DT_ROW_COMPUTE ? p->op[row->op].name : p->tensor[row->tensor].name;
}

const char *dti_report_precision(const dti_report *r)
{
    return dt_session_precision(r->session);
}

dt_status dti_find_program(
    const dt_session *s, const char *name, const dt_planned **out, dt_err *err)
{
    const char *names[DT_PROGRAM_KINDS + 1] = {NULL};
    char have[64] = "";
    size_t n = 0;
    for (size_t i = 0; i < s->plans->n; i++) {
        const char *program = dt_program_kind_name(s->plans->planned[i]->kind);
        if (strcmp(program, name) == 0) {
            *out = s->plans->planned[i];
            return DT_OK;
        }
        if (n > 0 && strcmp(names[n - 1], program) == 0)
            continue;
        const size_t at = strlen(have);
        snprintf(have + at, sizeof have - at, "%s%s", n > 0 ? ", " : "", program);
        names[n < DT_PROGRAM_KINDS ? n++ : n - 1] = program;
    }
    const char *near = dt_nearest(name, names);
    return DT_FAIL(err, DT_E_CONFIG, "this run has no program '%s'; %s%s%s %s", name,
        near != NULL ? "did you mean '" : "", near != NULL ? near : "",
        near != NULL ? "'? It has" : "it has", have);
}
