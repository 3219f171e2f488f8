/* How good the weights are on data kept apart from training. */
#include <math.h>

#include "session/budget.h"
#include "session/run_plans.h"
#include "session/run/run_internal.h"

static dt_status open_all(dt_run *r, dt_err *err)
{
    dt_session *s = r->s;
    const dt_planned *p;
    dti_session_forget(s); /* of training, which need not fit */
    DT_CHECK(dti_session_plan(s, DT_PROGRAM_EVAL, s->micro_batch, &p, err));
    DT_CHECK(dti_session_check_run(s, false, err)); /* before any data is read */
    DT_CHECK(dti_feeds_open_eval(&r->feeds, s, err));
    DT_CHECK(dti_run_check_learned(r, r->feeds.eval, dti_session_fresh_learned(s), err));
    if (r->feeds.eval_last > 0)
        DT_CHECK(dti_session_plan(s, DT_PROGRAM_EVAL, r->feeds.eval_last, &p, err));
    DT_CHECK(dti_session_check_run(s, true, err));
    dti_rig_tell_threads(s);
    DT_CHECK(dti_rig_open_learned(&r->rig, s, err));
    return dti_run_trace_begin(r, err);
}

/* For a run that has not begun: the plans of an evaluation, its data, and weights. All of it or
 * nothing, so that whoever asks once more is told the same. */
static dt_status prepare(dt_run *r, dt_err *err)
{
    const dt_status st = open_all(r, err);
    if (st != DT_OK) {
        dti_rig_close(&r->rig);
        dt_feeds_close(&r->feeds);
    }
    return st;
}

/* Whether it has given scores and not begun: without data, and without a plan of a last batch. */
static bool has_scored_alone(const dt_run *r)
{
    return r->rig.runner != NULL && r->rate.kept == NULL && r->feeds.eval_loader == NULL;
}

static bool stop_asked(void *self)
{
    return dti_run_stop(self);
}

static dt_status evaluate(dt_run *r, dt_eval_report *report, dt_err *err)
{
    if (r->failed)
        return DT_FAIL(err, DT_E_CONFIG, "a run whose begin has failed can only be closed");
    if (has_scored_alone(r) && r->rewritten)
        return DT_FAIL(err, DT_E_CONFIG,
            "weights were written since this run gave scores, and to evaluate it would read "
            "model.weights anew: evaluate first, or save them and open a run with that file");
    if (has_scored_alone(r))
        dti_rig_close(&r->rig);
    if (r->rig.runner == NULL)
        DT_CHECK(prepare(r, err));
    if (r->feeds.eval_loader == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "nothing is held out to evaluate on; name a folder or file of such data with "
            "data.eval_path");
    if (!r->begun)
        DT_CHECK(dti_run_tell_ready(r, err));
    const dt_observer stop = {.self = r, .stop = stop_asked};
    const dt_train_job j = {.runner = r->rig.runner,
        .map = r->s->plans->map,
        .opts = &r->s->opts.train,
        .micro_batch = r->s->micro_batch,
        .ready = r->rig.ready,
        .n_ready = r->rig.n,
        .eval_feed = dt_loader_feed(r->feeds.eval_loader),
        .observer = &stop};
    const dt_status st = dt_evaluate(&j, report, err);
    dti_run_trace_flush(r);
    dti_run_tell_skips(r);
    DT_CHECK(st);
    if (!isfinite(report->loss))
        return dt_evaluate_blame(&j, err);
    report->step = r->point.step;
    if (r->feeds.steps_per_epoch > 0 && r->point.step > 0)
        report->epoch = (r->point.step - 1) / r->feeds.steps_per_epoch;
    if (r->observer.eval != NULL)
        r->observer.eval(r->observer.self, report);
    return DT_OK;
}

dt_status dt_run_evaluate(dt_run *r, const dt_run_observer *o, dt_eval_report *report, dt_err *err)
{
    dt_eval_report own;
    DT_CHECK(dti_run_check_idle(r, err));
    const dt_run_observer before = r->observer;
    if (o != NULL)
        r->observer = *o;
    dti_session_enter(r->s);
    const dt_status st = dti_run_left(r, evaluate(r, report != NULL ? report : &own, err));
    r->observer = before;
    return st;
}
