/* What a user sees of a run: the block of facts, the line that is drawn again and again, what is
 * said between its steps, and the block of results. */
#include "tools/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "session/human.h"
#include "session/rate.h"
#include "session/run.h"
#include "tools/losses.h"
#include "tools/progress_line.h"

#define REDRAW_SECONDS 0.1
#define PLAIN_SECONDS 5.0
enum { PLAIN_FIRST = 3 };

/* Where text goes, and what can be shown there. */
typedef struct screen {
    FILE *f;
    dti_terminal t;
    bool lost; /* writing failed: nothing more is written */
} screen;

struct dti_progress {
    screen screen;
    FILE *results; /* stdout by another stream, whose failures are not the program's; NULL: as the
                      rest */
    double (*clock)(void);
    double began, drawn; /* times; drawn of the last line */
    bool on_line;        /* the cursor stands behind a redrawn line */
    const char *called;  /* what samples are */
    int64_t tokens, classes, epochs, done, steps, steps_per_epoch;
    uint64_t planned;
    char *run_dir;
    dti_line_widths widths;
    dti_smoothed smoothed;
    double loss; /* smoothed */
    double first_loss, last_loss;
    int64_t told, n; /* steps whose losses are known; those of this process */
    int64_t samples; /* of the whole run */
    double before;   /* seconds that the run took before it was gone on with */
    double eval_seconds;
    bool evaluated;
    dt_eval_report eval; /* the last */
    dti_loss_curve curve;
    struct {
        double seconds, wait, samples;
    } window[DTI_PROGRESS_WINDOW];
    dt_rate rate;
};

/* ---- text ---- */

enum { LABEL = 10, NARROWEST = 40, BAR = 48 };
enum { NOTE_BYTES = DT_RUN_LINE_BYTES + 16 }; /* what a run tells, behind its label */

/* What has no room ends in dots, behind a whole character of UTF-8. */
static void DT_PRINTF(3, 0) write_text(char *to, size_t room, const char *fmt, va_list ap)
{
    static const char dots[] = "...";
    const int n = vsnprintf(to, room, fmt, ap);
    if (n < 0 || (size_t)n < room)
        return;
    size_t end = room - sizeof dots;
    while (end > 0 && ((unsigned char)to[end] & 0xC0) == 0x80)
        end--;
    memcpy(to + end, dots, sizeof dots);
}

static void write_bytes(screen *s, const char *text, size_t n)
{
    if (s->lost || n == 0)
        return;
    s->lost = fwrite(text, 1, n, s->f) != n || fflush(s->f) != 0;
}

static void DT_PRINTF(2, 3) say(screen *s, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n > 0)
        write_bytes(s, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* From column @at on. On a terminal a line too long goes on below, behind the labels. */
static void in_words(screen *s, int at, const char *text)
{
    int width = s->t.tty ? dti_terminal_width(&s->t, s->f) : INT_MAX;
    width = width > NARROWEST ? width : NARROWEST;
    if (s->lost)
        return;
    dti_term_flow(s->f, width - 1, at, LABEL, text);
    s->lost = ferror(s->f) != 0 || fflush(s->f) != 0;
}

/* Behind a label. */
static void DT_PRINTF(2, 3) flow(screen *s, const char *fmt, ...)
{
    char text[NOTE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    write_text(text, sizeof text, fmt, ap);
    va_end(ap);
    in_words(s, LABEL, text);
}

static void label(screen *s, const char *name)
{
    say(s, "%s%-*s%s", s->t.colour ? "\033[1m" : "", LABEL, name, s->t.colour ? "\033[0m" : "");
}

/* ---- facts ---- */

static const char *const colours[] = {"34", "32", "33", "35", "90", "36", "31", "95", "94", "93"};
_Static_assert(DT_COUNT(colours) == DT_ROLE_COUNT, "a colour a role");

/* Roles by bytes, largest first; returns how many there are. */
static int sort_roles(const dti_progress_facts *f, int role[DT_ROLE_COUNT])
{
    int n = 0;
    for (int r = 0; r < DT_ROLE_COUNT; r++) {
        if (f->role_bytes[r] == 0)
            continue;
        int at = n++;
        for (; at > 0 && f->role_bytes[role[at - 1]] < f->role_bytes[r]; at--)
            role[at] = role[at - 1];
        role[at] = r;
    }
    return n;
}

/* The budget, or without one the peak; each part in the colour of its name below. */
static void roles_bar(screen *s, const dti_progress_facts *f, const int *role, int n)
{
    say(s, "%*s", LABEL, "");
    const double whole = (double)(f->budget > f->planned ? f->budget : f->planned);
    double end = 0;
    int drawn = 0;
    for (int i = 0; i < n; i++) {
        end += (double)f->role_bytes[role[i]];
        const int to = (int)(end / whole * BAR + 0.5);
        say(s, "\033[%sm", colours[role[i]]);
        for (; drawn < to && drawn < BAR; drawn++)
            say(s, "%s", s->t.utf8 ? "█" : "#");
    }
    say(s, "\033[0m");
    for (; drawn < BAR; drawn++)
        say(s, "%s", s->t.utf8 ? "░" : ".");
    say(s, "\n");
}

/* "activations 1.00 GiB, weights ..." broken at the width. */
static void roles_list(screen *s, const dti_progress_facts *f, const int *role, int n, int width)
{
    int column = LABEL;
    char item[96], bytes[DT_HUMAN_BYTES];
    say(s, "%*s", LABEL, "");
    for (int i = 0; i <= n; i++) {
        if (i == n && f->arena_other == 0)
            break;
        const bool last = i == n || (i + 1 == n && f->arena_other == 0);
        char name[DT_HUMAN_BYTES];
        const int len = snprintf(item, sizeof item, "%s %s%s",
            i < n ? dt_human_role(name, (dt_role)role[i]) : "unused",
            dt_human_bytes(bytes, i < n ? f->role_bytes[role[i]] : f->arena_other),
            last ? "" : ",");
        if (column > LABEL && column + 1 + len >= width) {
            say(s, "\n%*s", LABEL, "");
            column = LABEL;
        }
        const bool colour = s->t.colour && i < n;
        say(s, "%s%s%s%s%s%s", column > LABEL ? " " : "", colour ? "\033[" : "",
            colour ? colours[role[i]] : "", colour ? "m" : "", item, colour ? "\033[0m" : "");
        column += len + (column > LABEL);
    }
    say(s, "\n");
}

static void show_memory(screen *s, const dti_progress_facts *f)
{
    char device[DT_HUMAN_BYTES], budget[DT_HUMAN_BYTES + 16] = "";
    char host[DT_HUMAN_BYTES + 64] = "", disk[DT_HUMAN_BYTES + 16] = "", a[DT_HUMAN_BYTES];
    int role[DT_ROLE_COUNT];
    const int n = sort_roles(f, role);
    if (f->budget > 0)
        snprintf(budget, sizeof budget, ", budget %s", dt_human_bytes(a, f->budget));
    if (f->host_planned > 0)
        snprintf(host, sizeof host, ", on the host %s%s", dt_human_bytes(a, f->host_planned),
            f->host_is_device ? ", which is the same memory here" : "");
    if (f->disk_planned > 0)
        snprintf(disk, sizeof disk, ", on the disk %s", dt_human_bytes(a, f->disk_planned));
    label(s, "memory");
    flow(s, "%s planned%s%s%s%s", dt_human_bytes(device, f->planned), budget, host, disk,
        n > 0 ? "; at the peak:" : "");
    if (n == 0)
        return;
    const int width = dti_terminal_width(&s->t, s->f);
    if (s->t.colour && width >= LABEL + BAR)
        roles_bar(s, f, role, n);
    roles_list(s, f, role, n, width > NARROWEST ? width : NARROWEST);
}

static void show_network(screen *s, const dti_progress_facts *f)
{
    char n[DT_HUMAN_BYTES], input[DT_HUMAN_BYTES], frozen[DT_HUMAN_BYTES + 16], gives[64];
    label(s, "network");
    if (f->values > 0)
        snprintf(gives, sizeof gives, "gives %s value%s", dt_human_count(n, (uint64_t)f->values),
            f->values == 1 ? "" : "s");
    else
        snprintf(gives, sizeof gives, "%" PRId64 " classes%s", f->classes,
            f->pixels ? " of pixels" : "");
    snprintf(frozen, sizeof frozen, ", %s frozen", dt_human_count(n, (uint64_t)f->frozen));
    flow(s, "%s, %s parameters%s, %s, %s", f->model, dt_human_count(n, (uint64_t)f->parameters),
        f->frozen > 0 ? frozen : "", dt_human_input(input, &f->image, f->tokens), gives);
    label(s, "batch");
    say(s, "%" PRId64, f->batch);
    if (f->micro_batch > 0 && f->micro_batch < f->batch)
        say(s, " in micro-batches of %" PRId64, f->micro_batch);
    if (f->epochs > 0)
        say(s, ", %" PRId64 " epoch%s of %s step%s\n", f->epochs, f->epochs == 1 ? "" : "s",
            dt_human_count(n, (uint64_t)f->steps_per_epoch), f->steps_per_epoch == 1 ? "" : "s");
    else
        say(s, ", %s step%s\n", dt_human_count(n, (uint64_t)f->steps), f->steps == 1 ? "" : "s");
}

static void line_of(screen *s, const char *name, const char *text)
{
    if (text == NULL)
        return;
    label(s, name);
    flow(s, "%s", text);
}

static void show_policy(screen *s, const dti_progress_facts *f)
{
    const bool parts = f->exact && f->exact_for != NULL && f->exact_for[0] != '\0';
    label(s, "policy");
    flow(s, "%s%s%s (%s%s)", f->policy, f->chosen_by != NULL ? ", chosen by " : "",
        f->chosen_by != NULL ? f->chosen_by : "",
        !f->exact              ? "not exact: it changes results"
        : parts                ? "exact "
        : f->chosen_by != NULL ? "exact, for the algorithms chosen with it"
                               : "exact: results do not depend on it",
        parts ? f->exact_for : "");
}

static void show_facts(screen *s, const dti_progress_facts *f)
{
    show_network(s, f);
    show_policy(s, f);
    label(s, "device");
    say(s, "%s, %d thread%s", f->device, f->threads, f->threads == 1 ? "" : "s");
    say(s, "%s%s", f->isa != NULL ? ", " : "", f->isa != NULL ? f->isa : "");
    say(s, "%s%s\n", f->precision != NULL ? ", " : "", f->precision != NULL ? f->precision : "");
    show_memory(s, f);
    line_of(s, "data", f->data);
    line_of(
        s, "eval", f->eval != NULL ? f->eval : "none: no data for it (data.eval_path names some)");
    line_of(s, "run", f->run_dir);
    if (f->moved != NULL)
        say(s, "%*sthe run that was there is now %s\n", LABEL, "", f->moved);
    say(s, "\n");
}

/* ---- results ---- */

static void show_equality(const dti_progress *p, screen *s, uint64_t measured)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], size[DT_HUMAN_BYTES];
    label(s, "memory");
    if (measured == 0) {
        flow(s, "planned %s bytes, not measured", dt_human_count(a, p->planned));
        return;
    }
    dt_human_count(a, p->planned);
    dt_human_count(b, measured);
    if (measured == p->planned)
        flow(s, "planned %s bytes = measured %s bytes (%s)", a, b, dt_human_bytes(size, measured));
    else
        flow(s, "planned %s bytes but measured %s bytes: this should not be", a, b);
}

static void show_speed(const dti_progress *p, screen *s, double seconds)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], c[DT_HUMAN_BYTES], d[DT_HUMAN_BYTES];
    if (seconds < 60)
        snprintf(d, sizeof d, "%.1f s", seconds);
    else
        dt_human_time(d, seconds);
    const char *what = p->tokens > 0 ? "tokens" : p->called;
    const int64_t each = p->tokens > 0 ? p->tokens : 1, all = p->samples * each;
    label(s, "speed");
    flow(s, "%s %s a second in the median step, %s over all: %s %s in %s",
        dt_human_rate(a, dti_progress_rate(p) * (double)each), what,
        dt_human_rate(b, (double)all / seconds), dt_human_count(c, (uint64_t)all), what, d);
}

/* Percent say nothing of a run that diverged. */
static void show_change(screen *s, double first, double last)
{
    const double times = last / first;
    if (!(first > 0) || !isfinite(times))
        return;
    if (times > 10)
        say(s, " (more than %s-fold)", times > 1000 ? "1000" : times > 100 ? "100" : "10");
    else
        say(s, " (%+.1f %%)", 100 * (times - 1));
}

/* A loss that is no number is not hidden behind those before it. */
static bool tells_smoothed(const dti_progress *p)
{
    return isfinite(p->last_loss) && p->told > 1;
}

/* A single batch says little of what was learned. */
static void show_loss(const dti_progress *p, screen *s)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], curve[DTI_BINS * 4 + 1] = "";
    const bool smoothed = tells_smoothed(p);
    const double end = smoothed ? p->loss : p->last_loss;
    label(s, "loss");
    say(s, "%s at first, %s at the end%s", dt_human_number(a, p->first_loss),
        dt_human_number(b, end), smoothed ? ", smoothed" : "");
    show_change(s, p->first_loss, end);
    if (s->t.utf8) {
        const int width = dti_terminal_width(&s->t, s->f) - LABEL - 1;
        if (dti_loss_curve_draw(&p->curve, curve, sizeof curve, width) > 0)
            say(s, "\n%*s%s", LABEL, "", curve);
    }
    say(s, "\n");
}

static void show_head(const dti_progress *p, screen *s, dt_status status)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES];
    const int64_t made = p->done + p->n;
    const int64_t of = made > p->steps ? made : p->steps; /* a run gone on with may ask for fewer */
    say(s, "\n");
    label(s, dt_run_word(status));
    say(s, "after %s of %s step%s\n", dt_human_count(a, (uint64_t)made),
        dt_human_count(b, (uint64_t)of), of == 1 ? "" : "s");
}

/* What an evaluation tells beside the loss, each with @before before it. Returns @to. */
enum { JUDGED_BYTES = 160 };
static const char *judged(char to[JUDGED_BYTES], const dt_eval_report *r, int64_t classes,
    const char *before, int decimals)
{
    const struct {
        bool told;
        const char *name;
        double share;
        const char *of;
    } all[] = {{!r->values, "top-1", r->top1, ""},
        {!r->values && dt_human_tells_top5(classes), "top-5", r->top5, ""},
        {r->pixels, "mean IoU", r->mean_iou, " of pixels"},
        {r->probabilities, "accuracy", r->accuracy, ""}};
    size_t n = 0;
    to[0] = '\0';
    for (size_t i = 0; i < DT_COUNT(all) && n < JUDGED_BYTES; i++)
        if (all[i].told)
            n += (size_t)snprintf(to + n, JUDGED_BYTES - n, "%s%s%s %.*f %%", all[i].of, before,
                all[i].name, decimals, 100 * all[i].share);
    return to;
}

static void show_result(
    const dti_progress *p, screen *s, const dti_progress_result *r, double seconds)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], told[JUDGED_BYTES];
    show_head(p, s, r->status);
    show_equality(p, s, r->measured);
    if (r->process_peak > 0) {
        say(s, "%*s", LABEL, "");
        flow(s,
            r->card
                ? "the process %s of the host's at its peak; %s of the card's are in use outside "
                  "the plan: CUDA's, its libraries' and other programs'"
                : "the whole process %s at its peak, %s of it outside the plan",
            dt_human_bytes(a, r->process_peak), dt_human_bytes(b, r->outside));
    }
    if (p->n > 0) {
        show_speed(p, s, seconds);
        show_loss(p, s);
    }
    if (p->evaluated) {
        label(s, "eval");
        say(s, "loss %s%s\n", dt_human_number(a, p->eval.loss),
            judged(told, &p->eval, p->classes, ", ", 2));
    }
    if (r->best != NULL) {
        label(s, "best");
        flow(s, "%s", r->best);
    }
    if (p->run_dir != NULL) {
        label(s, "written");
        const char *dir = r->dir != NULL ? r->dir : p->run_dir;
        if (r->files != NULL && *r->files == '\0')
            flow(s, "nothing: %s is gone", dir);
        else
            flow(s, "%s%s%s", dir, r->files != NULL ? ": " : "", r->files != NULL ? r->files : "");
    }
    if (r->lost > 0)
        say(s, "%*s%s line%s of metrics %s lost: %.*s\n", LABEL, "", dt_human_count(a, r->lost),
            r->lost == 1 ? "" : "s", r->lost == 1 ? "is" : "are",
            r->why != NULL ? (int)strcspn(r->why, "\n") : 0, r->why != NULL ? r->why : "");
}

/* ---- a run ---- */

static FILE *stream_of(int fd)
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    FILE *f = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (f == NULL && copy >= 0)
        (void)close(copy);
    return f;
}

dt_status dti_progress_create(
    dti_progress **out, const dti_progress_facts *f, const dti_progress_view *view, dt_err *err)
{
    *out = NULL;
    dti_progress *p = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to show progress");
    const bool rates = dt_rate_init(&p->rate);
    p->run_dir = f->run_dir != NULL ? dt_strdup(f->run_dir) : NULL;
    if (!rates || (f->run_dir != NULL && p->run_dir == NULL)) {
        dti_progress_destroy(p);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to show progress");
    }
    p->screen.f = view != NULL ? view->out : stderr;
    p->results = view != NULL ? NULL : stream_of(STDOUT_FILENO);
    p->screen.t = view != NULL ? view->terminal : dti_terminal_of(stderr);
    p->clock = view != NULL && view->clock != NULL ? view->clock : dt_seconds;
    p->epochs = f->epochs > 1 ? f->epochs : 0;
    p->tokens = f->tokens;
    p->called = dt_human_samples(&f->image, f->tokens);
    p->classes = f->classes;
    p->done = f->done;
    p->samples = f->done_samples;
    p->before = f->done_seconds;
    p->first_loss = f->first_loss;
    p->steps = f->steps;
    p->steps_per_epoch = f->steps_per_epoch;
    p->planned = f->planned;
    show_facts(&p->screen, f);
    p->began = p->clock();
    p->drawn = -(double)INFINITY;
    *out = p;
    return DT_OK;
}

void dti_progress_destroy(dti_progress *p)
{
    if (p == NULL)
        return;
    if (p->on_line)
        write_bytes(&p->screen, "\n", 1);
    if (p->results != NULL)
        (void)fclose(p->results);
    dt_rate_deinit(&p->rate);
    dt_free(p->run_dir);
    dt_free(p);
}

/* ---- numbers ---- */

void dti_progress_past(dti_progress *p, double loss, double per_second)
{
    if (p->told++ == 0 && p->done == 0)
        p->first_loss = loss;
    dt_rate_add(&p->rate, per_second);
    p->last_loss = loss;
    p->loss = dti_smooth(&p->smoothed, loss);
    dti_loss_curve_add(&p->curve, loss);
}

static void count_step(dti_progress *p, const dt_step_report *r)
{
    const int64_t slot = p->n % DTI_PROGRESS_WINDOW;
    p->window[slot].seconds = r->step_seconds;
    p->window[slot].wait = r->wait_seconds;
    p->window[slot].samples = (double)r->samples;
    dti_progress_past(p, r->loss, (double)r->samples / r->step_seconds);
    p->n++;
    p->samples += r->samples;
}

/* Sums over the latest steps, again without the first. */
static void recent(const dti_progress *p, double *seconds, double *wait, double *samples, double *n)
{
    *seconds = *wait = *samples = *n = 0;
    const int64_t from = p->n > DTI_PROGRESS_WINDOW ? p->n - DTI_PROGRESS_WINDOW : p->n > 1 ? 1 : 0;
    for (int64_t i = from; i < p->n; i++) {
        *seconds += p->window[i % DTI_PROGRESS_WINDOW].seconds;
        *wait += p->window[i % DTI_PROGRESS_WINDOW].wait;
        *samples += p->window[i % DTI_PROGRESS_WINDOW].samples;
        *n += 1;
    }
}

double dti_progress_rate(const dti_progress *p)
{
    return dt_rate_median(&p->rate);
}

static dti_line line_now(const dti_progress *p, const dt_step_report *r)
{
    double seconds, wait, samples, n;
    recent(p, &seconds, &wait, &samples, &n);
    /* evaluation takes its share of what is left */
    const double each = seconds / n + p->eval_seconds / (double)p->n;
    dti_line l = {.at = r->step,
        .of = r->steps,
        .lr = r->lr,
        .rate = samples / seconds * (double)(p->tokens > 0 ? p->tokens : 1),
        .unit = p->tokens > 0                      ? "tok"
                : strcmp(p->called, "images") == 0 ? "img"
                                                   : "row",
        .wait = seconds > 0 ? wait / seconds : 0,
        .left = each * (double)(r->steps - r->step)};
    if (p->epochs > 0) {
        l.epoch = r->epoch + 1;
        l.epochs = p->epochs;
        l.at = r->step - r->epoch * p->steps_per_epoch;
        l.of = p->steps_per_epoch;
    }
    l.smoothed = p->screen.t.tty && tells_smoothed(p);
    l.loss = l.smoothed ? p->loss : r->loss;
    return l;
}

/* ---- drawing ---- */

void dti_progress_clear(dti_progress *p)
{
    if (p->on_line)
        write_bytes(&p->screen, "\r\033[K", 4);
    p->on_line = false;
    p->drawn = -(double)INFINITY;
}

static void redraw(dti_progress *p, const dti_line *l)
{
    char line[DTI_LINE], text[DTI_LINE + 8];
    dti_line_fit(&p->widths, l, dti_terminal_width(&p->screen.t, p->screen.f), line);
    const int n = snprintf(text, sizeof text, "\r%s\033[K", line);
    write_bytes(&p->screen, text, (size_t)n); /* one write, no flicker */
    p->on_line = true;
}

static void plain(dti_progress *p, const dti_line *l)
{
    char line[DTI_LINE];
    size_t n = dti_line_plain(l, line);
    n = n + 1 < sizeof line ? n : sizeof line - 2;
    line[n] = '\n';
    write_bytes(&p->screen, line, n + 1);
}

void dti_progress_step(dti_progress *p, const dt_step_report *r)
{
    count_step(p, r);
    const double now = p->clock(), since = now - p->drawn;
    const bool last = r->step == r->steps, tty = p->screen.t.tty;
    if (!last && (tty ? since < REDRAW_SECONDS : since < PLAIN_SECONDS && p->n > PLAIN_FIRST))
        return;
    const dti_line l = line_now(p, r);
    if (tty)
        redraw(p, &l);
    else
        plain(p, &l);
    p->drawn = now;
}

void dti_progress_note(dti_progress *p, const char *fmt, ...)
{
    char text[NOTE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    write_text(text, sizeof text, fmt, ap);
    va_end(ap);
    const double drawn = p->drawn;
    dti_progress_clear(p);
    in_words(&p->screen, 0, text);
    if (!p->screen.t.tty)
        p->drawn = drawn;
}

void dti_progress_eval(dti_progress *p, const dt_eval_report *r)
{
    char loss[DT_HUMAN_BYTES], where[48], told[JUDGED_BYTES];
    p->eval = *r;
    p->evaluated = true;
    p->eval_seconds += r->seconds;
    if (p->epochs > 0)
        snprintf(where, sizeof where, "epoch %" PRId64, r->epoch + 1);
    else
        snprintf(where, sizeof where, "step %" PRId64, r->step);
    dti_progress_note(p, "eval %s: loss %s%s  (%" PRId64 " %s, %.1f s)", where,
        dt_human_number(loss, r->loss), judged(told, r, p->classes, "  ", 1), r->samples, p->called,
        r->seconds);
}

void dti_progress_finish(dti_progress *p, const dti_progress_result *r)
{
    if (p->on_line)
        write_bytes(&p->screen, "\n", 1); /* the last line stays */
    p->on_line = false;
    if (p->results != NULL)
        p->screen = (screen){.f = p->results, .t = dti_terminal_of(p->results)};
    show_result(p, &p->screen, r, p->before + p->clock() - p->began);
}
