/* What a run says and writes while it trains, and at its end. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/onednn/onednn.h"
#include "engine/base/cpu.h"
#include "engine/checkpoint/weights.h"
#include "session/environment.h"
#include "tools/train_parts.h"

#define STALL_SHARE 0.1 /* of the time: more of it spent on copies is worth a line */

enum { LINE_BYTES = 8192 };

/* ---- lines ---- */

/* Lost when there is no memory for it: it is talk. */
static void keep_line(dti_training *t, const char *line)
{
    const size_t n = t->note != NULL ? strlen(t->note) : 0, more = strlen(line) + 2;
    char *p = dt_realloc(t->note, n + more, 1);
    if (p == NULL)
        return;
    snprintf(p + n, more, "%s\n", line);
    t->note = p;
}

void dti_train_tell(dti_training *t, const char *label, const char *fmt, ...)
{
    char text[LINE_BYTES], line[LINE_BYTES + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(line, sizeof line, "%-9s %s", label, text);
    if (t->progress != NULL)
        dt_progress_note(t->progress, "%s", line);
    else
        keep_line(t, line);
}

static void tell_line(void *self, const char *line)
{
    dti_train_tell(self, "resume", "%s", line);
}

dt_teller dti_train_teller(dti_training *t)
{
    return (dt_teller){t, tell_line};
}

/* Samples left out by data.on_error = skip, each once. */
void dti_train_tell_skips(dti_training *t)
{
    const char *text;
    while ((text = dt_loader_skipped(t->feeds.train_loader, t->skips_told)) != NULL) {
        dt_progress_note(t->progress, "skipped   %s", text);
        t->skips_told++;
    }
}

/* ---- what the loop reports ---- */

static dt_status after_step(void *self, const dt_step_report *r, dt_err *err)
{
    (void)err;
    dti_training *t = self;
    dt_course *c = &t->course;
    if (c->step == 0)
        c->first_loss = r->loss;
    c->step = r->step;
    c->last_loss = r->loss;
    c->samples += r->samples;
    c->reruns += r->again;
    dti_train_tell_skips(t);
    dt_progress_step(t->progress, r);
    dt_run_dir_step(t->dir, r);
    return DT_OK;
}

/* The best so far, by what checkpoint.best names? */
static void judge(dti_training *t, const dt_eval_report *r)
{
    const int by = t->s->opts.checkpoint.best;
    const double v = by == DT_BEST_LOSS ? -r->loss : r->top1;
    if (by == DT_BEST_OFF || !isfinite(v) || (t->course.best_step > 0 && !(v > t->course.best)))
        return;
    t->course.best = v;
    t->course.best_step = r->step;
    t->is_best = true;
}

static dt_status after_eval(void *self, const dt_eval_report *r, dt_err *err)
{
    (void)err;
    dti_training *t = self;
    dt_course *c = &t->course;
    c->eval_step = r->step;
    c->eval_epoch = r->epoch;
    c->eval_samples = r->samples;
    c->eval_loss = r->loss;
    c->eval_top1 = r->top1;
    c->eval_top5 = r->top5;
    t->eval_pixels = r->pixels;
    t->eval_mean_iou = r->mean_iou;
    judge(t, r);
    dt_progress_eval(t->progress, r);
    dt_run_dir_eval(t->dir, r);
    return DT_OK;
}

static dt_status at_point(void *self, const dt_train_point *p, dt_err *err)
{
    (void)p; /* the run has it */
    (void)err;
    dti_train_save_due(self);
    return DT_OK;
}

static dt_status dump_gradients(void *self, dt_err *err)
{
    const dti_training *t = self;
    const char *path = t->s->opts.train.dump_gradients;
    return path == NULL ? DT_OK : dt_gradients_save(t->runner, t->s->graph, t->s->map, path, err);
}

const dt_observer dti_train_observer = {
    .step = after_step, .eval = after_eval, .gradients = dump_gradients, .point = at_point};

/* ---- the end ---- */

/* What moving cost, when it cost much: a slow run should say why. */
static void tell_moves(dti_training *t, const dt_runner_stats *m)
{
    const double copies = m->copy_seconds + m->stall_seconds;
    const bool disk = m->out[DT_TIER_DISK] > 0;
    if (t->progress == NULL || !(t->course.seconds > 0))
        return;
    if (copies > STALL_SHARE * t->course.seconds)
        dt_progress_note(t->progress, "copies    %.0f %% of the time went into %s%s",
            100 * copies / t->course.seconds, disk ? "waiting for the disk" : "copies",
            disk ? "; memory.tier = host, or a policy that moves less, is faster" : "");
    if (t->course.reruns > 0)
        dt_progress_note(t->progress,
            "packed    %lld step%s run again, as packed values did not fit; 'dnntrain profile' "
            "measures what they take",
            (long long)t->course.reruns, t->course.reruns == 1 ? " was" : "s were");
}

/* What lies beside the plan's bytes: in this process or, where they are a card's, in use there, by
 * CUDA, its libraries and other programs. 0: not known. */
static uint64_t outside(const dt_session *s, uint64_t process, uint64_t arena)
{
    dt_driver_facts f = {.bytes = process};
    dt_err ignored = {0};
    if (dt_device_driver(s->device) != NULL && dt_device_facts(s->device, &f, &ignored) != DT_OK)
        return 0;
    const uint64_t used = f.bytes - f.free;
    return used > arena ? used - arena : 0;
}

dt_status dti_train_finish(dti_training *t, dt_status st, dt_err *err)
{
    const dt_session *s = t->s;
    const dt_course *c = &t->course;
    const dt_eval_report eval = {.step = c->eval_step,
        .epoch = c->eval_epoch,
        .samples = c->eval_samples,
        .loss = c->eval_loss,
        .top1 = c->eval_top1,
        .top5 = c->eval_top5,
        .pixels = t->eval_pixels,
        .mean_iou = t->eval_mean_iou};
    const bool trained = t->progress != NULL && c->step > t->began_step;
    const uint64_t process = dt_process_peak(), arena = dt_session_peak(s);
    const dt_runner_stats moved = dt_runner_get_stats(t->runner);
    tell_moves(t, &moved);
    if (st == DT_OK && t->measured != arena) /* so the summary says that it failed, and why */
        st = DT_FAIL(err, DT_E_INTERNAL, "%llu bytes were planned, %llu measured",
            (unsigned long long)arena, (unsigned long long)t->measured);
    const dt_run_summary sum = {.status = st,
        .error = err != NULL && err->n > 0 ? err->text : NULL,
        .model = s->graph->name,
        .policy = s->opts.memory.policy,
        .chosen_by = s->ladder,
        .device = dt_device_name(s->device),
        .precision = dt_session_precision(s),
        .pool = s->opts.memory.pool,
        .isa = dt_session_isa(s),
        .library_isa = s->device == DT_CPU ? dt_onednn_isa() : NULL,
        .exact = dt_session_exact(s),
        .batch = s->opts.train.batch,
        .micro_batch = s->opts.train.micro_batch,
        .threads = s->threads,
        .parameters = dt_graph_parameters(s->graph),
        .steps = c->step,
        .steps_planned = t->feeds.steps,
        .epochs = c->step / t->feeds.steps_per_epoch,
        .samples = c->samples,
        .seconds = c->seconds,
        .images_per_second = trained ? dt_progress_rate(t->progress) : 0,
        .first_loss = c->first_loss,
        .final_loss = c->last_loss,
        .device_budget = s->opts.memory.device_budget,
        .device_peak_planned = arena,
        .device_peak_measured = t->measured,
        .host_peak_planned = dt_session_tier_peak(s, DT_TIER_HOST),
        .disk_peak_planned = dt_session_tier_peak(s, DT_TIER_DISK),
        .moved = &moved,
        .reruns = c->reruns,
        .process_peak = process,
        .outside_arena_bytes = outside(s, process, arena),
        .eval = c->eval_step > 0 ? &eval : NULL};
    const dt_status written = dt_run_dir_summary(t->dir, &sum, err);
    dt_progress_result r = {.status = st,
        .measured = t->measured,
        .process_peak = process,
        .outside = sum.outside_arena_bytes,
        .card = dt_device_driver(s->device) != NULL,
        .files = t->saved ? DT_RUN_WEIGHTS ", metrics.jsonl, summary.json"
                          : "metrics.jsonl, summary.json"};
    r.lost = dt_run_dir_lost(t->dir, &r.why);
    if (t->progress != NULL)
        dt_progress_finish(t->progress, &r);
    return st != DT_OK ? st : written;
}
