/* The loop: steps, the evaluations that are due behind them, and where a run stands. */
#include <inttypes.h>

#include "engine/train/train_internal.h"

enum { MOST_REST = 64 };

static dt_packing pack_next(dt_packing now, bool twice)
{
    const int64_t longer = now.span > 0 ? 2 * now.span : 1;
    const int64_t span = longer < MOST_REST ? longer : MOST_REST;
    if (twice)
        return (dt_packing){.rest = span, .span = span};
    return now.rest > 0 ? (dt_packing){now.rest - 1, now.span} : (dt_packing){0};
}

/* The step at *p, which moves on with the weights. */
static dt_status one_step(const dt_train_job *j, dt_train_point *p, dt_err *err)
{
    dt_step_report r;
    bool begun = false;
    const dt_status st = dti_train_step(j, p, &r, &begun, err);
    p->broken = st != DT_OK && begun && !dt_map_undoes(j->map, NULL);
    dti_runner_settle(j->runner, st == DT_OK);
    DT_CHECK(st);
    *p = (dt_train_point){.step = p->step + 1,
        .at = j->feed->at,
        .skipped = j->feed->skipped,
        .pending = dt_map_waits(j->map, p->step + 1),
        .packing = pack_next(p->packing, r.again)};
    return j->observer->step != NULL ? j->observer->step(j->observer->self, &r, err) : DT_OK;
}

static dt_status evaluate_after(const dt_train_job *j, int64_t step, dt_err *err)
{
    const bool last = step + 1 == j->steps, ends = (step + 1) % j->steps_per_epoch == 0;
    const int64_t epoch = step / j->steps_per_epoch, every = j->opts->eval_every;
    if (j->eval_feed == NULL || !(last || (ends && every > 0 && (epoch + 1) % every == 0)))
        return DT_OK;
    if (last)
        dti_train_rest(j->feed);
    dt_eval_report r;
    DT_CHECK(dt_evaluate(j, &r, err));
    r.step = step + 1;
    r.epoch = epoch;
    return j->observer->eval != NULL ? j->observer->eval(j->observer->self, &r, err) : DT_OK;
}

/* Go on where an earlier run stopped. */
static dt_status go_on(const dt_train_job *j, dt_train_point *p, dt_err *err)
{
    if (j->goes_on || (p->step == 0 && j->feed->seek_to == NULL))
        return DT_OK;
    DT_TRY(err,
        j->feed->seek_to(
            j->feed->self, p->step / j->steps_per_epoch, p->step % j->steps_per_epoch, p->at, err),
        "go on after step %" PRId64, p->step);
    j->feed->skipped = p->skipped; /* what was skipped behind that step comes again */
    if (p->evaluated)
        return DT_OK;
    DT_CHECK(evaluate_after(j, p->step - 1, err));
    p->evaluated = true;
    return j->observer->point != NULL ? j->observer->point(j->observer->self, p, err) : DT_OK;
}

static bool has_enough(const dt_observer *o)
{
    return o->enough != NULL && o->enough(o->self);
}

dt_status dt_train(const dt_train_job *j, dt_err *err)
{
    dt_train_point from_first = {.evaluated = true}, *p = j->point;
    if (p == NULL)
        p = &from_first;
    const int64_t until = j->until > 0 && j->until < j->steps ? j->until : j->steps;
    if (p->broken)
        return DT_FAIL(
            err, DT_E_INTERNAL, "the update of step %" PRId64 " has failed", p->step + 1);
    DT_CHECK(
        dti_runner_watch(j->runner, j->map->early && (j->opts->clip > 0 || j->opts->finite), err));
    DT_CHECK(go_on(j, p, err));
    while (p->step < until && !has_enough(j->observer)) {
        DT_CHECK(one_step(j, p, err));
        DT_CHECK(evaluate_after(j, p->step - 1, err));
        p->evaluated = true;
        if (j->observer->point != NULL)
            DT_CHECK(j->observer->point(j->observer->self, p, err));
    }
    return DT_OK;
}
