/* The plan as people read it. */
#include <inttypes.h>
#include <string.h>

#include "session/human.h"
#include "tools/args.h"
#include "tools/plan_report.h"
#include "tools/terminal.h"

enum { LARGEST = 8, ROWS_WIDTH = 49 }; /* what stands before a bar, and a free column */
static const double mib = 1 << 20;

/* ---- the curve of live bytes, as a picture of blocks ---- */

enum { ROWS = 8, LEFT = 12, MOST_COLUMNS = 96 };

/* The instants a column shows: from its share of them, at least one. */
static void span(const dt_usage *u, int column, int columns, size_t *from, size_t *to)
{
    *from = u->n_instant * (size_t)column / (size_t)columns;
    *to = u->n_instant * ((size_t)column + 1) / (size_t)columns;
    if (*to == *from)
        *to = *from + 1;
}

static int eighths(double bytes, double peak)
{
    const double x = peak > 0 ? bytes / peak * ROWS * 8 + 0.5 : 0;
    return x > ROWS * 8 ? ROWS * 8 : (int)x;
}

/* How high each column is, in eighths of a row: the most that is alive in it, so that no peak is
 * lost between two. */
static void heights(const dt_report *r, int columns, int *to)
{
    for (int x = 0; x < columns; x++) {
        size_t from, end;
        uint64_t most = 0;
        span(&r->usage, x, columns, &from, &end);
        for (size_t i = from; i < end; i++)
            most = r->usage.instant[i].bytes > most ? r->usage.instant[i].bytes : most;
        to[x] = eighths((double)most, (double)r->need.device);
    }
}

/* One row of cells, without blanks at its end. */
static void cells(const int *height, int columns, int row, int base)
{
    int end = 0;
    for (int x = 0; x < columns; x++)
        end = height[x] > row * 8 ? x + 1 : end;
    for (int x = 0; x < end; x++) {
        const int fill = height[x] - row * 8;
        fputs(dti_term_cell(fill < 0 ? 0 : fill > 8 ? 8 : fill, row * 8 + 8 <= base), stdout);
    }
    putchar('\n');
}

/* The instant of the first backward op; n_instant without one. */
static size_t turn(const dt_report *r)
{
    const dt_plan *p = r->top->plan;
    size_t i = 0;
    for (; i < r->usage.n_instant; i++) {
        const dt_row *row = &p->row[r->usage.instant[i].row];
        if (row->kind == DT_ROW_COMPUTE && p->op[row->op].kind == DT_OP_BACKWARD)
            break;
    }
    return i;
}

static void put_at(char *line, int columns, int at, const char *text)
{
    const int n = (int)strlen(text);
    at = at > columns - n ? columns - n : at;
    if (at >= 0)
        memcpy(line + at, text, (size_t)n);
}

static void print_marks(const char *line, int columns)
{
    while (columns > 0 && line[columns - 1] == ' ')
        columns--;
    printf("%*s%.*s\n", LEFT, "", columns, line);
}

/* Below the curve: where backward begins, and where the peak is. */
static void print_below(const dt_report *r, int columns)
{
    char line[MOST_COLUMNS];
    const dt_usage *u = &r->usage;
    const size_t n = u->n_instant, back = turn(r);
    const int peak = (int)(u->peak * (size_t)columns / n);
    memset(line, ' ', sizeof line);
    put_at(line, columns, 0, r->top->kind == DT_PROGRAM_UPDATE ? "update" : "forward");
    if (back < n)
        put_at(line, columns, (int)(back * (size_t)columns / n), "| backward");
    print_marks(line, columns);
    memset(line, ' ', sizeof line);
    if (peak <= columns - 6)
        put_at(line, columns, peak, "^ peak");
    else
        put_at(line, columns, peak - 5, "peak ^");
    print_marks(line, columns);
}

static int persistent_eighths(const dt_report *r)
{
    return eighths((double)r->top->plan->persistent, (double)r->need.device);
}

/* Whether a row of the curve is of persistent bytes alone. */
static bool curve_shows_base(const dt_report *r)
{
    return persistent_eighths(r) >= 8;
}

/* Live bytes over the ops of the plan with the highest peak. */
static void print_curve(const dt_report *r, int columns)
{
    const size_t n = r->usage.n_instant;
    int height[MOST_COLUMNS];
    columns = columns > MOST_COLUMNS ? MOST_COLUMNS : columns;
    if (n == 0)
        return;
    if (n < (size_t)columns) /* few ops: all equally wide */
        columns = columns / (int)n * (int)n;
    heights(r, columns, height);
    const int base = persistent_eighths(r);
    for (int row = ROWS - 1; row >= 0; row--) {
        if (row == ROWS - 1 || row == 0)
            printf("%9.1f %s ", row == 0 ? 0.0 : (double)r->need.device / mib,
                dti_term_unicode() ? "┤" : "|");
        else
            printf("%9s %s ", "", dti_term_unicode() ? "│" : "|");
        cells(height, columns, row, base);
    }
    print_below(r, columns);
}

/* ---- the table ---- */

/* Bytes as "12.34 MiB", 16 columns wide; what would round to nothing says so. */
static void print_mib(uint64_t bytes)
{
    if (bytes > 0 && (double)bytes < 0.01 * mib)
        printf("%12s MiB", "< 0.01");
    else
        printf("%12.2f MiB", (double)bytes / mib);
}

static void print_share(const dt_report *r, uint64_t bytes)
{
    printf(" %5.1f%%", r->need.device > 0 ? 100.0 * (double)bytes / (double)r->need.device : 0.0);
}

static void header(const dt_report *r)
{
    const dt_session *s = r->session;
    const dt_train_opts *t = &s->opts.train;
    char input[DT_HUMAN_BYTES], count[DT_HUMAN_BYTES];
    printf("%s   %s, %s parameters\n", s->graph->name,
        dt_human_input(input, &s->graph->input, dt_graph_tokens(s->graph)),
        dt_human_count(count, (uint64_t)dt_graph_parameters(s->graph)));
    printf("batch %" PRId64, t->batch);
    if (t->micro_batch != t->batch)
        printf(
            " as %" PRId64 " micro-batches of %" PRId64, t->batch / t->micro_batch, t->micro_batch);
    printf("   policy %s%s%s", dt_session_policy(s),
        dt_session_chosen_by(s) != NULL ? ", chosen by " : "",
        dt_session_chosen_by(s) != NULL ? dt_session_chosen_by(s) : "");
    if (s->plans->algorithms != DT_ALGORITHMS_FAST)
        printf("   algorithms %s", dt_algorithms_name((int)s->plans->algorithms));
    printf("   pool %s   ", s->opts.memory.pool);
    dti_cli_print_device(s);
    for (size_t i = 0; i < s->plans->n_refused; i++) {
        const dt_refused_rung *no = &s->plans->refused[i];
        printf("not %s by %s algorithms: %s\n", no->policy, dt_algorithms_name((int)no->algorithms),
            no->why);
    }
}

/* "12.34 MiB"; what would not show in that in bytes. */
static const char *in_mib(char to[DT_HUMAN_BYTES], uint64_t bytes)
{
    if (bytes > 0 && (double)bytes < 0.1 * mib)
        snprintf(to, DT_HUMAN_BYTES, "%" PRIu64 " bytes", bytes);
    else
        snprintf(to, DT_HUMAN_BYTES, "%.2f MiB", (double)bytes / mib);
    return to;
}

static void tier(const char *name, uint64_t peak, uint64_t budget)
{
    char label[32], all[DT_HUMAN_BYTES], rest[DT_HUMAN_BYTES];
    snprintf(label, sizeof label, "%s peak", name);
    printf("%-12s %12.2f MiB", label, (double)peak / mib);
    if (budget == 0)
        printf("   no budget given");
    else if (peak <= budget)
        printf("   fits the budget of %s, %s to spare", in_mib(all, budget),
            in_mib(rest, budget - peak));
    else
        printf("   DOES NOT FIT the budget of %s: %s too much", in_mib(all, budget),
            in_mib(rest, peak - budget));
    putchar('\n');
}

/* Without a card nobody knows what its libraries would take. */
static void no_card(const dt_session *s)
{
    if (s->context.device == DT_CUDA && s->context.card == NULL &&
        !dt_device_answers(DT_CUDA, NULL))
        printf("no card answers here, so the scratch of convolutions and products is not in it; "
               "device.card\nnames one to plan for (dnntrain list cards)\n");
}

/* What would keep a run from starting here, budgets aside. */
static void here(const dt_report *r)
{
    const dt_here *h = &r->here;
    const dt_session *s = r->session;
    char size[DT_HUMAN_BYTES], need[DT_HUMAN_BYTES];
    if (s->card.bytes > 0 && r->need.device > s->card.bytes)
        printf("the card     has less: %s\n", dt_human_bytes(size, s->card.bytes));
    if (h->need > h->memory)
        printf("this machine has less: %s of memory, and a run takes %s of it%s\n",
            dt_human_bytes(size, h->memory), dt_human_bytes(need, h->need),
            s->context.card != NULL ? " beside that card" : "");
    else if (!h->fits && (s->card.bytes == 0 || r->need.device <= s->card.bytes))
        printf("this machine has too little left: a run takes %s of memory, of %s\n",
            dt_human_bytes(need, h->need), dt_human_bytes(size, h->memory));
    if (h->disk_error != 0)
        printf("disk folder  '%s': %s; a run here would be refused\n", dt_session_disk_path(s),
            strerror(h->disk_error));
}

/* "simulated" of a machine that is not here, "predicted" of the one that was measured. */
static void predicted(const dt_report *r)
{
    const dt_prediction *t = &r->time;
    if (!t->known)
        return;
    printf("%-12s %12.4f s     a step, %.1f samples a second; %.4f s of it waiting for copies\n",
        r->session->costs.simulated ? "simulated" : "predicted", t->seconds, t->rate, t->stalled);
    printf("bound        %12.4f s     no plan%s takes less; this one is %.2f %% above\n", r->least,
        r->need.device <= r->session->opts.memory.device_budget ? " within memory.device_budget"
                                                                : "",
        r->least > 0 ? 100 * (t->seconds / r->least - 1) : 0.0);
    printf("on average   %12.2f MiB   in use, weighted by time\n", t->average / mib);
    printf("by           %.60s%s\n", r->session->costs.name,
        r->session->costs.simulated ? ", a card's constants" : ", as it was measured");
}

/* How much packed values take is known when they are packed; before that there is their room, and
 * what is expected of shares that were measured. */
static void moved(const dt_report *r)
{
    const dt_traffic *t = &r->traffic;
    printf("moved out    %12.2f MiB   a step%s\n", (double)r->cost.out / mib,
        t->room > 0 ? " at most: packed values as large as their room" : "");
    if (t->room > t->unknown)
        printf("expected     %12.2f MiB   of that, by the mean shares of memory.profile\n",
            (double)t->out / mib);
    if (t->unknown > 0)
        printf("of them      %12.2f MiB   is room for values whose zeros nobody has counted "
               "(dnntrain profile)\n",
            (double)t->unknown / mib);
}

static void totals(const dt_report *r)
{
    const dt_memory_opts *m = &r->session->opts.memory;
    const dt_score *c = &r->cost;
    putchar('\n');
    tier("device", r->need.device, m->device_budget);
    printf("lower bound  %12.2f MiB   peak / bound %.4f\n", (double)r->bound / mib,
        r->bound > 0 ? (double)r->need.device / (double)r->bound : 1.0);
    no_card(r->session);
    if (r->need.host > 0 || m->host_budget > 0)
        tier("host", r->need.host, m->host_budget);
    if (r->host < r->need.host)
        printf("of the host  %12.2f MiB   is used but for steps that are run again\n",
            (double)r->host / mib);
    if (r->need.disk > 0 || m->disk_budget > 0)
        tier("disk", r->need.disk, m->disk_budget);
    here(r);
    if (r->saving.text[0] != '\0')
        printf("%s %s\n", dt_session_policy(r->session), r->saving.text);
    if (c->out > 0)
        moved(r);
    if (c->recomputes > 0)
        printf("recompute    %12" PRId64 " ops   %.3f GFLOP a step\n", c->recomputes,
            c->recompute_flops / 1e9);
    predicted(r);
    if (!dt_plan_set_exact(r->session->plans))
        printf("results      change: values are packed with fewer bits\n");
}

static void share(const dt_report *r, const char *name, uint64_t bytes)
{
    printf("  %-20s ", name);
    print_mib(bytes);
    print_share(r, bytes);
    fputs("  ", stdout);
    dti_term_bar(stdout, (double)bytes, (double)r->need.device, dti_term_width() - ROWS_WIDTH);
    putchar('\n');
}

/* Roles, largest first; those without bytes are left out. */
static void breakdown(const dt_report *r)
{
    bool done[DT_ROLE_COUNT] = {false};
    char role[DT_HUMAN_BYTES];
    printf("\nat the peak: %s (program '%s')\n", dti_report_peak_layer(r), r->top->plan->program);
    for (;;) {
        int most = -1;
        for (int i = 0; i < DT_ROLE_COUNT; i++)
            if (!done[i] && r->usage.bytes[i] > 0 &&
                (most < 0 || r->usage.bytes[i] > r->usage.bytes[most]))
                most = i;
        if (most < 0)
            break;
        done[most] = true;
        share(r, dt_human_role(role, (dt_role)most), r->usage.bytes[most]);
    }
    if (r->usage.unused > 0)
        share(r, "unused", r->usage.unused);
}

static void largest(const dt_report *r)
{
    const dt_plan *p = r->top->plan;
    const size_t n = r->usage.n_live < LARGEST ? r->usage.n_live : LARGEST;
    char role[DT_HUMAN_BYTES];
    int widest = 0;
    for (size_t i = 0; i < n; i++) {
        const int len = (int)strlen(p->tensor[r->usage.live[i]].name);
        widest = len > widest ? len : widest;
    }
    widest = widest > 44 ? 44 : widest < 20 ? 20 : widest;
    printf("\nlargest of %zu tensors alive there\n", r->usage.n_live);
    for (size_t i = 0; i < n; i++) {
        const dt_plan_tensor *t = &p->tensor[r->usage.live[i]];
        printf("  %-*.*s ", widest, widest, t->name);
        print_mib(t->bytes);
        print_share(r, t->bytes);
        printf("  %s\n", dt_human_role(role, (dt_role)t->role));
    }
}

static void programs(const dt_report *r)
{
    const dt_session *s = r->session;
    printf("\n%-8s %8s %7s %14s %14s %8s %10s\n", "program", "samples", "ops", "peak MiB",
        "bound MiB", "ratio", "in MiB");
    for (size_t i = 0; i < s->plans->n; i++) {
        const dt_plan *p = s->plans->planned[i]->plan;
        char name[16];
        snprintf(name, sizeof name, "%.8s%s", p->program, s->plans->planned[i]->dense ? " *" : "");
        printf("%-8s ", name);
        if (s->plans->planned[i]->kind == DT_PROGRAM_UPDATE)
            printf("%8s ", "-");
        else
            printf("%8" PRId64 " ", s->plans->planned[i]->n);
        printf("%7zu %14.2f %14.2f %8.4f %10.2f\n", p->n_op, (double)p->peak / mib,
            (double)p->bound / mib, p->bound > 0 ? (double)p->peak / (double)p->bound : 1.0,
            (double)p->in_bytes / mib);
    }
    if (r->again)
        printf("*: runs a step again whose packed values do not fit the room that is made by "
               "density\n");
}

void dti_report_table(const dt_report *r)
{
    header(r);
    totals(r);
    breakdown(r);
    printf("\nlive MiB over the %zu ops and copies of '%s'", r->usage.n_instant,
        r->top->plan->program);
    if (curve_shows_base(r))
        printf("; %s persistent", dti_term_cell(8, true));
    printf("\n\n");
    print_curve(r, dti_term_width() - 14);
    largest(r);
    programs(r);
    printf("\nplanned in %.1f ms cold, asking the library; %.1f ms warm, placing\n", 1e3 * r->cold,
        1e3 * r->warm);
}
