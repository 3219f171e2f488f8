/* What a run's plans say of it, and weights as files: the questions of include/dnntrain.h. */
#include "engine/checkpoint/weights.h"
#include "memory/usage.h"
#include "session/budget.h"
#include "session/run_plans.h"
#include "session/run/run_internal.h"

dt_status dt_run_plan(dt_run *r, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    if (r->rig.runner != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "plans are made before a run begins");
    r->asked = true;
    dti_session_enter(r->s);
    dt_status st = dt_session_plan_run(r->s, true, 0, 0, err);
    if (st == DT_OK)
        st = dt_session_check_budget(r->s, err); /* what it offers is planned for these threads */
    return dti_run_left(r, st);
}

dt_status dt_run_take_plans(dt_run *r, const char *path, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    DT_CHECK(dti_run_need(path, "the path of the plans", err));
    if (r->rig.runner != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "plans are taken before a run begins");
    return dti_session_take_plans(r->s, path, err);
}

/* Whether nothing changes for memory's sake, as far as that is known before a plan is made. */
static bool exact(const dt_session *s)
{
    return s->plans != NULL ? dt_plan_set_exact(s->plans)
                            : dt_policies_exact(&s->policies) && dt_layer_fates_exact(&s->fates);
}

dt_memory dt_run_memory(const dt_run *r)
{
    if (!dti_run_is_open(r))
        return (dt_memory){0};
    const dt_session *s = r->s;
    const dt_memory_opts *m = &s->opts.memory;
    const dt_plan *p = s->plans != NULL ? dti_plan_set_largest(s->plans) : NULL;
    return (dt_memory){.device = p != NULL ? p->peak : 0,
        .host = p != NULL ? dt_plan_set_tier_peak(s->plans, DT_TIER_HOST) : 0,
        .disk = p != NULL ? dt_plan_set_tier_peak(s->plans, DT_TIER_DISK) : 0,
        .device_budget = m->device_budget,
        .host_budget = m->host_budget,
        .disk_budget = m->disk_budget,
        .out = p != NULL ? p->out_bytes : 0,
        .in = p != NULL ? p->in_bytes : 0,
        .exact = exact(s)};
}

dt_status dt_run_predict(const dt_run *r, dt_forecast *out, dt_err *err)
{
    dt_prediction t;
    DT_CHECK(dti_run_check_open(r, err));
    DT_CHECK(dti_run_need(out, "where the prediction is to be put", err));
    if (dt_run_plans(r) == 0)
        return DT_FAIL(err, DT_E_CONFIG, "a step is predicted of plans; make them first");
    DT_CHECK(dt_plan_set_predict(r->s->plans, &t, err));
    *out =
        (dt_forecast){.seconds = t.seconds, .waits = t.stalled, .rate = t.rate, .known = t.known};
    return DT_OK;
}

bool dt_run_role(const dt_run *r, int i, const char **name, uint64_t *bytes)
{
    dt_usage u;
    if (i < 0 || i > DT_ROLE_COUNT || dt_run_plans(r) == 0 || name == NULL || bytes == NULL)
        return false;
    const bool known = dt_plan_usage(dt_run_largest_plan(r), &u, NULL) == DT_OK;
    if (known) {
        *name = i < DT_ROLE_COUNT ? dt_role_name((dt_role)i) : "unused";
        *bytes = i < DT_ROLE_COUNT ? u.bytes[i] : u.unused;
    }
    dt_usage_deinit(&u);
    return known;
}

size_t dt_run_plans(const dt_run *r)
{
    return dti_run_is_open(r) && r->s->plans != NULL ? r->s->plans->n : 0;
}

dt_plan_facts dt_run_plan_facts(const dt_run *r, size_t plan)
{
    if (plan >= dt_run_plans(r))
        return (dt_plan_facts){0};
    const dt_plan *p = r->s->plans->planned[plan]->plan;
    return (dt_plan_facts){.program = p->program,
        .policy = p->policy,
        .samples = p->batch,
        .peak = p->peak,
        .rows = p->n_row};
}

dt_plan_row dt_run_plan_row(const dt_run *r, size_t plan, size_t row)
{
    if (row >= dt_run_plan_facts(r, plan).rows)
        return (dt_plan_row){0};
    const dt_plan *p = r->s->plans->planned[plan]->plan;
    const dt_row *w = &p->row[row];
    return (dt_plan_row){.kind = dt_row_name(w->kind),
        .op = w->op >= 0 ? p->op[w->op].name : "",
        .tensor = w->tensor >= 0 ? p->tensor[w->tensor].name : "",
        .reason = w->reason >= 0 ? p->reason[w->reason] : "",
        .offset = w->tensor >= 0 ? w->off : 0,
        .bytes = w->tensor >= 0 ? w->bytes : 0};
}

int64_t dt_run_step(const dt_run *r)
{
    return r != NULL ? r->point.step : 0;
}

int64_t dt_run_steps(const dt_run *r)
{
    return r != NULL ? r->feeds.steps : 0;
}

const char *dt_run_folder(const dt_run *r)
{
    return r != NULL && r->dir != NULL ? dt_run_dir_path(r->dir) : NULL;
}

dt_status dt_run_save_weights(dt_run *r, const char *path, dt_err *err)
{
    DT_CHECK(dti_run_check_open(r, err));
    DT_CHECK(dti_run_need(path, "the path of the weights", err));
    if (path[0] == '\0')
        return DT_FAIL(err, DT_E_CONFIG, "the path of the weights is empty");
    DT_CHECK(dti_run_check_weights(r, err));
    dti_session_enter(r->s);
    return dti_run_left(
        r, dt_weights_save(r->rig.runner, r->s->graph, r->s->plans->map, path, err));
}
