/* The page that a run leaves. */
#include "tools/page_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/json.h"
#include "session/human.h"
#include "tools/course.h"
#include "tools/losses.h"
#include "tools/page_plan.h"
#include "tools/plan_time.h"

enum { POINTS = 400, SAMPLES = 8 };

/* ---- the course of the run ---- */

/* Means of neighbours, so that no more than POINTS are left; of their steps the last. False: no
 * memory. */
static bool thin(dti_course_table *to, const dti_course_table *from)
{
    const size_t each = (from->n + POINTS - 1) / POINTS;
    for (size_t i = 0; i < from->n; i += each) {
        const size_t end = i + each < from->n ? i + each : from->n;
        if (!dti_course_room(to))
            return false;
        for (int c = 0; c < DTI_COLUMNS; c++) {
            double sum = 0;
            for (size_t k = i; k < end; k++)
                sum += from->v[c][k];
            to->v[c][to->n] = c == DTI_STEP ? from->v[c][end - 1] : sum / (double)(end - i);
        }
        to->n++;
    }
    return true;
}

/* Noise of single steps hides what is learned. Where points are means of several steps, so are
 * those that are smoothed. */
static double *smooth(const dti_course_table *t)
{
    double *v = dt_alloc(t->n + 1, sizeof *v);
    dti_smoothed s = {0};
    for (size_t i = 0; v != NULL && i < t->n; i++)
        v[i] = dti_smooth(&s, t->v[DTI_LOSS][i]);
    return v;
}

static void push_column(dt_json *to, const char *name, const dti_course_table *t, int column)
{
    dt_json list = dt_json_list(to, name);
    for (size_t i = 0; i < t->n; i++)
        if (column == DTI_STEP) /* a whole number, of which no digit may be lost */
            dt_json_push(&list, (uint64_t)t->v[column][i]);
        else
            dt_json_push_real(&list, t->v[column][i]);
    dt_json_leave(to, &list);
}

static void course_data(dti_page *p, const dti_course_table *t, const double *even)
{
    dt_json o = dt_json_inner(&p->data, "course");
    push_column(&o, "step", t, DTI_STEP);
    push_column(&o, "loss", t, DTI_LOSS);
    dt_json list = dt_json_list(&o, "smoothed");
    for (size_t i = 0; i < t->n; i++)
        dt_json_push_real(&list, even[i]);
    dt_json_leave(&o, &list);
    push_column(&o, "rate", t, DTI_RATE);
    push_column(&o, "lr", t, DTI_LR);
    dt_json_leave(&p->data, &o);
}

static void charts(
    const dti_page *p, const dti_course_table *t, const dti_course_table *eval, const double *even)
{
    const dti_chart_line loss[] = {
        {"a step", "one faint", t->n, t->v[DTI_STEP], t->v[DTI_LOSS], false},
        {"smoothed", "one", t->n, t->v[DTI_STEP], even, false},
        {"evaluation", "two", eval->n, eval->v[DTI_STEP], eval->v[DTI_LOSS], true}};
    const dti_chart_line top1[] = {
        {"", "two", eval->n, eval->v[DTI_STEP], eval->v[DTI_TOP1], false}};
    const dti_chart_line rate[] = {{"", "one", t->n, t->v[DTI_STEP], t->v[DTI_RATE], false}};
    const dti_chart_line lr[] = {{"", "one", t->n, t->v[DTI_STEP], t->v[DTI_LR], false}};
    const double first = t->v[DTI_STEP][0], last = t->v[DTI_STEP][t->n - 1];
    const bool told = eval->n > 1 && !isnan(eval->v[DTI_TOP1][0]); /* not of a loss of values */
    const dti_chart all[] = {
        {"loss", "loss", eval->n > 0 ? 3 : 2, loss, first, last, 240, false},
        {"top1", "top-1 of evaluations", 1, top1, first, last, 110, false},
        {"rate", "samples a second", 1, rate, first, last, 90, true},
        {"lr", "learning rate", 1, lr, first, last, 70, true},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (i != 1 || told)
            dti_page_chart(p, &all[i]);
}

static void tell_lost(const dti_page *p, const dti_course *c)
{
    if (c->bad > 0)
        fprintf(p->f, "<p class=\"hint\">%zu line%s of " DT_RUN_METRICS " could not be read.</p>\n",
            c->bad, c->bad == 1 ? "" : "s");
    if (c->why[0] == '\0')
        return;
    fputs("<p class=\"hint\">The course of the run could not be read: ", p->f);
    dti_xml_text(p->f, c->why);
    fputs("</p>\n", p->f);
}

/* Nothing else that stays tells of it. */
static void tell_skipped(const dti_page *p, int64_t times)
{
    if (times > 0)
        fprintf(p->f,
            "<p class=\"hint\">%" PRId64 " time%s a sample was left out, as it could not be read "
            "(data.on_error = skip).</p>\n",
            times, times == 1 ? "" : "s");
}

static dt_status draw_course(dti_page *p, const dti_course *c, int64_t skipped, dt_err *err)
{
    dti_course_table few = {0};
    const bool thinned = thin(&few, &c->train);
    double *even = smooth(&few);
    const bool room = even != NULL && thinned;
    if (room && (few.n > 0 || c->why[0] != '\0')) {
        dti_page_section(p, "course", "What was learned");
        if (few.n > 0)
            charts(p, &few, &c->eval, even);
        tell_skipped(p, skipped);
        tell_lost(p, c);
        dti_page_section_end(p);
    }
    if (room && few.n > 0)
        course_data(p, &few, even);
    dti_course_table_deinit(&few);
    dt_free(even);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for the course of the run");
}

/* ---- the numbers at the top ---- */

/* As the line on the terminal ends: no single step says what was learned, but one whose loss is no
 * number. */
static void last_loss(const dti_page *p, const dt_course *c, const dti_course_table *t)
{
    char value[64], note[96];
    dti_smoothed s = {0};
    double loss = c->last_loss;
    const bool smoothed = isfinite(loss) && t->n > 1;
    for (size_t i = 0; smoothed && i < t->n; i++)
        loss = dti_smooth(&s, t->v[DTI_LOSS][i]);
    snprintf(value, sizeof value, "%.4g", loss);
    snprintf(note, sizeof note, "%.4g in the first step", c->first_loss);
    dti_page_tile(p, smoothed ? "loss at the end, smoothed" : "loss of the last step", value, note);
}

/* Of an evaluation, where labels are values. */
static void learned_values(const dti_page *p, const dt_run *r)
{
    const dt_course *c = &r->course;
    char value[64], note[96];
    snprintf(note, sizeof note, "after step %" PRId64, c->eval.step);
    snprintf(value, sizeof value, "%.4g", c->eval.loss);
    dti_page_tile(p, "loss of what was held out", value, note);
    snprintf(value, sizeof value, "%.1f %%", 100 * c->eval.accuracy);
    if (dt_graph_label_kind(r->s->graph) == DT_LABEL_PROBABILITY)
        dti_page_tile(p, "values on the right side of 0.5", value, note);
}

static void learned(const dti_page *p, const dt_run *r, const dti_course_table *t)
{
    const dt_course *c = &r->course;
    char value[64], note[96];
    if (c->step == 0)
        return;
    last_loss(p, c, t);
    if (c->eval.step == 0)
        return;
    if (dt_graph_label_kind(r->s->graph) != DT_LABEL_CLASS) {
        learned_values(p, r);
        return;
    }
    snprintf(value, sizeof value, "%.1f %%", 100 * c->eval.top1);
    if (dt_human_tells_top5(r->s->graph->classes))
        snprintf(note, sizeof note, "loss %.4g, top-5 %.1f %%, after step %" PRId64, c->eval.loss,
            100 * c->eval.top5, c->eval.step);
    else
        snprintf(note, sizeof note, "loss %.4g, after step %" PRId64, c->eval.loss, c->eval.step);
    dti_page_tile(p,
        dt_graph_counted(r->s->graph) > 0 ? "pixels told right" : "top-1 of what was held out",
        value, note);
}

/* Of the whole run. False: no memory. */
static bool took(const dti_page *p, const dt_run *r, const dti_course_table *t)
{
    char value[64], note[96], human[DT_HUMAN_BYTES];
    dt_rate all;
    const double seconds = r->course.seconds;
    if (!dt_rate_init(&all))
        return false;
    for (size_t i = 0; i < t->n; i++)
        dt_rate_add(&all, t->v[DTI_RATE][i]);
    const double rate = dt_rate_median(t->n > 0 ? &all : &r->rate);
    dt_rate_deinit(&all);
    if (!isfinite(rate))
        return true;
    snprintf(value, sizeof value, "%s", dt_human_rate(human, rate));
    snprintf(note, sizeof note, "in the median step; %s in all",
        seconds < 60 ? dt_human_seconds(human, seconds) : dt_human_time(human, seconds));
    dti_page_tile(p, "samples a second", value, note);
    return true;
}

static void memory(const dti_page *p, const dt_run *r)
{
    char human[DT_HUMAN_BYTES], note[128];
    const uint64_t planned = dt_plan_set_peak(r->s->plans);
    if (r->measured == planned)
        snprintf(note, sizeof note, "planned, and measured to the byte");
    else
        snprintf(note, sizeof note, "planned; measured %s",
            r->measured > 0 ? dt_human_bytes(human, r->measured) : "was nothing");
    char value[DT_HUMAN_BYTES];
    dti_page_tile(p, "memory of the device", dt_human_bytes(value, planned), note);
    if (r->saving.kept > planned) {
        snprintf(
            value, sizeof value, "%.1f %%", 100 * (1 - (double)planned / (double)r->saving.kept));
        snprintf(note, sizeof note, "of the %s that it takes with all kept",
            dt_human_bytes(human, r->saving.kept));
        dti_page_tile(p, "saved", value, note);
    }
}

/* A run that was stopped has done what it was told to. */
static void tell_why(const dti_page *p, dt_status st, const char *why)
{
    if (st == DT_OK || st == DT_E_STOPPED || why[0] == '\0')
        return;
    fputs("<p class=\"failed\">", p->f);
    dti_xml_text(p->f, why);
    fputs("</p>\n", p->f);
}

static dt_status begin(dti_page *p, const dt_run *r, dt_status st, const char *why,
    const dti_course_table *t, FILE *f, dt_err *err)
{
    char title[512], about[512];
    const dt_session *s = r->s;
    snprintf(title, sizeof title, "%s, %.180s", s->graph->name, dt_session_policy(s));
    snprintf(about, sizeof about,
        "%s after %" PRId64 " of %" PRId64 " steps of %" PRId64 " samples; precision %s, device %s",
        dt_run_word(st), r->course.step,
        r->course.step > r->feeds.steps ? r->course.step : r->feeds.steps, s->opts.train.batch,
        dt_session_precision(s), dt_device_name(s->context.device));
    dti_page_begin(p, f, title, about);
    tell_why(p, st, why);
    dti_page_tiles(p);
    learned(p, r, t);
    const bool room = took(p, r, t);
    memory(p, r);
    dti_page_tiles_end(p);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for the course of the run");
}

/* ---- the page ---- */

typedef struct report {
    dt_run *r;
    dt_status st;
    const char *why; /* of a run that failed */
    dti_course c;
    dt_sample *sample;
    size_t n_sample;
    dt_runner_stats moved;       /* by the run, and not by looking at samples */
    const dt_timeline *measured; /* NULL: it was not traced */
} report;

static dt_status fill(dti_page *p, const report *x, dt_err *err)
{
    const dti_page_plan plan = {.session = x->r->s,
        .plan = dt_run_largest_plan(x->r),
        .saving = &x->r->saving,
        .measured = x->measured,
        .moved = &x->moved,
        .seconds = dt_run_own_seconds(x->r)};
    DT_CHECK(draw_course(p, &x->c, dt_run_skipped(x->r), err));
    dti_page_samples(p, x->r, x->sample, x->n_sample);
    DT_CHECK(dti_page_policy(p, &plan, err));
    DT_CHECK(dti_page_map(p, &plan, err));
    return dti_page_machine(p, x->r->s, err);
}

static dt_status print(const void *arg, FILE *f, dt_err *err)
{
    const report *x = arg;
    dti_page p;
    dt_status st = begin(&p, x->r, x->st, x->why, &x->c.train, f, err);
    if (st == DT_OK)
        st = fill(&p, x, err);
    const dt_status ended = dti_page_end(&p, st == DT_OK ? err : NULL);
    return st != DT_OK ? st : ended;
}

/* Of a run that is done: whoever stopped one waits for its end. Samples that cannot be read leave
 * the page without them. */
static dt_status look(report *x, dt_err *err)
{
    dt_err why = {0};
    x->sample = dt_alloc(SAMPLES, sizeof *x->sample);
    if (x->sample == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for samples");
    if (dt_run_samples(x->r, x->sample, SAMPLES, &x->n_sample, &why) != DT_OK)
        x->n_sample = 0;
    return DT_OK;
}

/* A trace that cannot be read, or has not the plan in it, leaves the page without. */
static void read_trace(report *x, const char *path, dt_timeline *to)
{
    const dt_plan *p = dt_run_largest_plan(x->r);
    dt_err why = {0};
    if (path != NULL && path[0] != '\0' && dti_plan_measured(p, p->batch, path, to, &why) == DT_OK)
        x->measured = to;
}

dt_status dti_page_run(
    dt_run *r, dt_status st, const char *why, const char *trace, bool *written, dt_err *err)
{
    report x = {.r = r, .st = st, .why = why};
    dt_timeline time = {0};
    *written = false;
    if (!r->s->opts.train.report || !r->begun)
        return DT_OK;
    x.moved = dt_runner_get_stats(r->rig.runner);
    DT_CHECK(dt_run_dir_there(r->dir, err));
    dt_status done = dti_course_read(&x.c, dt_run_dir_path(r->dir), err);
    if (done == DT_OK && st == DT_OK)
        done = look(&x, err);
    if (done == DT_OK)
        read_trace(&x, trace, &time);
    if (done == DT_OK)
        done = dt_run_write(r, DT_RUN_REPORT, print, &x, err);
    dti_course_deinit(&x.c);
    dt_free(x.sample);
    dt_timeline_deinit(&time);
    *written = done == DT_OK;
    return done;
}
