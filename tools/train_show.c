/* A run for people: its facts, the lines it tells and the steps on stderr, what came of it on
 * stdout. */
#include "tools/train_show.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/graph_freeze.h"
#include "memory/usage.h"
#include "session/human.h"
#include "session/parts.h"
#include "tools/course.h"
#include "tools/of_run.h"

/* ---- lines ---- */

/* Lost when there is no memory for it: it is talk. */
static void keep_line(dti_train_show *s, const char *label, const char *text)
{
    const size_t n = s->note != NULL ? strlen(s->note) : 0, more = strlen(text) + 16;
    char *p = dt_realloc(s->note, n + more, 1);
    if (p == NULL)
        return;
    snprintf(p + n, more, "%-9.12s %s\n", label, text);
    s->note = p;
}

/* Above the progress; kept until there is one. */
static void show_line(void *self, const char *label, const char *text)
{
    dti_train_show *s = self;
    if (s->progress != NULL)
        dti_progress_note(s->progress, "%-9s %s", label, text);
    else
        keep_line(s, label, text);
}

/* ---- facts ---- */

static dt_status create_progress(dti_train_show *show, const dt_run *r, dt_err *err)
{
    const dt_session *s = r->s;
    char exact_for[DT_PARTS_TEXT];
    dt_usage u;
    const dt_status st = dt_plan_usage(dt_run_largest_plan(r), &u, err);
    dti_progress_facts f = {.model = s->graph->name,
        .policy = dt_session_policy(s),
        .chosen_by = dt_session_chosen_by(s),
        .precision = dt_session_precision(s),
        .device = dt_device_name(s->context.device),
        .isa = dt_session_isa(s),
        .data = r->feeds.note,
        .run_dir = dt_run_dir_path(r->dir),
        .moved = dt_run_dir_moved(r->dir),
        .image = s->graph->input,
        .tokens = dt_graph_tokens(s->graph),
        .classes = s->graph->classes,
        .pixels = dt_graph_counted(s->graph) > 0,
        .values = dt_graph_label_kind(s->graph) == DT_LABEL_CLASS ? 0 : dt_graph_labels(s->graph),
        .parameters = dt_graph_parameters(s->graph),
        .frozen = dt_graph_frozen(s->graph),
        .batch = s->opts.train.batch,
        .micro_batch = s->micro_batch,
        .epochs = r->feeds.whole_epochs ? s->opts.train.epochs : 0,
        .done = r->course.step,
        .done_samples = r->course.samples,
        .done_seconds = r->course.seconds,
        .first_loss = r->course.first_loss,
        .steps = r->feeds.steps,
        .steps_per_epoch = r->feeds.steps_per_epoch,
        .exact = dt_plan_set_exact(s->plans),
        .exact_for = dt_session_exact_for(exact_for, s),
        .threads = s->threads,
        .planned = dt_plan_set_peak(s->plans),
        .budget = s->opts.memory.device_budget,
        .host_planned = dt_plan_set_tier_peak(s->plans, DT_TIER_HOST),
        .host_is_device = dt_session_host_is_device(s),
        .disk_planned = dt_plan_set_tier_peak(s->plans, DT_TIER_DISK),
        .eval = r->feeds.eval_note[0] != '\0' ? r->feeds.eval_note : NULL};
    if (st == DT_OK) {
        memcpy(f.role_bytes, u.bytes, sizeof f.role_bytes);
        f.arena_other = u.unused;
    }
    dt_usage_deinit(&u);
    DT_CHECK(st);
    return dti_progress_create(&show->progress, &f, NULL, err);
}

/* Of a long run some lines stand for their neighbours. */
static dt_status tell_past(dti_progress *p, const dt_run *r, dt_err *err)
{
    dti_course c = {0};
    const dt_status st = dti_course_read(&c, dt_run_dir_path(r->dir), err);
    for (size_t i = 0; st == DT_OK && i < c.train.n; i++)
        for (size_t k = 0; k < c.each && c.train.v[DTI_STEP][i] <= (double)r->course.step; k++)
            dti_progress_past(p, c.train.v[DTI_LOSS][i], c.train.v[DTI_RATE][i]);
    dti_course_deinit(&c);
    return st;
}

static dt_status show_facts(void *self, const dt_run *r, dt_err *err)
{
    dti_train_show *s = self;
    DT_CHECK(create_progress(s, r, err));
    if (r->course.step > 0)
        DT_CHECK(tell_past(s->progress, r, err));
    if (s->note != NULL) /* what was told before */
        for (char *line = s->note, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
            dti_progress_note(s->progress, "%.*s", (int)(end - line), line);
    return DT_OK;
}

/* ---- steps ---- */

static void show_step(void *self, const dt_step_report *report)
{
    const dti_train_show *s = self;
    dti_progress_step(s->progress, report);
}

static void show_eval(void *self, const dt_eval_report *report)
{
    const dti_train_show *s = self;
    dti_progress_eval(s->progress, report);
}

dt_run_observer dti_train_show_observer(dti_train_show *s)
{
    return (dt_run_observer){
        .self = s, .line = show_line, .ready = show_facts, .step = show_step, .eval = show_eval};
}

/* ---- the end ---- */

enum { WRITTEN = 96 };

/* What is in the run directory now; "" when that is gone. */
static const char *written(char to[WRITTEN], const dti_train_show *s, const dt_run *r)
{
    dt_err ignored = {0};
    char metrics[4096];
    to[0] = '\0';
    if (dt_run_dir_there(r->dir, &ignored) != DT_OK)
        return to;
    const bool there = snprintf(metrics, sizeof metrics, "%s/" DT_RUN_METRICS,
                           dt_run_dir_path(r->dir)) < (int)sizeof metrics &&
                       access(metrics, F_OK) == 0;
    snprintf(to, WRITTEN, "%s%s%s%s", r->saved ? ", " DT_RUN_WEIGHTS : "",
        there ? ", " DT_RUN_METRICS : "", r->summarised ? ", " DT_RUN_SUMMARY : "",
        s->reported ? ", " DT_RUN_REPORT : "");
    const size_t n = strlen(to);
    memmove(to, to + (n > 0 ? 2 : 0), n > 0 ? n - 1 : 1); /* without the first comma */
    return to;
}

/* The evaluation by which a checkpoint was kept, if one is. */
static const char *best(char to[WRITTEN], const dt_run *r)
{
    char name[DT_CHECKPOINT_NAME], what[DTI_BEST_TEXT];
    const dt_run_best b = dt_run_best_of(r);
    if (b.step == 0)
        return NULL;
    snprintf(to, WRITTEN, "%s: " DT_CHECKPOINTS "/%s", dti_best_text(what, &b),
        dt_checkpoint_name(name, b.step));
    return to;
}

void dti_train_show_end(dti_train_show *s, const dt_run *r, dt_status st)
{
    char files[WRITTEN], kept[WRITTEN];
    if (s->progress == NULL)
        return;
    dti_progress_result result = {.status = st,
        .measured = r->measured,
        .process_peak = r->process_peak,
        .outside = r->outside,
        .card = r->s->context.device != DT_CPU,
        .best = best(kept, r),
        .files = written(files, s, r)};
    result.dir = dt_run_dir_path(r->dir);
    result.lost = dt_run_dir_lost(r->dir, &result.why);
    dti_progress_finish(s->progress, &result);
}

void dti_train_show_deinit(dti_train_show *s)
{
    dti_progress_destroy(s->progress);
    dt_free(s->note);
}
