/* Going on: which run, from which checkpoint, and what has to be put right before the first step.
 */
#define _GNU_SOURCE /* realpath */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/weights.h"
#include "session/run/run_internal.h"

static dt_status begin_new(dt_run *r, dt_err *err)
{
    const dt_session *s = r->s;
    char asked[DT_ASKED];
    if (s->opts.model.weights != NULL)
        DT_TRY(err, dt_weights_check(s->graph, s->opts.model.weights, dti_session_fresh(s), err),
            "%s", dt_session_asked(asked, s, "model", "weights"));
    DT_CHECK(dti_run_check_learned(r, r->feeds.train, dti_session_fresh(s), err));
    return dti_run_dir_open(&r->dir, &s->opts.run, s->graph->name, s->opts.memory.policy, err);
}

/* ---- the run ---- */

static bool has_manifest(const char *folder)
{
    char path[4096];
    struct stat st;
    return snprintf(path, sizeof path, "%s/" DT_CHECKPOINT_MANIFEST, folder) < (int)sizeof path &&
           stat(path, &st) == 0;
}

/* The folder that was asked for; NULL: none. The configuration that a run wrote says where it was
 * when it began, and it may have been moved since, or be a copy. */
static const char *asked_dir(const dt_session *s)
{
    const bool typed = dt_config_typed(s->config, "run", "dir");
    return s->of_run != NULL && !typed ? NULL : s->opts.run.dir;
}

static dt_status same_folder(const dt_run *r, const char *dir, dt_err *err)
{
    struct stat a, b;
    const char *given = asked_dir(r->s);
    if (given == NULL || (stat(given, &a) == 0 && stat(dir, &b) == 0 && a.st_ino == b.st_ino &&
                             a.st_dev == b.st_dev))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "to go on with the run in '%s', leave out run.dir = %s: a run goes on where it is", dir,
        given);
}

/* The run directory that a folder the user named stands for, and the checkpoint that it is; NULL:
 * it is none. Free both with free(). */
static dt_status resolve(char **dir, char **checkpoint, const char *named, dt_err *err)
{
    *checkpoint = NULL;
    *dir = realpath(named, NULL);
    if (*dir == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "resume '%s': %s; name a run directory or one of its "
            "checkpoints",
            named, strerror(errno));
    struct stat st;
    if (stat(*dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return DT_FAIL(err, DT_E_CONFIG,
            "resume '%s': is a file; name a run directory or one of its checkpoints, or a "
            "configuration before --resume",
            named);
    if (!has_manifest(*dir))
        return DT_OK;
    *checkpoint = realpath(named, NULL); /* where a link leads */
    if (*checkpoint == NULL)
        return DT_FAIL(err, DT_E_IO, "resume '%s': %s", named, strerror(errno));
    if (dt_run_dir_of_checkpoint(*dir))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "resume '%s': a checkpoint is gone on with in its run, RUN/" DT_CHECKPOINTS
        "/NAME; to start from its weights, set model.weights",
        named);
}

/* A run has a step's checkpoint under that step's name, which it would take for this one. */
static dt_status check_name(const dt_checkpoint *c, const char *named, dt_err *err)
{
    char name[DT_CHECKPOINT_NAME];
    const char *slash = strrchr(dt_checkpoint_path(c), '/');
    const int64_t step = dt_checkpoint_course(c)->step;
    if (slash != NULL && strcmp(slash + 1, dt_checkpoint_name(name, step)) == 0)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "resume '%s': a run goes on from its checkpoint of step %" PRId64
        " under that name alone: rename this one to %s, in the place of one that is there",
        named, step, name);
}

static dt_status go_on_named(dt_run *r, const char *named, dt_err *err)
{
    char *dir, *checkpoint;
    dt_status st = resolve(&dir, &checkpoint, named, err);
    if (st == DT_OK)
        st = same_folder(r, dir, err);
    if (st == DT_OK)
        st = dti_run_dir_continue(&r->dir, dir, err);
    if (st == DT_OK && checkpoint != NULL)
        st = dt_checkpoint_open(&r->from, checkpoint, err);
    if (st == DT_OK && checkpoint != NULL)
        st = check_name(r->from, named, err);
    free(dir);
    free(checkpoint);
    return st;
}

/* Go on with what is in the folder that was asked for, else with the run whose own configuration
 * this is, else with the newest of this name; begin where there is none. */
static dt_status go_on_auto(dt_run *r, bool *found, dt_err *err)
{
    const dt_session *s = r->s;
    const char *asked = asked_dir(s), *dir = asked != NULL ? asked : s->of_run;
    char *newest = NULL;
    bool any = false, is_run = false;
    dt_status st = DT_OK;
    if (dir == NULL) {
        st = dti_run_dir_newest(&newest, s->graph->name, s->opts.memory.policy, err);
        dir = newest;
    }
    if (st == DT_OK && dir != NULL)
        st = dt_run_dir_holds(dir, &any, &is_run, err);
    *found = any && is_run;
    if (st == DT_OK && !*found)
        dti_run_tell(r, "resume", "there is no run to go on with: this is a new one");
    if (st == DT_OK)
        st = *found ? dti_run_dir_continue(&r->dir, dir, err) : begin_new(r, err);
    dt_free(newest);
    return st;
}

/* ---- the checkpoint ---- */

static dt_status find_newest(dt_run *r, bool needed, dt_err *err)
{
    const dt_teller tell = dti_run_teller(r);
    const char *folder = dti_run_dir_file(r->dir, DT_CHECKPOINTS);
    DT_CHECK(dt_checkpoint_put_back(folder, &tell, err));
    DT_TRY(err, dt_checkpoint_newest(&r->from, folder, &tell, err),
        "there is nothing to go on from; run.overwrite = on without --resume moves that run aside "
        "and begins anew");
    if (r->from == NULL && needed)
        return DT_FAIL(err, DT_E_DATA, "'%s' holds no checkpoint to go on from", folder);
    return DT_OK;
}

/* Whether the best so far still is the best: it says nothing by another measure or of other data,
 * nor where it has been given up since. */
static bool best_stands(dt_run *r, bool same_data)
{
    const dt_course *c = &r->course;
    const int now = r->s->opts.checkpoint.best;
    const int64_t then = c->best_by;
    if ((c->best_step == 0 && c->improved_step == 0) || then == DT_BEST_OFF || then > DT_BEST_TOP1)
        return true;
    if (!same_data)
        dti_run_tell(r, "resume", "what is held out is other data now: what is best is told anew");
    else if (then != now)
        dti_run_tell(r, "resume", "checkpoint.best was %s, now %s: what is best is told anew",
            dt_best_name((dt_best)then), dt_best_name((dt_best)now));
    else if (c->best_step > 0 &&
             !dt_checkpoint_there(dti_run_dir_file(r->dir, DT_CHECKPOINTS), c->best_step))
        dti_run_tell(r, "resume",
            "step %" PRId64 ", the best so far, has no checkpoint any more: what is best is told "
            "anew",
            c->best_step);
    else
        return true;
    return false;
}

static void keep_best(dt_run *r)
{
    dt_course *c = &r->course;
    const int now = r->s->opts.checkpoint.best;
    const bool same_data = dti_facts_same_held_out(r);
    if (now != DT_BEST_OFF && !best_stands(r, same_data)) {
        c->best = now == DT_BEST_LOSS ? -c->eval.loss : c->eval.top1;
        c->best_by = now;
        c->best_step = c->eval.step == c->step && isfinite(c->best) && same_data ? c->step : 0;
        c->improved_step = 0;
    }
    if (c->improved_step == 0) { /* nor do checkpoints of older versions have it */
        c->improved = c->best;
        c->improved_step = c->best_step;
        c->worse = 0;
    }
}

/* Each step before took a batch of the epoch's samples; what was skipped lies between them. */
static dt_status check_place(const dt_run *r, const dt_course *c, dt_err *err)
{
    const int64_t taken = c->step % r->feeds.steps_per_epoch * r->s->opts.train.batch;
    if (c->at >= taken && c->at - taken <= c->skipped)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "'%s': the epoch goes on at its sample %" PRId64 ", but before step %" PRId64 " %" PRId64
        " were taken and, in all, %" PRId64
        " skipped: the file was changed; remove this checkpoint to go on from the one before",
        dt_checkpoint_path(r->from), c->at, c->step, taken, c->skipped);
}

/* From now on the run is where the checkpoint was taken, whatever becomes of it. */
static dt_status stand_there(dt_run *r, dt_err *err)
{
    const dt_course *c = dt_checkpoint_course(r->from);
    if (c->epoch != c->step / r->feeds.steps_per_epoch)
        return DT_FAIL(err, DT_E_DATA,
            "'%s': step %" PRId64 " of epoch %" PRId64 ", but epochs have %" PRId64 " steps",
            dt_checkpoint_path(r->from), c->step, c->epoch, r->feeds.steps_per_epoch);
    DT_CHECK(check_place(r, c, err));
    if (c->waits && !dt_map_waits(r->s->plans->map, c->step))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' holds gradients of step %" PRId64 ", whose update is delayed, but the run that "
            "goes on delays none there: keep the delay and warmup of the policy that asked for it",
            dt_checkpoint_path(r->from), c->step);
    r->course = *c;
    keep_best(r);
    r->point = (dt_train_point){
        .step = c->step, .at = c->at, .evaluated = c->evaluated != 0, .pending = c->waits};
    r->began_step = c->step;
    r->began_skipped = c->skipped;
    r->saved_step = c->step;
    r->saved_evaluated = r->point.evaluated;
    return DT_OK;
}

dt_status dti_run_open_dir(dt_run *r, dt_err *err)
{
    const char *resume = r->s->opts.checkpoint.resume;
    const bool by_itself = strcmp(resume, "auto") == 0;
    r->weights_step = -1;
    if (strcmp(resume, "no") == 0)
        return begin_new(r, err);
    r->goes_on = true;
    DT_CHECK(by_itself ? go_on_auto(r, &r->goes_on, err) : go_on_named(r, resume, err));
    if (!r->goes_on)
        return DT_OK;
    r->weights_step = dt_run_dir_weights_step(dt_run_dir_path(r->dir));
    if (r->from == NULL)
        DT_CHECK(find_newest(r, !by_itself, err));
    if (r->from == NULL)
        return DT_OK;
    DT_CHECK(dt_run_take_classes(r, dt_run_dir_path(r->dir), err));
    DT_TRY(err, dt_class_names_check(&r->names, r->feeds.train, err),
        "the run in '%s' does not go on", dt_run_dir_path(r->dir));
    DT_CHECK(dti_facts_compare(r, err)); /* behind that, which says what became of labels */
    return stand_there(r, err);
}

static dt_status load(dt_run *r, dt_err *err)
{
    const dt_trained to = {r->rig.runner, r->s->graph, r->s->plans->map};
    DT_TRY(
        err, dt_checkpoint_load(r->from, &to, err), "go on from '%s'", dt_checkpoint_path(r->from));
    dt_checkpoint_let_go(r->from);
    return DT_OK;
}

/* What has to be higher for more steps. */
static const char *ended_by(const dt_run *r)
{
    if (!r->feeds.whole_epochs)
        return "train.steps";
    return r->s->opts.train.steps == r->feeds.steps ? "train.epochs and train.steps"
                                                    : "train.epochs";
}

dt_status dti_run_go_on(dt_run *r, dt_err *err)
{
    const dt_teller tell = dti_run_teller(r);
    int64_t lines;
    if (r->from != NULL)
        DT_CHECK(load(r, err));
    r->turned = true;
    DT_CHECK(dt_checkpoint_tidy(
        dti_run_dir_file(r->dir, DT_CHECKPOINTS), r->point.step, r->weights_step, &tell, err));
    if (r->weights_step > r->point.step) /* they have another name now */
        r->weights_step = -1;
    DT_CHECK(dti_run_dir_cut(r->dir, r->point.step, r->point.evaluated, &lines, err));
    if (r->from == NULL)
        dti_run_tell(r, "resume", "no checkpoint yet: the run begins again");
    else if (r->point.step >= r->feeds.steps)
        dti_run_tell(r, "resume", "%s: %s%" PRId64 " step%s done; set %s higher to train on",
            dt_checkpoint_path(r->from), r->point.step == 1 ? "the " : "all ", r->point.step,
            r->point.step == 1 ? " is" : "s are", ended_by(r));
    else
        dti_run_tell(r, "resume", "after step %" PRId64 ", from %s", r->point.step,
            dt_checkpoint_path(r->from));
    if (lines > 0)
        dti_run_tell(r, "resume",
            "%" PRId64 " later line%s of " DT_RUN_METRICS " %s now in " DT_RUN_METRICS_CUT, lines,
            lines == 1 ? "" : "s", lines == 1 ? "is" : "are");
    return DT_OK;
}
