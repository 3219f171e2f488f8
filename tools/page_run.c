/* The page that a run leaves. */
#include "tools/page_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "session/human.h"
#include "tools/page_plan.h"
#include "tools/plan_time.h"
#include "tools/progress_line.h"

enum { POINTS = 400, SAMPLES = 8, LINE_DEPTH = 4, LINE_VALUES = 64 };
static const size_t most_bytes = (size_t)1 << 30, enough_bytes = (size_t)1 << 25;

/* ---- the course of the run, as metrics.jsonl tells it ---- */

/* Columns of numbers, a row a step or an evaluation. */
enum { STEP, LOSS, LR, RATE, TOP1, COLUMNS };
static const char *const key[COLUMNS] = {"step", "loss", "lr", "images_per_second", "top1"};

typedef struct table {
    double *v[COLUMNS];
    size_t n, cap;
} table;

/* @each: of so many steps one is read, as a long run has more than a picture shows; @bad: lines
 * that are none; @why: it could not be read, "": it could */
typedef struct course {
    table train, eval;
    size_t each, line, bad;
    char why[256];
} course;

static void table_free(table *t)
{
    for (int c = 0; c < COLUMNS; c++)
        dt_free(t->v[c]);
}

static bool make_room(table *t)
{
    bool room = true;
    size_t cap = t->cap;
    for (int c = 0; c < COLUMNS; c++) {
        cap = t->cap; /* of each column the same */
        room = room && dt_grow(&t->v[c], &cap, t->n, sizeof *t->v[c]);
    }
    t->cap = cap;
    return room;
}

static bool add_row(table *t, const cJSON *line)
{
    if (!make_room(t))
        return false;
    for (int c = 0; c < COLUMNS; c++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key[c]);
        t->v[c][t->n] = cJSON_IsNumber(v) ? v->valuedouble : (double)NAN;
    }
    t->n++;
    return true;
}

/* Evaluations are few, and all wanted. */
static bool left_out(course *c, const char *text, size_t n)
{
    static const char eval[] = "\"split\": \"eval\"";
    if (c->each == 1 || c->line++ % c->each == 0)
        return false;
    for (size_t i = 0; i + sizeof eval <= n; i++)
        if (memcmp(text + i, eval, sizeof eval - 1) == 0)
            return false;
    return true;
}

static dt_status add_line(course *c, const char *text, size_t n, dt_err *err)
{
    cJSON *line = NULL;
    bool room = true;
    if (left_out(c, text, n))
        return DT_OK;
    if (dt_json_parse(&line, text, n, LINE_DEPTH, LINE_VALUES, NULL) != DT_OK) {
        c->bad++;
        return DT_OK;
    }
    const cJSON *split = cJSON_GetObjectItemCaseSensitive(line, "split");
    if (cJSON_IsString(split) && strcmp(split->valuestring, "train") == 0)
        room = add_row(&c->train, line);
    else if (cJSON_IsString(split) && strcmp(split->valuestring, "eval") == 0)
        room = add_row(&c->eval, line);
    else
        c->bad++;
    cJSON_Delete(line);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for the course of the run");
}

static dt_status read_lines(course *c, const char *folder, dt_err *err)
{
    char path[4200], *text = NULL;
    size_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/" DT_RUN_METRICS, folder) >= (int)sizeof path)
        return DT_FAIL(err, DT_E_IO, "'%s': the name is too long", folder);
    DT_CHECK(dt_read_file(&text, &bytes, path, most_bytes, DT_E_IO, err));
    dt_status st = DT_OK;
    c->each = bytes / enough_bytes + 1;
    for (const char *at = text; at < text + bytes && st == DT_OK;) {
        const char *end = memchr(at, '\n', (size_t)(text + bytes - at));
        end = end != NULL ? end : text + bytes;
        st = add_line(c, at, (size_t)(end - at), err);
        at = end + 1;
    }
    dt_free(text);
    return st;
}

/* A page without it is better than none. */
static dt_status read_course(course *c, const char *folder, dt_err *err)
{
    dt_err why = {0};
    const dt_status st = read_lines(c, folder, &why);
    if (st == DT_E_NOMEM)
        return DT_FAIL(err, st, "no memory for the course of the run");
    if (st != DT_OK)
        snprintf(c->why, sizeof c->why, "%.*s", (int)strcspn(why.text, "\n"), why.text);
    return DT_OK;
}

/* Means of neighbours, so that no more than POINTS are left; of their steps the last. False: no
 * memory. */
static bool thin(table *to, const table *from)
{
    const size_t each = (from->n + POINTS - 1) / POINTS;
    for (size_t i = 0; i < from->n; i += each) {
        const size_t end = i + each < from->n ? i + each : from->n;
        if (!make_room(to))
            return false;
        for (int c = 0; c < COLUMNS; c++) {
            double sum = 0;
            for (size_t k = i; k < end; k++)
                sum += from->v[c][k];
            to->v[c][to->n] = c == STEP ? from->v[c][end - 1] : sum / (double)(end - i);
        }
        to->n++;
    }
    return true;
}

/* Noise of single steps hides what is learned. As the line on the terminal is, so that they end in
 * the same number: of a run that was gone on with, at step @began, it begins anew there. Where
 * points are means of several steps, so are those that are smoothed. */
static double *smooth(const table *t, int64_t began)
{
    double *v = dt_alloc(t->n + 1, sizeof *v);
    dti_smoothed s = {0};
    for (size_t i = 0; v != NULL && i < t->n; i++) {
        if (i > 0 && t->v[STEP][i - 1] <= (double)began && t->v[STEP][i] > (double)began)
            s = (dti_smoothed){0};
        v[i] = dti_smooth(&s, t->v[LOSS][i]);
    }
    return v;
}

static void push_column(dt_json *to, const char *name, const table *t, int column)
{
    dt_json list = dt_json_list(to, name);
    for (size_t i = 0; i < t->n; i++)
        dt_json_push_real(&list, t->v[column][i]);
    dt_json_leave(to, &list);
}

static void course_data(dti_page *p, const table *t, const double *even)
{
    dt_json o = dt_json_inner(&p->data, "course");
    push_column(&o, "step", t, STEP);
    push_column(&o, "loss", t, LOSS);
    dt_json list = dt_json_list(&o, "smoothed");
    for (size_t i = 0; i < t->n; i++)
        dt_json_push_real(&list, even[i]);
    dt_json_leave(&o, &list);
    push_column(&o, "rate", t, RATE);
    push_column(&o, "lr", t, LR);
    dt_json_leave(&p->data, &o);
}

static void charts(const dti_page *p, const table *t, const table *eval, const double *even)
{
    const dti_chart_line loss[] = {{"a step", "one faint", t->n, t->v[STEP], t->v[LOSS], false},
        {"smoothed", "one", t->n, t->v[STEP], even, false},
        {"evaluation", "two", eval->n, eval->v[STEP], eval->v[LOSS], true}};
    const dti_chart_line top1[] = {{"", "two", eval->n, eval->v[STEP], eval->v[TOP1], false}};
    const dti_chart_line rate[] = {{"", "one", t->n, t->v[STEP], t->v[RATE], false}};
    const dti_chart_line lr[] = {{"", "one", t->n, t->v[STEP], t->v[LR], false}};
    const double first = t->v[STEP][0], last = t->v[STEP][t->n - 1];
    const dti_chart all[] = {
        {"loss", "loss", eval->n > 0 ? 3 : 2, loss, first, last, 240, false},
        {"top1", "top-1 of evaluations", 1, top1, first, last, 110, false},
        {"rate", "samples a second", 1, rate, first, last, 90, true},
        {"lr", "learning rate", 1, lr, first, last, 70, true},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (i != 1 || eval->n > 1)
            dti_page_chart(p, &all[i]);
}

static void tell_lost(const dti_page *p, const course *c)
{
    if (c->bad > 0)
        fprintf(p->f, "<p class=\"hint\">%zu lines of " DT_RUN_METRICS " could not be read.</p>\n",
            c->bad);
    if (c->why[0] == '\0')
        return;
    fputs("<p class=\"hint\">The course of the run could not be read: ", p->f);
    dti_xml_text(p->f, c->why);
    fputs("</p>\n", p->f);
}

static dt_status draw_course(dti_page *p, const course *c, int64_t began, dt_err *err)
{
    table few = {0};
    const bool thinned = thin(&few, &c->train);
    double *even = smooth(&few, began);
    const bool room = even != NULL && thinned;
    if (room && (few.n > 0 || c->why[0] != '\0')) {
        dti_page_section(p, "course", "What was learned");
        if (few.n > 0)
            charts(p, &few, &c->eval, even);
        tell_lost(p, c);
        dti_page_section_end(p);
    }
    if (room && few.n > 0)
        course_data(p, &few, even);
    table_free(&few);
    dt_free(even);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for the course of the run");
}

/* ---- the numbers at the top ---- */

static void learned(const dti_page *p, const dt_run *r)
{
    const dt_course *c = &r->course;
    char value[64], note[96];
    if (c->step == 0)
        return;
    snprintf(value, sizeof value, "%.4g", c->last_loss);
    snprintf(note, sizeof note, "%.4g in the first step", c->first_loss);
    dti_page_tile(p, "loss of the last step", value, note);
    if (c->eval_step == 0)
        return;
    snprintf(value, sizeof value, "%.1f %%", 100 * c->eval_top1);
    if (dt_human_tells_top5(r->s->graph->classes))
        snprintf(note, sizeof note, "loss %.4g, top-5 %.1f %%, after step %" PRId64, c->eval_loss,
            100 * c->eval_top5, c->eval_step);
    else
        snprintf(note, sizeof note, "loss %.4g, after step %" PRId64, c->eval_loss, c->eval_step);
    dti_page_tile(p,
        dt_graph_counted(r->s->graph) > 0 ? "pixels told right" : "top-1 of what was held out",
        value, note);
}

static void took(const dti_page *p, const dt_run *r)
{
    char value[64], note[96], human[DT_HUMAN_BYTES];
    const double rate = dt_rate_median(&r->rate);
    if (isfinite(rate)) {
        snprintf(value, sizeof value, "%s", dt_human_rate(human, rate));
        snprintf(note, sizeof note, "in the median step; %s in all",
            dt_human_time(human, r->course.seconds));
        dti_page_tile(p, "samples a second", value, note);
    }
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

static void begin(dti_page *p, const dt_run *r, dt_status st, const char *why, FILE *f)
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
    learned(p, r);
    took(p, r);
    memory(p, r);
    dti_page_tiles_end(p);
}

/* ---- the page ---- */

typedef struct report {
    dt_run *r;
    dt_status st;
    const char *why; /* of a run that failed */
    course c;
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
        .seconds = x->r->course.seconds};
    DT_CHECK(draw_course(p, &x->c, x->r->began_step, err));
    dti_page_samples(p, x->r, x->sample, x->n_sample);
    DT_CHECK(dti_page_policy(p, &plan, err));
    DT_CHECK(dti_page_map(p, &plan, err));
    return dti_page_machine(p, x->r->s, err);
}

static dt_status print(const void *arg, FILE *f, dt_err *err)
{
    const report *x = arg;
    dti_page p;
    begin(&p, x->r, x->st, x->why, f);
    const dt_status st = fill(&p, x, err);
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
    dt_status done = read_course(&x.c, dt_run_dir_path(r->dir), err);
    if (done == DT_OK && st == DT_OK)
        done = look(&x, err);
    if (done == DT_OK)
        read_trace(&x, trace, &time);
    if (done == DT_OK)
        done = dt_run_write(r, DT_RUN_REPORT, print, &x, err);
    table_free(&x.c.train);
    table_free(&x.c.eval);
    dt_free(x.sample);
    dt_timeline_deinit(&time);
    *written = done == DT_OK;
    return done;
}
