#include "tools/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "session/human.h"
#include "tools/progress_parts.h"

#define REDRAW_SECONDS 0.1
#define PLAIN_SECONDS 5.0
enum { PLAIN_FIRST = 3 };
#define SMOOTHING 0.9

dt_status dt_progress_create(
    dt_progress **out, const dt_progress_facts *f, const dt_progress_view *view, dt_err *err)
{
    *out = NULL;
    dt_progress *p = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to show progress");
    const bool rates = dt_rate_init(&p->rate);
    p->run_dir = f->run_dir != NULL ? dt_strdup(f->run_dir) : NULL;
    if (!rates || (f->run_dir != NULL && p->run_dir == NULL)) {
        dt_progress_destroy(p);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to show progress");
    }
    p->show.f = view != NULL ? view->out : stderr;
    p->show.t = view != NULL ? view->terminal : dt_terminal_of(stderr);
    p->clock = view != NULL && view->clock != NULL ? view->clock : dt_seconds;
    p->epochs = f->epochs > 1 ? f->epochs : 0;
    p->tokens = f->tokens;
    p->done = f->done;
    p->steps = f->steps;
    p->steps_per_epoch = f->steps_per_epoch;
    p->planned = f->planned;
    dti_show_facts(&p->show, f);
    p->began = p->clock();
    p->drawn = -(double)INFINITY;
    *out = p;
    return DT_OK;
}

void dt_progress_destroy(dt_progress *p)
{
    if (p == NULL)
        return;
    if (p->on_line)
        dti_show_bytes(&p->show, "\n", 1);
    dt_rate_deinit(&p->rate);
    dt_free(p->run_dir);
    dt_free(p);
}

/* ---- numbers ---- */

static void count_step(dt_progress *p, const dt_step_report *r)
{
    const int64_t slot = p->n % DTI_WINDOW;
    p->window[slot].seconds = r->step_seconds;
    p->window[slot].wait = r->wait_seconds;
    p->window[slot].samples = (double)r->samples;
    if (p->n == 0)
        p->first_loss = r->loss;
    dt_rate_add(&p->rate, r->samples, r->step_seconds);
    p->last_loss = r->loss;
    if (isfinite(r->loss)) {
        p->loss = SMOOTHING * p->loss + (1 - SMOOTHING) * r->loss;
        p->weight = SMOOTHING * p->weight + (1 - SMOOTHING);
    }
    dti_curve_add(&p->curve, r->loss);
    p->n++;
    p->samples += r->samples;
}

/* Sums over the latest steps, again without the first. */
static void recent(const dt_progress *p, double *seconds, double *wait, double *samples, double *n)
{
    *seconds = *wait = *samples = *n = 0;
    const int64_t from = p->n > DTI_WINDOW ? p->n - DTI_WINDOW : p->n > 1 ? 1 : 0;
    for (int64_t i = from; i < p->n; i++) {
        *seconds += p->window[i % DTI_WINDOW].seconds;
        *wait += p->window[i % DTI_WINDOW].wait;
        *samples += p->window[i % DTI_WINDOW].samples;
        *n += 1;
    }
}

double dt_progress_rate(const dt_progress *p)
{
    return dt_rate_median(&p->rate);
}

static dti_line line_now(const dt_progress *p, const dt_step_report *r)
{
    double seconds, wait, samples, n;
    recent(p, &seconds, &wait, &samples, &n);
    /* evaluation takes its share of what is left */
    const double each = seconds / n + p->eval_seconds / (double)p->n;
    dti_line l = {.at = r->step,
        .of = r->steps,
        .lr = r->lr,
        .rate = samples / seconds * (double)(p->tokens > 0 ? p->tokens : 1),
        .tokens = p->tokens > 0,
        .wait = seconds > 0 ? wait / seconds : 0,
        .left = each * (double)(r->steps - r->step)};
    if (p->epochs > 0) {
        l.epoch = r->epoch + 1;
        l.epochs = p->epochs;
        l.at = r->step - r->epoch * p->steps_per_epoch;
        l.of = p->steps_per_epoch;
    }
    l.smoothed = p->show.t.tty && isfinite(r->loss) && p->n > 1;
    l.loss = l.smoothed ? p->loss / p->weight : r->loss;
    return l;
}

/* ---- drawing ---- */

void dt_progress_clear(dt_progress *p)
{
    if (p->on_line)
        dti_show_bytes(&p->show, "\r\033[K", 4);
    p->on_line = false;
    p->drawn = -(double)INFINITY;
}

static void redraw(dt_progress *p, const dti_line *l)
{
    char line[DTI_LINE], text[DTI_LINE + 8];
    dti_line_fit(l, dt_terminal_width(&p->show.t, p->show.f), line);
    const int n = snprintf(text, sizeof text, "\r%s\033[K", line);
    dti_show_bytes(&p->show, text, (size_t)n); /* one write, no flicker */
    p->on_line = true;
}

static void plain(dt_progress *p, const dti_line *l)
{
    char line[DTI_LINE];
    size_t n = dti_line_plain(l, line);
    n = n + 1 < sizeof line ? n : sizeof line - 2;
    line[n] = '\n';
    dti_show_bytes(&p->show, line, n + 1);
}

void dt_progress_step(dt_progress *p, const dt_step_report *r)
{
    count_step(p, r);
    const double now = p->clock(), since = now - p->drawn;
    const bool last = r->step == r->steps, tty = p->show.t.tty;
    if (!last && (tty ? since < REDRAW_SECONDS : since < PLAIN_SECONDS && p->n > PLAIN_FIRST))
        return;
    const dti_line l = line_now(p, r);
    if (tty)
        redraw(p, &l);
    else
        plain(p, &l);
    p->drawn = now;
}

static void note(dt_progress *p, const char *text)
{
    const double drawn = p->drawn;
    dt_progress_clear(p);
    dti_show_bytes(&p->show, text, strlen(text));
    if (!p->show.t.tty)
        p->drawn = drawn;
}

void dt_progress_note(dt_progress *p, const char *fmt, ...)
{
    char text[DTI_LINE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text - 1, fmt, ap);
    va_end(ap);
    const size_t n = strlen(text);
    memcpy(text + n, "\n", 2);
    note(p, text);
}

void dt_progress_eval(dt_progress *p, const dt_eval_report *r)
{
    char loss[DT_HUMAN_BYTES], where[48], iou[64] = "";
    p->eval = *r;
    p->evaluated = true;
    p->eval_seconds += r->seconds;
    if (p->epochs > 0)
        snprintf(where, sizeof where, "epoch %" PRId64, r->epoch + 1);
    else
        snprintf(where, sizeof where, "step %" PRId64, r->step);
    if (r->pixels)
        snprintf(iou, sizeof iou, " of pixels  mean IoU %.1f %%", 100 * r->mean_iou);
    dt_progress_note(p,
        "eval %s: loss %s  top-1 %.1f %%  top-5 %.1f %%%s  (%" PRId64 " %s, %.1f s)", where,
        dt_human_number(loss, r->loss), 100 * r->top1, 100 * r->top5, iou, r->samples,
        p->tokens > 0 ? "sequences" : "images", r->seconds);
}

void dt_progress_finish(dt_progress *p, const dt_progress_result *r)
{
    if (p->on_line)
        dti_show_bytes(&p->show, "\n", 1); /* the last line stays */
    p->on_line = false;
    dti_show_result(p, &p->show, r, p->clock() - p->began);
}
