/* The plan as people read it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "session/human.h"
#include "engine/graph_freeze.h"
#include "memory/time/card_costs.h"
#include "session/parts.h"
#include "tools/args.h"
#include "tools/columns.h"
#include "tools/plan_report.h"
#include "tools/terminal.h"

enum { LARGEST = 8, ROWS_WIDTH = 49, NOTES = 32 }; /* what stands before a bar, and a free column */

/* ---- the curve of live bytes, as a picture of blocks ---- */

enum { ROWS = 8, LEFT = 14, MOST_COLUMNS = 96 };

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
static void heights(const dti_report *r, int columns, int *to)
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
static size_t turn(const dti_report *r)
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
static void print_below(const dti_report *r, int columns)
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

static int persistent_eighths(const dti_report *r)
{
    return eighths((double)r->top->plan->persistent, (double)r->need.device);
}

/* Whether a row of the curve is of persistent bytes alone. */
static bool curve_shows_base(const dti_report *r)
{
    return persistent_eighths(r) >= 8;
}

/* Live bytes over the ops of the plan with the highest peak. */
static void print_curve(const dti_report *r, int columns)
{
    const size_t n = r->usage.n_instant;
    int height[MOST_COLUMNS];
    char top[DT_HUMAN_BYTES];
    columns = columns > MOST_COLUMNS ? MOST_COLUMNS : columns;
    if (n == 0)
        return;
    if (n < (size_t)columns) /* few ops: all equally wide */
        columns = columns / (int)n * (int)n;
    heights(r, columns, height);
    const int base = persistent_eighths(r);
    for (int row = ROWS - 1; row >= 0; row--) {
        if (row == ROWS - 1 || row == 0)
            printf("%*s %s ", LEFT - 3, dt_human_bytes(top, row == 0 ? 0 : r->need.device),
                dti_term_unicode() ? "┤" : "|");
        else
            printf("%*s %s ", LEFT - 3, "", dti_term_unicode() ? "│" : "|");
        cells(height, columns, row, base);
    }
    print_below(r, columns);
}

/* ---- the table ---- */

/* A line that begins with what it is of. */
static void print_size(const char *label, uint64_t bytes)
{
    char size[DT_HUMAN_BYTES];
    printf("%-12s %16s", label, dt_human_bytes(size, bytes));
}

static void print_share(const dti_report *r, uint64_t bytes)
{
    printf(" %5.1f%%", r->need.device > 0 ? 100.0 * (double)bytes / (double)r->need.device : 0.0);
}

/* ---- the first line: what it takes, whether that is there, and what it costs ---- */

static const char *verdict(const dti_report *r)
{
    const dt_session *s = r->session;
    if (!r->fits)
        return "DOES NOT FIT the budget";
    if (s->card.bytes > 0 && r->need.device > s->card.bytes)
        return "DOES NOT FIT the card";
    if (!r->here.fits)
        return "DOES NOT FIT this machine";
    if (r->here.disk_error == ENOSPC)
        return "DOES NOT FIT the disk here";
    if (r->here.disk_error != 0)
        return "CANNOT START here without its disk folder";
    if (s->context.card != NULL)
        return "fits that card";
    if (s->opts.memory.device_budget > 0)
        return "fits the budget";
    return dt_session_no_card(s) != NULL ? "no card here to fit" : "fits here";
}

static void answer(const dti_report *r)
{
    enum { TEXT_BYTES = 768 };
    char text[TEXT_BYTES], size[DT_HUMAN_BYTES], above[DT_ABOVE_TEXT];
    const dt_score *c = &r->cost;
    size_t at = (size_t)snprintf(
        text, TEXT_BYTES, "%s on the device", dt_human_bytes(size, r->need.device));
    const struct {
        uint64_t bytes;
        const char *where;
    } away[] = {
        {r->need.tier[DT_TIER_HOST],
            dt_session_host_is_device(r->session) ? "host, which is the same memory here" : "host"},
        {r->need.tier[DT_TIER_DISK], "disk"}};
    for (size_t i = 0; i < DT_COUNT(away); i++)
        if (away[i].bytes > 0)
            at += (size_t)snprintf(text + at, TEXT_BYTES - at, ", %s on the %s",
                dt_human_bytes(size, away[i].bytes), away[i].where);
    if (r->saving.kept > r->need.device)
        at += (size_t)snprintf(
            text + at, TEXT_BYTES - at, " (keep_all: %s)", dt_human_bytes(size, r->saving.kept));
    at += (size_t)snprintf(text + at, TEXT_BYTES - at, ": %s;", verdict(r));
    if (dt_plan_set_above(above, r->session->plans)[0] != '\0')
        at += (size_t)snprintf(text + at, TEXT_BYTES - at, " it %s,", above);
    if (c->out > 0)
        at += (size_t)snprintf(
            text + at, TEXT_BYTES - at, " a step moves %s out,", dt_human_bytes(size, c->out));
    const double again = c->flops > 0 ? 100 * c->recompute_flops / c->flops : 0;
    if (c->recomputes > 0 && again < 0.1)
        at += (size_t)snprintf(text + at, TEXT_BYTES - at, " computes less than 0.1 %% again,");
    else if (c->recomputes > 0)
        at += (size_t)snprintf(text + at, TEXT_BYTES - at, " computes %.1f %% again,", again);
    if (c->out == 0 && c->recomputes == 0)
        at += (size_t)snprintf(text + at, TEXT_BYTES - at, " nothing is moved or computed again,");
    if (!dt_plan_set_exact(r->session->plans))
        at += (size_t)snprintf(text + at, TEXT_BYTES - at, " results change,");
    if (r->time.known)
        at += (size_t)snprintf(text + at, TEXT_BYTES - at, " a step takes %.4g s (%s),",
            r->time.seconds, r->session->costs.simulated ? "simulated" : "predicted");
    text[at - 1] = '\0';
    dti_term_wrap(stdout, 0, 0, text);
}

enum { WIDE = 80, LONG_LIST = 28 }; /* of policies, with which the line is wider than that */

static void header(const dti_report *r)
{
    const dt_session *s = r->session;
    const dt_train_opts *t = &s->opts.train;
    char input[DT_HUMAN_BYTES], count[DT_HUMAN_BYTES];
    printf("%s   %s, %s parameters", s->graph->name,
        dt_human_input(input, &s->graph->input, dt_graph_tokens(s->graph)),
        dt_human_count(count, (uint64_t)dt_graph_parameters(s->graph)));
    if (t->freeze != NULL)
        printf(", %s frozen", dt_human_count(count, (uint64_t)dt_graph_frozen(s->graph)));
    putchar('\n');
    printf("batch %" PRId64, t->batch);
    if (s->micro_batch != t->batch)
        printf(
            " as %" PRId64 " micro-batches of %" PRId64, t->batch / s->micro_batch, s->micro_batch);
    printf("   policy %s%s%s", dt_session_policy(s),
        dt_session_chosen_by(s) != NULL ? ", chosen by " : "",
        dt_session_chosen_by(s) != NULL ? dt_session_chosen_by(s) : "");
    if (s->plans->algorithms != DT_ALGORITHMS_FAST)
        printf("   algorithms %s", dt_algorithms_name((int)s->plans->algorithms));
    const bool is_long = s->micro_batch != t->batch || dt_session_chosen_by(s) != NULL ||
                         strlen(dt_session_policy(s)) > LONG_LIST || dti_term_width() < WIDE;
    printf("%spool %s   ", is_long ? "\n" : "   ", s->opts.memory.pool);
    dti_cli_print_device(s, true, true);
    for (size_t i = 0; i < s->plans->n_refused; i++) {
        const dt_refused_rung *no = &s->plans->refused[i];
        printf("not %s by %s algorithms: %s\n", no->policy, dt_algorithms_name((int)no->algorithms),
            no->why);
    }
}

static void tier(const char *name, uint64_t peak, uint64_t budget)
{
    char label[32], all[DT_HUMAN_BYTES], rest[DT_HUMAN_BYTES], text[128];
    const bool holds = peak <= budget;
    snprintf(label, sizeof label, "%s peak", name);
    print_size(label, peak);
    dt_human_bytes(all, budget);
    dt_human_bytes(rest, holds ? budget - peak : peak - budget);
    if (budget == 0)
        snprintf(text, sizeof text, "no budget given");
    else if (holds)
        snprintf(text, sizeof text, "fits the budget of %s, %s to spare", all, rest);
    else
        snprintf(text, sizeof text, "DOES NOT FIT the budget of %s: %s too much", all, rest);
    printf("   ");
    dti_term_wrap(stdout, NOTES, NOTES, text);
}

/* What would keep a run from starting here, budgets aside. */
static void here(const dti_report *r)
{
    enum { DISK_TEXT = 4608 };
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
    if (h->disk_error == 0)
        return;
    char text[DISK_TEXT], full[DT_HUMAN_BYTES + 16];
    const int at = printf("disk folder  ");
    snprintf(full, sizeof full, "%s are free", dt_human_bytes(size, h->disk_free));
    snprintf(text, sizeof text,
        "'%s': %s; a run here would be refused: %s --set memory.disk_path=FOLDER",
        dt_session_disk_path(s), h->disk_error == ENOSPC ? full : strerror(h->disk_error),
        h->disk_error == ENOENT ? "create it, or name another by" : "name another by");
    dti_term_wrap(stdout, at, at, text);
}

/* Tiers whose copies go by a default: a profile without memory.tier = disk has no disk. */
static void print_defaults(const dt_prediction *t)
{
    static const char *const name[DT_TIERS] = {"the input", "the host", "the disk"};
    for (int tier = 0; tier < DT_TIERS; tier++)
        if (t->by_default[tier])
            printf("%-12s is not in the profile: its copies go by the default, %.1f GB/s;\n"
                   "%*sto measure it: dnntrain profile%s\n",
                name[tier], dt_costs_default.link[tier][DT_FROM_TIER].rate / 1e9, 13, "",
                tier == DT_TIER_DISK ? " with memory.tier = disk" : "");
}

/* Planned for one card of the list, and its seconds are another's. */
static bool other_card(const dt_session *s)
{
    const char *simulated = s->opts.memory.simulate;
    return s->context.card != NULL && simulated != NULL && dt_card_speed_find(simulated) != NULL &&
           strcmp(s->opts.device.card, simulated) != 0;
}

/* Whose seconds they are; and where ops of a profile are others than these, how few were measured.
 */
static void print_costs(const dt_session *s, const dt_prediction *t)
{
    const dt_costs *c = &s->costs;
    const double known =
        t->share[DT_COST_MEASURED] + t->share[DT_COST_BETWEEN] + t->share[DT_COST_SCALED];
    char text[sizeof c->name + 128];
    if (c->simulated)
        snprintf(text, sizeof text, "%s, a card's constants%s%.32s", c->name,
            other_card(s) ? ", and not those of device.card = " : "",
            other_card(s) ? s->opts.device.card : "");
    else if (known >= 0.9)
        snprintf(text, sizeof text, "%s, as it was measured", c->name);
    else
        snprintf(text, sizeof text,
            "%s: %.0f %% of the ops' time measured, the rest by layers alike; to measure these: "
            "dnntrain profile",
            c->name, 100 * known);
    printf("%-13s", "by");
    dti_term_wrap(stdout, 13, 13, text);
    if (c->hash[0] == '\0')
        return;
    printf("profile      %.12s   the first digits of the file's SHA-256\n", c->hash);
    print_defaults(t);
}

static void print_seconds(const char *label, double seconds, const char *note)
{
    printf("%-12s %14.4g s   ", label, seconds);
    dti_term_wrap(stdout, NOTES, NOTES, note);
}

/* "simulated" of a machine that is not here, "predicted" of the one that was measured. */
static void predicted(const dti_report *r)
{
    const dt_prediction *t = &r->time;
    char rate[DT_HUMAN_BYTES], wait[DT_HUMAN_BYTES], text[128];
    if (!t->known)
        return;
    if (t->rate >= 10 && t->rate < 1000)
        snprintf(rate, sizeof rate, "%.1f", t->rate);
    else
        dt_human_rate(rate, t->rate);
    snprintf(text, sizeof text, "a step, %s samples a second; waiting %s", rate,
        dt_human_seconds(wait, t->stalled));
    print_seconds(r->session->costs.simulated ? "simulated" : "predicted", t->seconds, text);
    snprintf(text, sizeof text, "no exact plan%s takes less: %+.3g %%",
        r->need.device <= r->session->opts.memory.device_budget ? " in the budget" : "",
        r->least > 0 ? 100 * (t->seconds / r->least - 1) : 0.0);
    print_seconds("bound", r->least, text);
    print_size("on average", (uint64_t)(t->average + 0.5));
    printf("   in use, weighted by time\n");
    print_costs(r->session, t);
}

/* How much packed values take is known when they are packed; before that there is their room, and
 * what is expected of shares that were measured. */
static void moved(const dti_report *r)
{
    const dt_traffic *t = &r->traffic;
    print_size("moved out", r->cost.out);
    printf("   a step%s\n", t->room > 0 ? " at most: packed as large as their room" : "");
    if (t->room > t->unknown) {
        print_size("expected", t->out);
        printf("   of that, by the mean shares of memory.profile\n");
    }
    if (t->unknown > 0) {
        print_size("of them", t->unknown);
        printf("   is room for values whose zeros nobody has\n%*scounted (dnntrain profile)\n", 32,
            "");
    }
}

static void totals(const dti_report *r)
{
    const dt_memory_opts *m = &r->session->opts.memory;
    const dt_score *c = &r->cost;
    char exact_for[DT_PARTS_TEXT], amount[DT_HUMAN_BYTES];
    putchar('\n');
    tier("device", r->need.device, m->device_budget);
    print_size("lower bound", r->bound);
    printf(
        "   peak / bound %.4f\n", r->bound > 0 ? (double)r->need.device / (double)r->bound : 1.0);
    if (dt_session_no_card(r->session) != NULL)
        dti_term_wrap(stdout, 0, 0, dt_session_no_card(r->session));
    if (r->need.tier[DT_TIER_HOST] > 0 || m->host_budget > 0)
        tier("host", r->need.tier[DT_TIER_HOST], m->host_budget);
    if (r->host < r->need.tier[DT_TIER_HOST]) {
        print_size("of the host", r->host);
        printf("   is used but for steps that are run again\n");
    }
    if (r->need.tier[DT_TIER_DISK] > 0 || m->disk_budget > 0)
        tier("disk", r->need.tier[DT_TIER_DISK], m->disk_budget);
    here(r);
    if (r->saving.text[0] != '\0')
        dti_term_wrap(stdout, 0, 2, r->saving.text);
    if (c->out > 0)
        moved(r);
    if (c->recomputes > 0)
        printf("recompute    %12" PRId64 " op%s   %s a step\n", c->recomputes,
            c->recomputes == 1 ? " " : "s", dt_human_flops(amount, c->recompute_flops));
    predicted(r);
    if (!dt_plan_set_exact(r->session->plans))
        printf("results      change: values are packed with fewer bits\n");
    else if (dt_session_exact_for(exact_for, r->session)[0] != '\0')
        printf("results      exact %s\n", exact_for);
}

static void share(const dti_report *r, const char *name, uint64_t bytes)
{
    char size[DT_HUMAN_BYTES];
    printf("  %-20s %16s", name, dt_human_bytes(size, bytes));
    print_share(r, bytes);
    fputs("  ", stdout);
    dti_term_bar(stdout, (double)bytes, (double)r->need.device, dti_term_width() - ROWS_WIDTH);
    putchar('\n');
}

/* Roles, largest first; those without bytes are left out. */
static void breakdown(const dti_report *r)
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

static void largest(const dti_report *r)
{
    const dt_plan *p = r->top->plan;
    const size_t n = r->usage.n_live < LARGEST ? r->usage.n_live : LARGEST;
    char role[DT_HUMAN_BYTES], size[DT_HUMAN_BYTES];
    int widest = 0;
    for (size_t i = 0; i < n; i++) {
        const int len = (int)strlen(p->tensor[r->usage.live[i]].name);
        widest = len > widest ? len : widest;
    }
    const int most = dti_term_width() - 48;
    widest = widest < 20 ? 20 : widest;
    widest = widest > most ? most : widest;
    printf("\nlargest of %zu tensors alive there\n", r->usage.n_live);
    for (size_t i = 0; i < n; i++) {
        const dt_plan_tensor *t = &p->tensor[r->usage.live[i]];
        printf("  ");
        dti_column_end_of(t->name, widest);
        printf(" %16s", dt_human_bytes(size, t->bytes));
        print_share(r, t->bytes);
        printf("  %s\n", dt_human_role(role, (dt_role)t->role));
    }
}

enum { PROGRAM = 8, SAMPLES = 0, OPS, PEAK, BOUND, RATIO, IN, COLUMNS };

static void program(const dt_planned *x, const dti_table_column column[COLUMNS])
{
    const dt_plan *p = x->plan;
    char name[16], cell[COLUMNS][DT_HUMAN_BYTES] = {[SAMPLES] = "-"};
    snprintf(name, sizeof name, "%.8s%s", p->program, x->dense ? " *" : "");
    if (x->kind != DT_PROGRAM_UPDATE)
        snprintf(cell[SAMPLES], DT_HUMAN_BYTES, "%" PRId64, x->n);
    snprintf(cell[OPS], DT_HUMAN_BYTES, "%zu", p->n_op);
    dt_human_bytes(cell[PEAK], p->peak);
    dt_human_bytes(cell[BOUND], p->bound);
    snprintf(cell[RATIO], DT_HUMAN_BYTES, "%.4f",
        p->bound > 0 ? (double)p->peak / (double)p->bound : 1.0);
    dt_human_bytes(cell[IN], p->in_bytes);
    printf("%-*s", PROGRAM, name);
    for (int i = 0; i < COLUMNS; i++)
        dti_column(&column[i], cell[i]);
    putchar('\n');
}

static void programs(const dti_report *r)
{
    const dt_plan_set *all = r->session->plans;
    dti_table_column column[COLUMNS] = {[SAMPLES] = {"samples", 8, 0, NULL, false},
        [OPS] = {"ops", 7, 0, NULL, false},
        [PEAK] = {"peak", 12, 0, NULL, false},
        [BOUND] = {"bound", 12, 0, NULL, false},
        [RATIO] = {"ratio", 8, 2, NULL, false},
        [IN] = {"moved in", 12, 1, NULL, false}};
    dti_columns_fit(column, COLUMNS, PROGRAM);
    printf("\n%-*s", PROGRAM, "program");
    dti_columns_head(column, COLUMNS);
    for (size_t i = 0; i < all->n; i++)
        program(all->planned[i], column);
    dti_columns_left_out(column, COLUMNS, PROGRAM);
    if (r->again)
        printf("*: runs a step again whose packed values do not fit the room made by density\n");
}

void dti_report_table(const dti_report *r)
{
    char took[DT_HUMAN_BYTES];
    answer(r);
    putchar('\n');
    header(r);
    totals(r);
    breakdown(r);
    printf("\nlive bytes over the %zu ops and copies of '%s'", r->usage.n_instant,
        r->top->plan->program);
    if (curve_shows_base(r))
        printf("; %s persistent", dti_term_cell(8, true));
    printf("\n\n");
    print_curve(r, dti_term_width() - LEFT - 2);
    largest(r);
    programs(r);
    printf("\nplanned in %s\n", dt_human_seconds(took, r->seconds));
}
