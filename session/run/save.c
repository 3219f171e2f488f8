/* When checkpoints are written, and which are kept. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/checkpoint/weights.h"
#include "session/human.h"
#include "session/run/run_internal.h"

static dt_trained trained(const dt_run *r)
{
    return (dt_trained){r->rig.runner, r->s->graph, r->s->plans->map};
}

/* Checkpoints that are due from here to the end. */
static uint64_t to_come(const dt_run *r)
{
    const dt_checkpoint_opts *o = &r->s->opts.checkpoint;
    const int64_t from = r->point.step, to = r->feeds.steps > from ? r->feeds.steps : from;
    const int64_t epoch = r->feeds.steps_per_epoch;
    int64_t n = 0;
    if (o->every_steps > 0)
        n += to / o->every_steps - from / o->every_steps;
    if (o->every_epochs > 0)
        n += to / epoch / o->every_epochs - from / epoch / o->every_epochs;
    return (uint64_t)n;
}

/* Those kept, the one being written, the best, and the weights at the end. */
void dti_run_foresee_space(dt_run *r)
{
    const dt_checkpoint_opts *o = &r->s->opts.checkpoint;
    const dt_trained what = trained(r);
    const uint64_t one = dt_checkpoint_bytes(&what), all_due = to_come(r);
    const bool all_kept = o->keep_last == 0 || (uint64_t)o->keep_last > all_due;
    const uint64_t n = (all_kept ? all_due : (uint64_t)o->keep_last) + 2 + (o->best != DT_BEST_OFF);
    char need[DT_HUMAN_BYTES];
    uint64_t all;
    if (__builtin_mul_overflow(n, one, &all))
        all = UINT64_MAX;
    if (dt_space_check(dt_run_dir_path(r->dir), all, NULL) != DT_OK)
        dti_run_tell(r, "space", "too little for checkpoints, which take up to %s in '%s'",
            dt_human_bytes(need, all), dt_run_dir_path(r->dir));
}

int64_t dt_run_skipped(const dt_run *r)
{
    return r->began_skipped + r->point.skipped;
}

dt_run_best dt_run_best_of(const dt_run *r)
{
    const dt_course *c = &r->course;
    const dt_best by = (dt_best)r->s->opts.checkpoint.best;
    if (by == DT_BEST_OFF || c->best_step == 0 ||
        !dt_checkpoint_there(dti_run_dir_file(r->dir, DT_CHECKPOINTS), c->best_step))
        return (dt_run_best){0};
    return (dt_run_best){c->best_step, by, by == DT_BEST_LOSS ? -c->best : c->best};
}

/* The numbers as they stand at r->point. */
static dt_course course_now(dt_run *r)
{
    dt_course c = r->course;
    c.step = r->point.step;
    c.epoch = r->point.step / r->feeds.steps_per_epoch;
    c.at = r->point.at;
    c.evaluated = r->point.evaluated;
    c.waits = r->point.pending;
    c.seconds = r->trains ? dt_seconds() - r->began_seconds : r->course.seconds;
    c.skipped = dt_run_skipped(r);
    return c;
}

static dt_status save_now(dt_run *r, dt_err *err)
{
    const dt_trained what = trained(r);
    const dt_course c = course_now(r);
    dti_facts f;
    DT_CHECK(dt_run_dir_there(r->dir, err));
    DT_CHECK(dti_run_dir_settle(r->dir, err));
    DT_CHECK(dti_facts_init(&f, r, err));
    dti_run_dir_sync(r->dir);
    const dt_status st =
        dt_checkpoint_save(dti_run_dir_file(r->dir, DT_CHECKPOINTS), &what, &c, f.fact, f.n, err);
    dti_facts_deinit(&f);
    DT_CHECK(st);
    r->saved_step = c.step;
    r->saved_evaluated = r->point.evaluated;
    r->rewritten = false;
    return DT_OK;
}

/* Only after the new one is safe. What cannot be removed is told, and does no harm. */
static void prune(dt_run *r)
{
    const dt_checkpoint_opts *o = &r->s->opts.checkpoint;
    dt_err why = {0};
    const int64_t best =
        o->best != DT_BEST_OFF && r->course.best_step > 0 ? r->course.best_step : -1;
    if (o->keep_last > 0 && dt_checkpoint_prune(dti_run_dir_file(r->dir, DT_CHECKPOINTS),
                                o->keep_last, best, &why) != DT_OK)
        dti_run_tell(
            r, "saving", "an old checkpoint stays: %.*s", (int)strcspn(why.text, "\n"), why.text);
}

dt_status dt_run_save(dt_run *r, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    if (!r->ready)
        return DT_FAIL(err, DT_E_CONFIG, "a run saves between its begin and its end");
    if (r->point.broken)
        return DT_FAIL(err, DT_E_CONFIG, "an update has failed: there is nothing whole to save");
    dti_session_enter(r->s);
    const dt_status st = save_now(r, err);
    if (st == DT_OK)
        prune(r);
    return dti_run_left(r, st);
}

static bool is_due(const dt_run *r)
{
    const dt_checkpoint_opts *o = &r->s->opts.checkpoint;
    const int64_t step = r->point.step, epoch = r->feeds.steps_per_epoch;
    return r->is_best || (o->every_steps > 0 && step % o->every_steps == 0) ||
           (o->every_epochs > 0 && step % epoch == 0 && step / epoch % o->every_epochs == 0);
}

dt_status dti_run_save_due(dt_run *r, dt_err *err)
{
    dt_err why = {0};
    if (!is_due(r))
        return DT_OK;
    const bool was_best = r->is_best;
    r->is_best = false;
    const dt_status st = save_now(r, &why);
    if (st == DT_OK) {
        prune(r);
        return DT_OK;
    }
    if (was_best) { /* the best is one that is there */
        r->course.best = r->best_before;
        r->course.best_step = r->best_step_before;
    }
    if (st == DT_E_BUSY) /* who goes on would write what another does */
        return dt_run_dir_there(r->dir, err);
    dti_run_tell(r, "saving", "no checkpoint of step %" PRId64 ": %.*s", r->point.step,
        (int)strcspn(why.text, "\n"), why.text);
    if (r->saved_step >= 0)
        dti_run_tell(r, "saving", "the run goes on; the checkpoint of step %" PRId64 " is kept",
            r->saved_step);
    else
        dti_run_tell(r, "saving", "the run goes on, without any checkpoint so far");
    return DT_OK;
}

/* Those of the last checkpoint, when it holds them: a second name for that file, which is written
 * only where names cannot be given. */
static dt_status save_weights(const dt_run *r, dt_err *err)
{
    char to[4096]; /* one name of the run directory is held at a time */
    DT_CHECK(dt_checkpoint_folder(dti_run_dir_file(r->dir, DT_CHECKPOINTS), err));
    if (r->saved_step == r->point.step && !r->rewritten &&
        snprintf(to, sizeof to, "%s", dti_run_dir_file(r->dir, DT_RUN_WEIGHTS)) < (int)sizeof to &&
        dt_checkpoint_link_weights(
            dti_run_dir_file(r->dir, DT_CHECKPOINTS), r->saved_step, to, NULL) == DT_OK)
        return DT_OK;
    return dt_weights_save(r->rig.runner, r->s->graph, r->s->plans->map,
        dti_run_dir_file(r->dir, DT_RUN_WEIGHTS), err);
}

dt_status dti_run_save_last(dt_run *r, dt_err *err)
{
    dt_status st = DT_OK;
    if (r->saved_step != r->point.step || r->saved_evaluated != r->point.evaluated || r->rewritten)
        st = save_now(r, err);
    if (st == DT_OK)
        prune(r);
    const dt_status there = dt_run_dir_there(r->dir, err);
    const dt_status weights = there == DT_OK ? save_weights(r, err) : there;
    r->saved = weights == DT_OK;
    if (r->saved)
        r->weights_step = r->point.step;
    return st != DT_OK ? st : weights;
}
