/* Plans made once, and checked against what the configuration asks of a step. */
#include "session/run_plans.h"

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/kept.h"

/* The set of the run's own plans. */
static dt_status own_plans(dt_session *s, dt_err *err)
{
    dt_plan_request r = dt_session_request(s);
    r.kept = true;
    if (s->plans != NULL)
        return DT_OK;
    DT_CHECK(dt_plan_set_create(&s->plans, s, &r, err));
    const dt_status st = dti_plan_set_check_updates(s->plans, err);
    if (st != DT_OK)
        dti_session_forget(s);
    return st;
}

dt_status dti_session_plan(
    dt_session *s, dt_program_kind kind, int64_t n, const dt_planned **out, dt_err *err)
{
    DT_CHECK(own_plans(s, err));
    DT_CHECK(dt_plan_set_add(s->plans, kind, n, out, err));
    return dti_plan_set_check_updates(s->plans, err);
}

dt_status dt_session_plan_run(
    dt_session *s, bool eval, int64_t last, int64_t eval_last, dt_err *err)
{
    DT_CHECK(own_plans(s, err));
    dt_status st = dti_plan_set_run(s->plans, eval, last, eval_last, err);
    if (st == DT_OK)
        st = dti_plan_set_check_updates(s->plans, err);
    if (s->notice != NULL && dt_kept_note(s->kept)[0] != '\0')
        s->notice(dt_kept_note(s->kept));
    return st;
}

dt_status dti_session_take_plans(dt_session *s, const char *path, dt_err *err)
{
    char *text = NULL, *by = dt_strdup(path);
    size_t bytes = 0;
    dt_plans plans = {0};
    if (by == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    dt_status st = dt_read_file(&text, &bytes, path, DT_PLANS_TEXT_BYTES, DT_E_DATA, err);
    if (st == DT_OK)
        st = dt_plans_parse(&plans, path, text, bytes, err);
    dt_free(text);
    if (st != DT_OK) { /* what there was stays */
        dt_plans_deinit(&plans);
        dt_free(by);
        return st;
    }
    dti_session_forget(s);
    dt_plans_deinit(&s->given);
    dt_free(s->given_by);
    s->given = plans;
    s->given_by = by;
    return DT_OK;
}

void dti_session_forget(dt_session *s)
{
    dt_plan_set_destroy(s->plans);
    s->plans = NULL;
}
