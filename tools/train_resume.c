/* Going on: which run, from which checkpoint, and what has to be put right before the first step.
 */
#define _GNU_SOURCE /* realpath */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/weights.h"
#include "tools/train_parts.h"

static dt_status begin_new(dti_training *t, dt_err *err)
{
    const dt_session *s = t->s;
    char asked[DT_ASKED];
    if (s->opts.model.weights != NULL)
        DT_TRY(err, dt_weights_check(s->graph, s->opts.model.weights, err), "%s",
            dt_session_asked(asked, s, "model", "weights"));
    return dt_run_dir_open(&t->dir, &s->opts.run, s->graph->name, dt_session_policy_asked(s), err);
}

/* ---- the run ---- */

/* RUN of RUN/checkpoints/NAME, when NAME holds a manifest; false otherwise. Cuts @path. */
static bool run_of_checkpoint(char *path)
{
    char *name = strrchr(path, '/');
    if (name == NULL || name == path)
        return false;
    *name = '\0';
    char *parent = strrchr(path, '/');
    if (parent == NULL || parent == path || strcmp(parent + 1, DT_RUN_CHECKPOINTS) != 0)
        return false;
    *parent = '\0';
    return true;
}

static bool has_manifest(const char *folder)
{
    char path[4096];
    struct stat st;
    return snprintf(path, sizeof path, "%s/manifest.json", folder) < (int)sizeof path &&
           stat(path, &st) == 0;
}

static dt_status same_folder(const dti_training *t, const char *dir, dt_err *err)
{
    struct stat a, b;
    const char *given = t->s->opts.run.dir;
    if (given == NULL || (stat(given, &a) == 0 && stat(dir, &b) == 0 && a.st_ino == b.st_ino &&
                             a.st_dev == b.st_dev))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "to go on with the run in '%s', leave out run.dir = %s: a run goes on where it is", dir,
        given);
}

/* The run directory that a folder the user named stands for; free *dir with free(). */
static dt_status resolve(char **dir, bool *checkpoint, const char *named, dt_err *err)
{
    *dir = realpath(named, NULL);
    if (*dir == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "resume '%s': %s; name a run directory or one of its "
            "checkpoints",
            named, strerror(errno));
    *checkpoint = has_manifest(*dir);
    if (!*checkpoint || run_of_checkpoint(*dir))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "resume '%s': a checkpoint is gone on with in its run, RUN/" DT_RUN_CHECKPOINTS
        "/NAME; to start from its weights, set model.weights",
        named);
}

static dt_status go_on_named(dti_training *t, const char *named, dt_err *err)
{
    char *dir;
    bool checkpoint;
    dt_status st = resolve(&dir, &checkpoint, named, err);
    if (st == DT_OK)
        st = same_folder(t, dir, err);
    if (st == DT_OK)
        st = dt_run_dir_continue(&t->dir, dir, err);
    if (st == DT_OK && checkpoint)
        st = dt_checkpoint_open(&t->from, named, err);
    free(dir);
    return st;
}

/* Go on with what is in run.dir, or in the newest run of ours; begin where there is none. */
static dt_status go_on_auto(dti_training *t, bool *found, dt_err *err)
{
    const dt_session *s = t->s;
    const char *dir = s->opts.run.dir;
    char *newest = NULL;
    bool any = false, is_run = false;
    dt_status st = DT_OK;
    if (dir == NULL)
        st = dt_run_dir_newest(&newest, s->graph->name, dt_session_policy_asked(s), err);
    if (dir == NULL)
        dir = newest;
    if (st == DT_OK && dir != NULL)
        st = dt_run_dir_holds(dir, &any, &is_run, err);
    *found = any && is_run;
    if (st == DT_OK)
        st = *found ? dt_run_dir_continue(&t->dir, dir, err) : begin_new(t, err);
    dt_free(newest);
    return st;
}

/* ---- the checkpoint ---- */

static dt_status find_newest(dti_training *t, bool needed, dt_err *err)
{
    const dt_teller tell = dti_train_teller(t);
    const char *folder = dt_run_dir_file(t->dir, DT_RUN_CHECKPOINTS);
    DT_TRY(err, dt_checkpoint_newest(&t->from, folder, &tell, err),
        "there is nothing to go on from; run.overwrite = on without --resume moves that run aside "
        "and begins anew");
    if (t->from == NULL && needed)
        return DT_FAIL(err, DT_E_DATA, "'%s' holds no checkpoint to go on from", folder);
    return DT_OK;
}

dt_status dti_train_open(dti_training *t, dt_err *err)
{
    const char *resume = t->s->opts.checkpoint.resume;
    const bool by_itself = strcmp(resume, "auto") == 0;
    if (strcmp(resume, "no") == 0)
        return begin_new(t, err);
    t->goes_on = true;
    DT_CHECK(by_itself ? go_on_auto(t, &t->goes_on, err) : go_on_named(t, resume, err));
    if (!t->goes_on)
        return DT_OK;
    if (t->from == NULL)
        DT_CHECK(find_newest(t, !by_itself, err));
    return t->from != NULL ? dti_facts_compare(t, t->from, err) : DT_OK;
}

static dt_status load(dti_training *t, dt_err *err)
{
    const dt_trained to = {t->runner, t->s->graph, t->s->map};
    dt_course *c = &t->course;
    DT_TRY(err, dt_checkpoint_load(t->from, &to, c, err), "go on from '%s'",
        dt_checkpoint_path(t->from));
    if (c->epoch != c->step / t->feeds.steps_per_epoch)
        return DT_FAIL(err, DT_E_DATA,
            "'%s': step %" PRId64 " of epoch %" PRId64 ", but epochs have %" PRId64 " steps",
            dt_checkpoint_path(t->from), c->step, c->epoch, t->feeds.steps_per_epoch);
    t->point = (dt_train_point){.step = c->step, .at = c->at, .evaluated = c->evaluated != 0};
    t->began_step = c->step;
    t->began_skipped = c->skipped;
    t->saved_step = c->step;
    t->saved_evaluated = t->point.evaluated;
    return DT_OK;
}

dt_status dti_train_go_on(dti_training *t, dt_err *err)
{
    const dt_teller tell = dti_train_teller(t);
    int64_t lines;
    if (t->from != NULL)
        DT_CHECK(load(t, err));
    DT_CHECK(
        dt_checkpoint_tidy(dt_run_dir_file(t->dir, DT_RUN_CHECKPOINTS), t->point.step, &tell, err));
    DT_CHECK(dt_run_dir_cut(t->dir, t->point.step, t->point.evaluated, &lines, err));
    if (t->from == NULL)
        dti_train_tell(t, "resume", "no checkpoint yet: the run begins again");
    else if (t->point.step >= t->feeds.steps)
        dti_train_tell(t, "resume", "%s: %s%" PRId64 " step%s done", dt_checkpoint_path(t->from),
            t->point.step == 1 ? "the " : "all ", t->point.step,
            t->point.step == 1 ? " is" : "s are");
    else
        dti_train_tell(
            t, "resume", "step %" PRId64 ", from %s", t->point.step, dt_checkpoint_path(t->from));
    if (lines > 0)
        dti_train_tell(t, "resume",
            "%" PRId64 " later line%s of metrics.jsonl %s now in "
            "metrics.cut.jsonl",
            lines, lines == 1 ? "" : "s", lines == 1 ? "is" : "are");
    return DT_OK;
}
