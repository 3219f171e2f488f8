/* The course of a run: open, begin, train, end. */
#include "session/budget.h"
#include "session/idle_fates.h"
#include "session/may_write.h"
#include "session/open.h"
#include "session/run.h"
#include "session/run_plans.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/numbers_text.h"
#include "engine/base/text.h"
#include "engine/checkpoint/weights.h"
#include "engine/config/outside.h"
#include "session/run/run_internal.h"

/* ---- the observer ---- */

void dti_run_tell(dt_run *r, const char *label, const char *fmt, ...)
{
    char text[DT_RUN_LINE_BYTES];
    va_list ap;
    if (r->observer.line == NULL)
        return;
    va_start(ap, fmt);
    dt_vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dt_text_clean(text);
    r->observer.line(r->observer.self, label, text);
}

static void tell_line(void *self, const char *line)
{
    dti_run_tell(self, "resume", "%s", line);
}

dt_teller dti_run_teller(dt_run *r)
{
    return (dt_teller){r, tell_line};
}

bool dti_run_stop(const dt_run *r)
{
    return r->observer.stop != NULL && r->observer.stop(r->observer.self);
}

static void tell_skips_of(dt_run *r, dt_loader *l, size_t *told, const char *more)
{
    for (const char *text; l != NULL && (text = dt_loader_skipped(l, *told)) != NULL; ++*told)
        dti_run_tell(r, "skipped", "%s%s", text, more);
}

void dti_run_tell_skips(dt_run *r)
{
    tell_skips_of(r, r->feeds.train_loader, &r->skips_told, "");
    tell_skips_of(r, r->feeds.eval_loader, &r->eval_skips_told, "; the evaluation counts one less");
}

/* A device that cannot keep a plan does the same work, a little later. */
static void tell_launches(dt_run *r)
{
    const char *why = dt_runner_not_kept(r->rig.runner);
    if (why == NULL || r->launches_told)
        return;
    r->launches_told = true;
    dti_run_tell(
        r, "launches", "steps are launched row by row, as the device cannot keep them: %s", why);
}

/* ---- what the loop reports ---- */

static dt_status after_step(void *self, const dt_step_report *report, dt_err *err)
{
    dt_run *r = self;
    dt_course *c = &r->course;
    if (c->step == 0)
        c->first_loss = report->loss;
    c->step = report->step;
    c->last_loss = report->loss;
    c->samples += report->samples;
    c->reruns += report->again;
    dti_run_replan_seen(r);
    dt_rate_add(&r->rate, (double)report->samples / report->step_seconds);
    dti_run_tell_skips(r);
    tell_launches(r);
    if (r->observer.step != NULL)
        r->observer.step(r->observer.self, report);
    dti_run_dir_step(r->dir, report);
    return dti_run_dir_settle(r->dir, err);
}

/* The best so far, by what checkpoint.best names? */
static void judge(dt_run *r, const dt_eval_report *report)
{
    const int by = r->s->opts.checkpoint.best;
    const double v = by == DT_BEST_LOSS ? -report->loss : report->top1;
    dt_course *c = &r->course;
    if (by == DT_BEST_OFF)
        return;
    c->worse += c->improved_step > 0; /* than the best, if there is one */
    if (!isfinite(v))
        return;
    if (c->improved_step == 0 || v > c->improved) {
        c->improved = v;
        c->improved_step = report->step;
        c->worse = 0;
    }
    if (c->best_step > 0 && !(v > c->best))
        return;
    r->best_before = c->best;
    r->best_step_before = c->best_step;
    c->best = v;
    c->best_by = by;
    c->best_step = report->step;
    r->is_best = true;
}

static dt_status after_eval(void *self, const dt_eval_report *report, dt_err *err)
{
    (void)err;
    dt_run *r = self;
    dt_course *c = &r->course;
    c->eval = *report;
    if (!report->pixels)
        c->eval.mean_iou = (double)NAN;
    if (!report->probabilities)
        c->eval.accuracy = (double)NAN;
    judge(r, report);
    if (r->observer.eval != NULL)
        r->observer.eval(r->observer.self, report);
    dti_run_dir_eval(r->dir, report);
    return DT_OK;
}

static dt_status at_point(void *self, const dt_train_point *p, dt_err *err)
{
    (void)p; /* the run has it */
    return dti_run_save_due(self, err);
}

static dt_status dump_gradients(void *self, dt_err *err)
{
    const dt_run *r = self;
    const char *path = r->s->opts.train.dump_gradients;
    return path == NULL
               ? DT_OK
               : dt_gradients_save(r->rig.runner, r->s->graph, r->s->plans->map, path, err);
}

/* Whether so many evaluations were no better than the best that train.patience is at its end. */
static bool has_enough(void *self)
{
    const dt_run *r = self;
    const int64_t patience = r->s->opts.train.patience;
    return patience > 0 && r->course.worse >= patience;
}

static void tell_enough(dt_run *r)
{
    char name[DT_CHECKPOINT_NAME], where[DT_CHECKPOINT_NAME + 64] = ", which could not be saved";
    const dt_best by = (dt_best)r->s->opts.checkpoint.best;
    const int64_t n = r->course.worse, step = r->course.improved_step;
    if (r->point.step == r->feeds.steps || !has_enough(r))
        return;
    if (r->course.best_step == step)
        snprintf(where, sizeof where, ", whose weights are in " DT_CHECKPOINTS "/%s",
            dt_checkpoint_name(name, step));
    dti_run_tell(r, "patience",
        "the run ends: %" PRId64 " evaluation%s no better than that behind step %" PRId64
        " (%s %.4g)%s",
        n, n == 1 ? " was" : "s were", step, dt_best_name(by),
        by == DT_BEST_LOSS ? -r->course.improved : r->course.improved, where);
}

static bool stop_asked(void *self)
{
    return dti_run_stop(self);
}

/* ---- the run ---- */

bool dti_run_is_open(const dt_run *r)
{
    return r != NULL && r->open;
}

dt_status dti_run_check_open(const dt_run *r, dt_err *err)
{
    if (!dti_run_is_open(r))
        return DT_FAIL(err, DT_E_CONFIG, "there is no run: %s",
            r == NULL ? "the dt_run is NULL; open one first" : "its dt_run_open has failed");
    if (r->opener != getpid())
        return DT_FAIL(err, DT_E_CONFIG,
            "the run is that of process %ld, which opened it; here it can only be closed",
            (long)r->opener);
    return dt_cpu_check_call(r->s->threads, err);
}

dt_status dti_run_check_idle(const dt_run *r, dt_err *err)
{
    DT_CHECK(dti_run_check_open(r, err));
    return r->s->inside == 0 ? DT_OK
                             : DT_FAIL(err, DT_E_CONFIG,
                                   "called by its own observer, which may ask about the run but "
                                   "change nothing");
}

dt_status dti_run_need(const void *given, const char *what, dt_err *err)
{
    return given != NULL ? DT_OK : DT_FAIL(err, DT_E_CONFIG, "%s is NULL", what);
}

static dt_status check_given(
    const char *name, const void *text, const char *const *set, size_t n_set, dt_err *err)
{
    DT_CHECK(dti_run_need(name, "the path or name of the configuration", err));
    DT_CHECK(dti_run_need(text, "the text of the configuration", err));
    for (size_t i = 0; i < n_set; i++)
        if (set == NULL || set[i] == NULL)
            return DT_FAIL(
                err, DT_E_CONFIG, "assignment %zu of %zu is NULL: n_set counts them", i + 1, n_set);
    return DT_OK;
}

static dt_status create(dt_run **out, dt_err *err)
{
    DT_CHECK(dti_run_need(out, "where the run is to be put", err));
    dt_run *r = *out = dt_alloc(1, sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a run");
    r->opener = getpid();
    r->saved_step = -1;
    r->point.evaluated = true;
    return DT_OK;
}

dt_status dti_run_left(dt_run *r, dt_status st)
{
    dti_session_leave(r->s);
    return st;
}

/* A session is entered once its threads are known, also where it fails then. */
static dt_status opened(dt_run *r, dt_status st)
{
    r->open = st == DT_OK;
    return r->s != NULL && r->s->inside > 0 ? dti_run_left(r, st) : st;
}

dt_status dt_run_open(
    dt_run **out, const char *path, const char *const *set, size_t n_set, dt_err *err)
{
    DT_CHECK(create(out, err));
    DT_CHECK(check_given(path, "", set, n_set, err));
    return opened(*out, dt_session_open(&(*out)->s, path, set, n_set, err));
}

dt_status dt_run_open_text(dt_run **out, const char *name, const char *text, size_t bytes,
    const char *const *set, size_t n_set, dt_err *err)
{
    DT_CHECK(create(out, err));
    DT_CHECK(check_given(name, bytes > 0 ? text : "", set, n_set, err));
    return opened(*out, dti_session_open_text(&(*out)->s, name, text, bytes, set, n_set, err));
}

void dt_run_close(dt_run *r)
{
    if (r == NULL)
        return;
    if (r->opener != getpid()) { /* whose threads are not here, and who goes on with it */
        dti_run_dir_let_go(r->dir);
        return;
    }
    if (r->open && r->s->inside > 0) /* a call of its own needs it still */
        return;
    dti_rig_close(&r->rig);
    dti_run_trace_close(r);
    dti_run_replan_close(r);
    dt_rate_deinit(&r->rate);
    dt_checkpoint_close(r->from);
    dti_run_dir_close(r->dir);
    dt_feeds_close(&r->feeds);
    dt_class_names_deinit(&r->names);
    dt_session_close(r->s);
    dt_free(r);
}

dt_status dti_run_tell_ready(dt_run *r, dt_err *err)
{
    const int notes = dt_err_notes(err);
    if (r->observer.ready == NULL)
        return DT_OK;
    const dt_status st = r->observer.ready(r->observer.self, r, err);
    return dt_outside_status(st, DT_E_CONFIG, "the observer's ready", notes, err);
}

/* With the run directory open: what goes wrong now is written to its summary. */
static dt_status begin_in_dir(dt_run *r, dt_err *err)
{
    DT_CHECK(dti_run_describe(r, err));
    DT_CHECK(dti_run_tell_ready(r, err));
    r->begun = true;
    dti_run_foresee_space(r);
    return dti_run_prepare(r, err);
}

/* A policy that is in vain says so, as do generations of nothing. */
static dt_status tell_saving(dt_run *r, dt_err *err)
{
    const dt_map *map = r->s->plans->map;
    DT_CHECK(dt_plan_set_saving(r->s->plans, &r->saving, err));
    char above[DT_ABOVE_TEXT];
    if (r->saving.text[0] != '\0')
        dti_run_tell(r, "policy", "%s", r->saving.text);
    if (dt_plan_set_above(above, r->s->plans)[0] != '\0')
        dti_run_tell(r, "policy", "the plan %s", above);
    if (r->s->opts.memory.generations > 1 && map->tier_bytes[DT_TIER_DISK] == 0)
        dti_run_tell(r, "disk",
            "nothing lives there, so memory.generations = %" PRId64 " changes nothing",
            r->s->opts.memory.generations);
    return DT_OK;
}

static void tell_layers(void *self, const char *line)
{
    dti_run_tell(self, "layers", "%s", line);
}

static dt_status check_dump(const dt_session *s, dt_err *err)
{
    const char *path = s->opts.train.dump_gradients;
    if (path == NULL)
        return DT_OK;
    DT_CHECK(dt_may_write(s, path, err));
    DT_TRY(err, dti_may_write_beside(s, path, err), "[train] dump_gradients = %s", path);
    DT_TRY(err, dt_can_write(path, err), "[train] dump_gradients = %s", path);
    return DT_OK;
}

/* Everything that can be refused. */
static dt_status check(dt_run *r, dt_err *err)
{
    dt_session *s = r->s;
    char note[DTI_RIG_NOTE];
    DT_CHECK(check_dump(s, err));
    if (r->asked) /* of batches that this run may not have */
        dti_session_forget(s);
    DT_CHECK(dt_session_plan_run(s, false, 0, 0, err));
    DT_CHECK(dti_session_check_run(s, false, err)); /* before any data is read */
    DT_CHECK(dt_feeds_open(&r->feeds, s, err));
    for (size_t i = 0; i < r->feeds.n_warning; i++)
        dti_run_tell(r, "warning", "%s", r->feeds.warning[i]);
    if (dti_rig_threads_note(note, s)[0] != '\0')
        dti_run_tell(r, "warning", "%s", note);
    DT_CHECK(dt_session_plan_run(
        s, r->feeds.eval_loader != NULL, r->feeds.last, r->feeds.eval_last, err));
    DT_CHECK(dti_plan_set_check_statistics(s->plans, err));
    DT_CHECK(tell_saving(r, err));
    DT_CHECK(dt_session_idle_fates(s, &(dt_teller){r, tell_layers}, err));
    DT_CHECK(dti_session_check_run(s, true, err)); /* behind all that is planned */
    DT_CHECK(dt_source_fingerprint(r->fingerprint, r->feeds.train, err));
    if (r->feeds.eval != NULL)
        DT_CHECK(dt_source_fingerprint(r->eval_fingerprint, r->feeds.eval, err));
    DT_CHECK(
        dt_checkpoint_check_tensors(&(dt_trained){.graph = s->graph, .map = s->plans->map}, err));
    return dti_facts_check(r, err);
}

static dt_status begin(dt_run *r, const dt_run_observer *o, dt_err *err)
{
    if (r->rig.runner != NULL || r->rate.kept != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "a run begins once, and not after a begin that failed, an evaluation or scores: open "
            "another");
    r->failed = true; /* until it has begun */
    r->observer = o != NULL ? *o : (dt_run_observer){0};
    if (!dt_rate_init(&r->rate))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a run");
    DT_CHECK(check(r, err));
    DT_CHECK(dti_rig_reserve(&r->rig, r->s, err)); /* a run that is refused leaves no folder */
    if (dti_run_stop(r))
        return DT_FAIL(err, DT_E_STOPPED, "stopped before the run began: nothing is written");
    DT_CHECK(dti_run_open_dir(r, err));
    const dt_status st = begin_in_dir(r, err);
    r->ready = st == DT_OK;
    r->failed = !r->ready;
    if (st != DT_OK && st != DT_E_IO && !r->begun) /* nobody was told yet */
        dti_run_dir_tell_moved(r->dir, err);
    if (st == DT_OK || (r->goes_on && !r->turned)) /* then that run is as it was */
        return st;
    if (st != DT_E_IO || r->goes_on)
        return dti_run_summarise(r, st, err);
    dti_run_dir_discard(
        r->dir, err); /* or the same command would be refused when there is room again */
    return st;
}

dt_status dt_run_begin(dt_run *r, const dt_run_observer *o, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    dti_session_enter(r->s);
    return dti_run_left(r, begin(r, o, err));
}

/* In one go, or from one planning to the next. */
static dt_status train_on(dt_run *r, dt_train_job *j, dt_err *err)
{
    const int64_t until = j->until > 0 && j->until < j->steps ? j->until : j->steps;
    dt_status st;
    do {
        j->until = dti_run_replan_until(r, until);
        j->ready = r->rig.ready;
        j->n_ready = r->rig.n;
        j->goes_on = r->goes_straight;
        st = dt_train(j, err);
        r->goes_straight = st == DT_OK;
        if (st == DT_OK)
            st = dti_run_replan(r, err);
    } while (st == DT_OK && r->point.step < until && !has_enough(r));
    return st;
}

static dt_status train(dt_run *r, int64_t until, dt_err *err)
{
    if (!r->ready)
        return DT_FAIL(err, DT_E_CONFIG, "a run trains between its begin and its end");
    DT_CHECK(dti_run_check_weights(r, err));
    if (until < 0)
        return DT_FAIL(
            err, DT_E_CONFIG, "train until step %" PRId64 ": 0, for all, or more", until);
    const dt_observer o = {.self = r,
        .step = after_step,
        .eval = after_eval,
        .gradients = dump_gradients,
        .point = at_point,
        .stop = stop_asked,
        .enough = has_enough};
    dt_train_job j = {.runner = r->rig.runner,
        .map = r->s->plans->map,
        .opts = &r->s->opts.train,
        .micro_batch = r->s->micro_batch,
        .feed = dt_loader_feed(r->feeds.train_loader),
        .eval_feed = r->feeds.eval_loader != NULL ? dt_loader_feed(r->feeds.eval_loader) : NULL,
        .steps = r->feeds.steps,
        .until = until,
        .steps_per_epoch = r->feeds.steps_per_epoch,
        .point = &r->point,
        .observer = &o};
    const double began = dt_seconds();
    r->began_seconds = began - r->course.seconds;
    r->trains = true;
    const dt_status st = train_on(r, &j, err);
    r->trains = false;
    dti_run_trace_flush(r);
    r->course.seconds = dt_seconds() - r->began_seconds;
    dti_run_tell_skips(r);
    if (st == DT_OK)
        tell_enough(r);
    const bool unread =
        dt_loader_failed(r->feeds.train_loader) || dt_loader_failed(r->feeds.eval_loader);
    if (st == DT_E_DATA && unread && r->s->opts.data.on_error == DT_ON_ERROR_FAIL)
        (void)DT_FAIL(
            err, st, "data.on_error = skip leaves out bad samples, data.max_skips of them");
    return st;
}

dt_status dt_run_train(dt_run *r, int64_t until, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    dti_session_enter(r->s);
    return dti_run_left(r, train(r, until, err));
}

/* A step that failed was discarded whole, so the weights are good, unless the failure is ours or
 * the device's, or a tier's in the middle of an update. */
static dt_status save(dt_run *r, dt_status st, dt_err *err)
{
    if (r->point.broken)
        return DT_FAIL(err, st != DT_OK ? st : DT_E_IO,
            "nothing is saved, as some weights are updated and some are not; the last checkpoint "
            "is as it was");
    if (st == DT_E_INTERNAL || st == DT_E_DEVICE)
        return st;
    const dt_status saved = dti_run_save_last(r, err);
    if (st == DT_E_STOPPED && saved == DT_OK)
        (void)DT_FAIL(err, st,
            "saved; the same command with --resume '%s' goes on after step %" PRId64,
            dt_run_dir_path(r->dir), r->point.step);
    return st == DT_OK || (st == DT_E_STOPPED && saved != DT_OK) ? saved : st;
}

dt_status dt_run_end(dt_run *r, dt_status st, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    if (!r->ready)
        return DT_FAIL(err, DT_E_CONFIG, "a run ends once, when it has begun");
    if (!dt_is_status((int)st))
        return DT_FAIL(err, DT_E_CONFIG,
            "a run ends with what its last dt_run_train gave, and %d is no dt_status", (int)st);
    if (st != DT_OK && dt_err_notes(err) == 0)
        (void)DT_FAIL(err, st, "the run was ended with %d (%s) and no note in err", (int)st,
            dt_status_name(st));
    r->ready = false;
    dti_session_enter(r->s);
    return dti_run_left(r, dti_run_summarise(r, save(r, st, err), err));
}
