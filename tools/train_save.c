/* When checkpoints are written, and which are kept. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/weights.h"
#include "session/human.h"
#include "tools/train_parts.h"

static dt_trained trained(const dti_training *t)
{
    return (dt_trained){t->runner, t->s->graph, t->s->map};
}

/* Those kept, the one being written, the best, and the weights at the end. */
void dti_train_foresee_space(dti_training *t)
{
    const dt_checkpoint_opts *o = &t->s->opts.checkpoint;
    const dt_trained what = trained(t);
    const bool some = o->every_steps > 0 || o->every_epochs > 0;
    const uint64_t one = dt_checkpoint_bytes(&what);
    const uint64_t n = some ? (uint64_t)o->keep_last + 2 + (o->best != DT_BEST_OFF) : 2;
    char need[DT_HUMAN_BYTES];
    uint64_t all;
    if (__builtin_mul_overflow(n, one, &all))
        all = UINT64_MAX;
    if (dt_space_check(dt_run_dir_path(t->dir), all, NULL) != DT_OK)
        dti_train_tell(t, "space", "too little for checkpoints, which take up to %s in '%s'",
            dt_human_bytes(need, all), dt_run_dir_path(t->dir));
}

/* The numbers as they stand at t->point. */
static dt_course course_now(dti_training *t)
{
    dt_course c = t->course;
    c.step = t->point.step;
    c.epoch = t->point.step / t->feeds.steps_per_epoch;
    c.at = t->point.at;
    c.evaluated = t->point.evaluated;
    c.seconds = dti_now() - t->began_seconds;
    c.skipped = t->began_skipped + dt_loader_feed(t->feeds.train_loader)->skipped;
    return c;
}

static dt_status save_now(dti_training *t, dt_err *err)
{
    const dt_trained what = trained(t);
    const dt_course c = course_now(t);
    dti_facts f;
    DT_CHECK(dti_facts_init(&f, t, err));
    dt_run_dir_sync(t->dir);
    const dt_status st = dt_checkpoint_save(
        dt_run_dir_file(t->dir, DT_RUN_CHECKPOINTS), &what, &c, f.fact, f.n, err);
    dti_facts_deinit(&f);
    DT_CHECK(st);
    t->saved_step = c.step;
    t->saved_evaluated = t->point.evaluated;
    return DT_OK;
}

/* Only after the new one is safe. What cannot be removed is told, and does no harm. */
static void prune(dti_training *t)
{
    const dt_checkpoint_opts *o = &t->s->opts.checkpoint;
    dt_err why = {0};
    const int64_t best =
        o->best != DT_BEST_OFF && t->course.best_step > 0 ? t->course.best_step : -1;
    if (o->keep_last > 0 && dt_checkpoint_prune(dt_run_dir_file(t->dir, DT_RUN_CHECKPOINTS),
                                o->keep_last, best, &why) != DT_OK)
        dti_train_tell(
            t, "saving", "an old checkpoint stays: %.*s", (int)strcspn(why.text, "\n"), why.text);
}

static bool is_due(const dti_training *t)
{
    const dt_checkpoint_opts *o = &t->s->opts.checkpoint;
    const int64_t step = t->point.step, epoch = t->feeds.steps_per_epoch;
    return t->is_best || (o->every_steps > 0 && step % o->every_steps == 0) ||
           (o->every_epochs > 0 && step % epoch == 0 && step / epoch % o->every_epochs == 0);
}

void dti_train_save_due(dti_training *t)
{
    dt_err why = {0};
    if (!is_due(t))
        return;
    t->is_best = false;
    if (save_now(t, &why) == DT_OK) {
        prune(t);
        return;
    }
    dti_train_tell(t, "saving", "no checkpoint of step %" PRId64 ": %.*s", t->point.step,
        (int)strcspn(why.text, "\n"), why.text);
    if (t->saved_step >= 0)
        dti_train_tell(t, "saving", "the run goes on; the checkpoint of step %" PRId64 " is kept",
            t->saved_step);
    else
        dti_train_tell(t, "saving", "the run goes on, without any checkpoint so far");
}

/* Those of the last checkpoint, when it holds them: a second name for that file, which is written
 * only where names cannot be given. */
static dt_status save_weights(const dti_training *t, dt_err *err)
{
    char to[4096]; /* one name of the run directory is held at a time */
    if (t->saved_step == t->point.step &&
        snprintf(to, sizeof to, "%s", dt_run_dir_file(t->dir, DT_RUN_WEIGHTS)) < (int)sizeof to &&
        dt_checkpoint_link_weights(
            dt_run_dir_file(t->dir, DT_RUN_CHECKPOINTS), t->saved_step, to, NULL) == DT_OK)
        return DT_OK;
    return dt_weights_save(
        t->runner, t->s->graph, t->s->map, dt_run_dir_file(t->dir, DT_RUN_WEIGHTS), err);
}

dt_status dti_train_save_last(dti_training *t, dt_err *err)
{
    dt_status st = DT_OK;
    if (t->saved_step != t->point.step || t->saved_evaluated != t->point.evaluated)
        st = save_now(t, err);
    if (st == DT_OK)
        prune(t);
    const dt_status weights = save_weights(t, err);
    t->saved = weights == DT_OK;
    return st != DT_OK ? st : weights;
}
