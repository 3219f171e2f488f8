/* The sweep as a table for people and as comma-separated values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "session/budget.h"
#include "session/human.h"
#include "session/plan_set.h"
#include "tools/args.h"
#include "tools/columns.h"
#include "tools/json_out.h"
#include "tools/out_file.h"
#include "tools/sweep.h"
#include "tools/terminal.h"

enum { NAME_LEAST = 13, NAME_MOST = 14, REMARK_BYTES = 576 };

/* The largest batch under keep_all, which the others are compared with. */
static int64_t baseline(const dti_sweep *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->row[i].policy, "keep_all") == 0)
            return w->row[i].batch;
    return 0;
}

static int name_width(const dti_sweep *w)
{
    int widest = NAME_LEAST;
    for (size_t i = 0; i < w->n; i++) {
        const int len = (int)strlen(w->row[i].policy);
        widest = len > widest ? len : widest;
    }
    return widest < NAME_MOST ? widest : NAME_MOST;
}

static bool uses_disk(const dti_sweep *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->row[i].disk_peak > 0)
            return true;
    return false;
}

static void budget(const char *what, uint64_t bytes)
{
    char size[DT_HUMAN_EXACT];
    if (bytes > 0)
        printf("%s %s\n", what, dt_human_exact(size, bytes));
}

static void header(const dti_sweep *w)
{
    const dt_session *s = w->session;
    char input[DT_HUMAN_BYTES], count[DT_HUMAN_BYTES];
    printf("%s   %s, %s parameters\n", s->graph->name,
        dt_human_input(input, &s->graph->input, dt_graph_tokens(s->graph)),
        dt_human_count(count, (uint64_t)dt_graph_parameters(s->graph)));
    dti_cli_print_device(s, true, true);
    budget("largest batch in a device budget of", s->opts.memory.device_budget);
    budget("and a host budget of", s->opts.memory.host_budget);
    budget("and a disk budget of", s->opts.memory.disk_budget);
    putchar('\n');
}

enum { BATCH, PEAK, RATIO, HOST, DISK, OUT, AGAIN, RATE, COLUMNS };

static void columns(const dti_sweep *w, int width, dti_table_column to[COLUMNS])
{
    const bool rate = w->n > 0 && w->row[0].step > 0;
    const dti_table_column all[COLUMNS] = {[BATCH] = {"batch", 6, 0, NULL, false},
        [PEAK] = {"peak", 11, 0, NULL, false},
        [RATIO] = {"ratio", 5, 6, "to the batch of keep_all", false},
        [HOST] = {"host", 11, 2, NULL, false},
        [DISK] = {"disk", 11, uses_disk(w) ? 1 : -1, NULL, false},
        [OUT] = {"moved out", 11, 4, "in a step", false},
        [AGAIN] = {"again", 6, 5, "computed again, of forward and backward", false},
        [RATE] = {"samples/s", 9, rate ? 3 : -1, NULL, false}};
    memcpy(to, all, sizeof all);
    dti_columns_fit(to, COLUMNS, width);
}

static void numbers(const dti_sweep *w, const dt_sweep_row *r, int width, const dti_table_column *c)
{
    const int64_t base = baseline(w);
    const struct {
        int column;
        uint64_t bytes;
    } sizes[] = {
        {PEAK, r->peak}, {HOST, r->host_peak}, {DISK, r->disk_peak}, {OUT, r->traffic.out}};
    char cell[COLUMNS][DT_HUMAN_BYTES];
    snprintf(cell[BATCH], DT_HUMAN_BYTES, "%" PRId64 "%s%s%s", r->batch, r->exact ? "" : "~",
        r->capped ? "+" : "", r->beyond ? "!" : "");
    snprintf(cell[RATIO], DT_HUMAN_BYTES, "-");
    if (base > 0)
        snprintf(cell[RATIO], DT_HUMAN_BYTES, "%.2f", (double)r->batch / (double)base);
    snprintf(cell[AGAIN], DT_HUMAN_BYTES, "%.1f%%", 100 * r->recompute);
    dt_human_rate(cell[RATE], r->rate);
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        dti_column_bytes(cell[sizes[i].column], sizes[i].bytes);
    dti_column_name(r->policy, 0, width);
    for (int i = 0; i < COLUMNS; i++)
        dti_column(&c[i], cell[i]);
    putchar('\n');
}

static void bars(const dti_sweep *w, int width)
{
    int64_t most = 0;
    for (size_t i = 0; i < w->n; i++)
        most = w->row[i].batch > most ? w->row[i].batch : most;
    if (most > 0)
        putchar('\n');
    for (size_t i = 0; i < w->n && most > 0; i++) {
        dti_column_name(w->row[i].policy, 0, width);
        putchar(' ');
        dti_term_bar(stdout, (double)w->row[i].batch, (double)most, dti_term_width() - width - 9);
        printf(" %" PRId64 "\n", w->row[i].batch);
    }
}

static void beyond(const dti_sweep *w)
{
    uint64_t memory = UINT64_MAX;
    char size[DT_HUMAN_BYTES];
    for (size_t i = 0; i < w->n; i++)
        memory = w->row[i].beyond && w->row[i].memory < memory ? w->row[i].memory : memory;
    printf("!: %sa run takes more memory than this machine has, %s\n",
        w->session->context.card != NULL ? "beside that card " : "", dt_human_bytes(size, memory));
}

/* Its batch is one that keep_all has for nothing. */
static bool in_vain(const dti_sweep *w, const dt_sweep_row *r)
{
    return strcmp(r->policy, "keep_all") != 0 && r->batch > 0 && !r->capped &&
           r->batch <= baseline(w);
}

typedef enum standing { BEHIND, ALIKE, AHEAD } standing;

/* What two rows of one batch cost: their predicted steps where costs are known, else what they move
 * and compute again, neither of which makes up for the other. */
static standing by_cost(const dt_sweep_row *a, const dt_sweep_row *b)
{
    const bool known = a->step > 0 && b->step > 0;
    const bool no_more =
        known ? a->step <= b->step : a->out_bytes <= b->out_bytes && a->recompute <= b->recompute;
    const bool less =
        known ? a->step < b->step : a->out_bytes < b->out_bytes || a->recompute < b->recompute;
    if (!no_more || a->exact < b->exact)
        return BEHIND;
    return less || a->exact > b->exact ? AHEAD : ALIKE;
}

/* How one of a list's policies alone stands to the list: by its batch, and then by what it costs.
 * Where neither has any, what one sample takes would say nothing of either. */
static standing stand(const dt_sweep_row *part, const dt_sweep_row *list)
{
    if (part == list || !dt_policy_list_names(list->policy, part->policy) ||
        part->batch < list->batch || part->batch == 0)
        return BEHIND;
    return part->batch > list->batch ? AHEAD : by_cost(part, list);
}

/* Of a list: none of its policies knows what comes behind it. */
static const dt_sweep_row *best_alone(const dti_sweep *w, const dt_sweep_row *list)
{
    const dt_sweep_row *best = NULL;
    for (size_t i = 0; i < w->n; i++) {
        const dt_sweep_row *r = &w->row[i];
        if (stand(r, list) == BEHIND)
            continue;
        if (best == NULL || r->batch > best->batch ||
            (r->batch == best->batch && by_cost(r, best) == AHEAD))
            best = r;
    }
    return best;
}

static void tell_alone(const dt_sweep_row *best, const dt_sweep_row *list, char to[REMARK_BYTES])
{
    if (stand(best, list) == ALIKE)
        snprintf(to, REMARK_BYTES,
            "is no better here than %.40s alone, whose batch is %" PRId64 " at the same cost",
            best->policy, best->batch);
    else
        snprintf(to, REMARK_BYTES, "is worse here than %.40s alone, whose batch is %" PRId64 "%s",
            best->policy, best->batch,
            best->batch == list->batch ? " as well, and which costs less" : "");
}

/* Where a row is no better than what costs less: "saves nothing here: its batch is no larger than
 * keep_all's", "is worse here than vdnn_all alone, whose batch is 9", or no better where one alone
 * comes to the same; "" elsewhere. Returns @to. */
static const char *remark_on(const dti_sweep *w, const dt_sweep_row *r, char to[REMARK_BYTES])
{
    if (r->refused[0] != '\0') {
        snprintf(to, REMARK_BYTES, "is refused by a run: %s", r->refused);
        return to;
    }
    const dt_sweep_row *best = best_alone(w, r);
    to[0] = '\0';
    if (in_vain(w, r))
        snprintf(to, REMARK_BYTES, "saves nothing here: its batch is no larger than keep_all's%s%s",
            r->too_small[0] != '\0' ? "; " : "", r->too_small);
    else if (best != NULL)
        tell_alone(best, r, to);
    return to;
}

static bool is_swept(const dti_sweep *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->row[i].policy, name) == 0)
            return true;
    return false;
}

const char *dti_sweep_left_out(const dti_sweep *w, char to[DTI_SWEEP_LEFT_OUT])
{
    char found[DTI_SWEEP_LEFT_OUT / 2] = "";
    size_t n, at = 0;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n && w->lists.all; i++)
        if (all[i]->searches && !is_swept(w, all[i]->name) && at < sizeof found)
            at += (size_t)snprintf(
                found + at, sizeof found - at, "%s%s", at > 0 ? ", " : "", all[i]->name);
    to[0] = '\0';
    if (at > 0)
        snprintf(to, DTI_SWEEP_LEFT_OUT,
            "left out, as they search or write to a disk: %s; name them with --policies", found);
    return to;
}

/* Calibrated once, whatever batch a row has. */
static void tell_costs(const dt_session *s)
{
    const dt_costs *c = &s->costs;
    char text[sizeof c->name + 64];
    const int at = snprintf(
        text, sizeof text, "samples/s: %s, %s", c->simulated ? "simulated" : "predicted", c->name);
    if (s->opts.memory.calibrate > 0)
        snprintf(text + at, sizeof text - (size_t)at, ", calibrated at batch %" PRId64,
            s->opts.train.batch);
    dti_term_wrap(stdout, 0, 2, text);
}

/* What out and in are of values whose packed size is not known yet. */
static void tell_room(const dt_sweep_row *r, const dt_teller *to)
{
    const dt_traffic *t = &r->traffic;
    char text[REMARK_BYTES + 128] = "", out[DT_HUMAN_BYTES], room[DT_HUMAN_BYTES];
    if (t->room > t->unknown)
        snprintf(text, sizeof text,
            "%s packs what it moves: %s are expected to go out, by memory.profile, and %s have "
            "room",
            r->policy, dt_human_bytes(out, t->out), dt_human_bytes(room, r->out_bytes));
    else if (t->room > 0)
        snprintf(text, sizeof text,
            "%s packs what it moves: that is its room, as nobody has counted zeros (dnntrain "
            "profile)",
            r->policy);
    if (text[0] != '\0')
        to->tell(to->self, text);
}

void dti_sweep_notes(const dti_sweep *w, const dt_teller *to)
{
    char remark[REMARK_BYTES], text[REMARK_BYTES + 128];
    bool none = false;
    for (size_t i = 0; i < w->n; i++)
        none = none || (w->row[i].batch == 0 && w->row[i].refused[0] == '\0');
    if (none)
        to->tell(
            to->self, "batch 0: not even one sample trains; the rest of the line is of one sample");
    for (size_t i = 0; i < w->n; i++)
        if (remark_on(w, &w->row[i], remark)[0] != '\0') {
            snprintf(text, sizeof text, "%.100s %s", w->row[i].policy, remark);
            to->tell(to->self, text);
        }
    for (size_t i = 0; i < w->n; i++)
        tell_room(&w->row[i], to);
}

static void print_note(void *self, const char *text)
{
    (void)self;
    dti_term_wrap(stdout, 0, 2, text);
}

void dti_sweep_table(const dti_sweep *w)
{
    const int width = name_width(w);
    dti_table_column c[COLUMNS];
    bool capped = false, lossy = false, over = false;
    const char *host = NULL;
    char missing[DTI_SWEEP_LEFT_OUT];
    header(w);
    columns(w, width, c);
    printf("%-*s", width, "policy");
    dti_columns_head(c, COLUMNS);
    for (size_t i = 0; i < w->n; i++) {
        numbers(w, &w->row[i], width, c);
        capped = capped || w->row[i].capped;
        lossy = lossy || !w->row[i].exact;
        over = over || w->row[i].beyond;
        if (host == NULL)
            host = dt_session_host_note(w->session, w->row[i].host_peak);
    }
    bars(w, width);
    putchar('\n');
    dti_columns_legend(c, COLUMNS, "");
    dti_columns_left_out(c, COLUMNS, width);
    if (c[RATE].shown)
        tell_costs(w->session);
    if (host != NULL)
        dti_term_wrap(stdout, 0, 2, host);
    if (lossy)
        printf("~: results change: values are packed with fewer bits, or updates are delayed\n");
    dti_sweep_notes(w, &(dt_teller){NULL, print_note});
    if (over)
        beyond(w);
    if (capped)
        printf("+: larger batches were not tried\n");
    if (dti_sweep_left_out(w, missing)[0] != '\0')
        dti_term_wrap(stdout, 0, 2, missing);
}

dt_status dti_sweep_json(const dti_sweep *w, dt_err *err)
{
    dt_json list = dt_json_begin_list();
    char remark[REMARK_BYTES];
    for (size_t i = 0; i < w->n && list.ok; i++) {
        const dt_sweep_row *r = &w->row[i];
        dt_json o = dt_json_element(&list);
        dt_json_text(&o, "policy", r->policy);
        dt_json_flag(&o, "exact", r->exact);
        dt_json_whole(&o, "largest_batch", (uint64_t)r->batch);
        dt_json_flag(&o, "capped", r->capped);
        dt_json_whole(&o, "device_peak", r->peak);
        dt_json_whole(&o, "device_budget", w->session->opts.memory.device_budget);
        dt_json_whole(&o, "host_peak", r->host_peak);
        dt_json_whole(&o, "disk_peak", r->disk_peak);
        dt_json_whole(&o, "moved_out", r->out_bytes);
        dt_json_whole(&o, "moved_in", r->in_bytes);
        dt_json_whole(&o, "expected_out", r->traffic.out);
        dt_json_whole(&o, "expected_in", r->traffic.in);
        dt_json_real(&o, "recompute_share", r->recompute, 6);
        dt_json_flag(&o, "fits_this_machine", !r->beyond);
        if (r->refused[0] != '\0')
            dt_json_text(&o, "refused", r->refused);
        else if (remark_on(w, r, remark)[0] != '\0')
            dt_json_text(&o, "in_vain", remark);
        if (r->step > 0) {
            dt_json_seconds(&o, "step_seconds", r->step);
            dt_json_real(&o, "images_per_second", r->rate, 6);
        }
        dt_json_text(&o, "costs", dt_costs_word(&w->session->costs));
        dt_json_leave(&list, &o);
    }
    return dti_json_out(&list, err);
}

static dt_status csv_rows(const void *of, FILE *f, dt_err *err)
{
    const dti_sweep *w = of;
    (void)err;
    static const char *const checks[] = {
        [DT_SWEEP_UNCHECKED] = "", [DT_SWEEP_HOLDS] = "yes", [DT_SWEEP_BROKEN] = "no"};
    const int64_t base = baseline(w);
    fprintf(f,
        "policy,exact,largest_batch,capped,device_peak,device_budget,ratio_to_keep_all,"
        "host_peak,disk_peak,moved_out,moved_in,recompute_share,verified,device_peak_measured,"
        "fits_this_machine,step_seconds,images_per_second,expected_out,expected_in,refused,"
        "costs\n");
    for (size_t i = 0; i < w->n; i++) {
        const dt_sweep_row *r = &w->row[i];
        dti_csv_text(f, r->policy);
        fprintf(f, ",%s,%" PRId64 ",%s,%" PRIu64 ",%" PRIu64 ",", r->exact ? "yes" : "no", r->batch,
            r->capped ? "yes" : "no", r->peak, w->session->opts.memory.device_budget);
        if (base > 0)
            fprintf(f, "%.6f", (double)r->batch / (double)base);
        fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%s,", r->host_peak,
            r->disk_peak, r->out_bytes, r->in_bytes, r->recompute, checks[r->check]);
        if (r->measured > 0)
            fprintf(f, "%" PRIu64, r->measured);
        fprintf(f, ",%s,", r->beyond ? "no" : "yes");
        if (r->step > 0)
            fprintf(f, "%.9g,%.6f", r->step, r->rate);
        else
            fputc(',', f);
        fprintf(f, ",%" PRIu64 ",%" PRIu64 ",", r->traffic.out, r->traffic.in);
        dti_csv_text(f, r->refused);
        fprintf(f, ",%s\n", dt_costs_word(&w->session->costs));
    }
    return DT_OK;
}

dt_status dti_sweep_csv(const dti_sweep *w, const char *path, dt_err *err)
{
    return dti_write_file(path, csv_rows, w, err);
}
