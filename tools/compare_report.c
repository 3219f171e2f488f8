/* What was compared, as a table for people, as JSON and as comma-separated values. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/columns.h"
#include "tools/compare.h"
#include "tools/json_out.h"
#include "tools/terminal.h"

enum { NAME_LEAST = 14, NAME_MOST = 14, MARKS = 2 };

/* ---- for people ---- */

static int fastest_first(const void *va, const void *vb)
{
    const dt_compare_row *a = *(const dt_compare_row *const *)va;
    const dt_compare_row *b = *(const dt_compare_row *const *)vb;
    if (a->time.seconds < b->time.seconds || a->time.seconds > b->time.seconds)
        return a->time.seconds < b->time.seconds ? -1 : 1;
    if (a->need.device != b->need.device)
        return a->need.device < b->need.device ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int name_width(const dt_compare *c)
{
    int widest = NAME_LEAST;
    for (size_t i = 0; i < c->lists.n; i++) {
        const int len = (int)strlen(c->lists.list[i]);
        widest = len > widest ? len : widest;
    }
    return widest < NAME_MOST ? widest : NAME_MOST;
}

static void header(const dt_compare *c)
{
    const dt_session *s = c->session;
    char input[DT_HUMAN_BYTES], count[DT_HUMAN_BYTES];
    printf("%s   %s, %s parameters   batch %" PRId64 "\n", s->graph->name,
        dt_human_input(input, &s->graph->input, dt_graph_tokens(s->graph)),
        dt_human_count(count, (uint64_t)dt_graph_parameters(s->graph)), s->opts.train.batch);
    dti_cli_print_device(s);
    if (c->row[c->kept].time.known)
        printf(
            "times are %s: %.60s\n", s->costs.simulated ? "simulated" : "predicted", s->costs.name);
    char text[512] = "budgets of the device:", size[DT_HUMAN_BYTES];
    size_t at = strlen(text);
    for (size_t b = 0; b < c->n_budget && at + DT_HUMAN_BYTES < sizeof text; b++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s %s", b > 0 ? "," : "",
            dt_human_bytes(size, c->budget[b]));
    dti_term_wrap(stdout, 0, 2, text);
    putchar('\n');
}

static bool was_run(const dt_compare *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->row[i].measured > 0)
            return true;
    return false;
}

enum { BUDGET, PEAK, SHARE, STEP, RATE, AGAIN, OUT, MEASURED, SPREAD, RATIO, COLUMNS };

static void columns(const dt_compare *c, int width, dt_column to[COLUMNS])
{
    const bool ran = was_run(c);
    const dt_column all[COLUMNS] = {[BUDGET] = {"planned by", 11, 1, true},
        [PEAK] = {"peak", 11, 0, true},
        [SHARE] = {"of all", 6, 8, true},
        [STEP] = {"step s", 9, 0, true},
        [RATE] = {"samples/s", 9, 5, true},
        [AGAIN] = {"again", 6, 7, true},
        [OUT] = {"moved out", 11, 6, true},
        [MEASURED] = {"measured", 9, ran ? 2 : -1, false},
        [SPREAD] = {"spread", 6, ran ? 3 : -1, false},
        [RATIO] = {"ratio", 6, ran ? 4 : -1, false}};
    memcpy(to, all, sizeof all);
    dti_columns_fit(to, COLUMNS, width);
}

/* How many of the budgets the row fits, and for which it was planned. */
static void line(const dt_compare *c, const dt_compare_row *r, int width, const dt_column *column)
{
    const double kept = (double)c->row[c->kept].need.device;
    const double again = r->score.flops > 0 ? 100 * r->score.recompute_flops / r->score.flops : 0;
    char cell[COLUMNS][DT_HUMAN_BYTES];
    snprintf(cell[BUDGET], DT_HUMAN_BYTES, "any");
    if (r->budget > 0)
        dt_human_bytes(cell[BUDGET], r->budget);
    dt_human_bytes(cell[PEAK], r->need.device);
    dti_column_bytes(cell[OUT], r->traffic.out);
    dt_human_rate(cell[RATE], r->time.rate);
    snprintf(cell[SHARE], DT_HUMAN_BYTES, "%.1f%%", 100 * (double)r->need.device / kept);
    snprintf(cell[STEP], DT_HUMAN_BYTES, "%.4g", r->time.seconds);
    snprintf(cell[AGAIN], DT_HUMAN_BYTES, "%.1f%%", again);
    for (int i = MEASURED; i <= RATIO; i++)
        snprintf(cell[i], DT_HUMAN_BYTES, "-");
    if (r->measured > 0) {
        snprintf(cell[MEASURED], DT_HUMAN_BYTES, "%.4g", r->measured);
        snprintf(cell[SPREAD], DT_HUMAN_BYTES, "%.1f%%", 100 * r->spread / r->measured);
        snprintf(cell[RATIO], DT_HUMAN_BYTES, "%.3f", r->time.seconds / r->measured);
    }
    printf("%s%s", r->best ? "*" : !r->exact ? "~" : " ", r->can ? " " : "!");
    dti_column_name(r->policy, width - MARKS);
    for (int i = 0; i < COLUMNS; i++)
        dti_column(&column[i], cell[i]);
    putchar('\n');
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        if (r->lives[t] > 0)
            printf("%*s%s live on the %s\n", MARKS + 1, "", dt_human_bytes(cell[PEAK], r->lives[t]),
                dt_tier_name(t));
}

/* What marks and titles mean, as far as they occur. */
static void legend(const dt_compare *c, const dt_column *column)
{
    bool lossy = false, never = false;
    for (size_t i = 0; i < c->n; i++) {
        lossy = lossy || !c->row[i].exact;
        never = never || !c->row[i].can;
    }
    putchar('\n');
    dti_term_wrap(stdout, 0, 2,
        "*: no exact plan takes less of both memory and time; planned by: the budget, where "
        "plans go "
        "by one; again: computed again, of forward and backward; moved out: in a step");
    if (lossy)
        printf("~: changes results\n");
    if (never)
        printf("!: cannot be run\n");
    if (column[RATIO].rank >= 0)
        printf("ratio: predicted / measured; spread: of the middle half of the steps\n");
    dti_columns_left_out(column, COLUMNS);
}

void dti_compare_table(const dt_compare *c)
{
    const int width = MARKS + name_width(c);
    dt_column column[COLUMNS];
    const dt_compare_row **all = dt_alloc(c->n + 1, sizeof *all);
    if (all == NULL)
        return;
    for (size_t i = 0; i < c->n; i++)
        all[i] = &c->row[i];
    qsort(all, c->n, sizeof(dt_compare_row *), fastest_first);
    header(c);
    columns(c, width, column);
    printf("%-*s", width, "  policy");
    dti_columns_head(column, COLUMNS);
    for (size_t i = 0; i < c->n; i++)
        if (!all[i]->again)
            line(c, all[i], width, column);
    legend(c, column);
    dt_free(all);
}

/* ---- for programs ---- */

static void element(dt_json *to, const dt_compare *c, size_t l, size_t b)
{
    const dt_compare_row *r = &c->row[c->of[l][b]];
    dt_json o = dti_json_element(to);
    dti_json_text(&o, "policy", r->policy);
    dti_json_whole(&o, "budget", c->budget[b]);
    dti_json_flag(&o, "fits", dti_compare_fits(r, c->budget[b]));
    dti_json_whole(&o, "device_peak", r->need.device);
    dti_json_whole(&o, "host_peak", r->need.host);
    dti_json_whole(&o, "disk_peak", r->need.disk);
    dti_json_real(&o, "step_seconds", r->time.seconds, 9);
    dti_json_real(&o, "images_per_second", r->time.rate, 6);
    dti_json_flag(&o, "exact", r->exact);
    dti_json_real(&o, "bound_seconds", dti_compare_least(c, r, b), 9);
    dti_json_real(&o, "compute_seconds", r->time.compute, 9);
    dti_json_real(&o, "stall_seconds", r->time.stalled, 9);
    dti_json_whole(&o, "moved_out", r->score.out);
    dti_json_whole(&o, "moved_in", r->score.in);
    dti_json_whole(&o, "expected_out", r->traffic.out);
    dti_json_whole(&o, "expected_in", r->traffic.in);
    dti_json_real(&o, "recompute_flops", r->score.recompute_flops, 0);
    dti_json_flag(&o, "best", r->best);
    dti_json_text(&o, "costs", dti_compare_costs(c));
    if (r->measured > 0) {
        dti_json_real(&o, "measured_seconds", r->measured, 9);
        dti_json_real(&o, "measured_spread", r->spread, 9);
    }
    dti_json_leave(to, &o);
}

dt_status dti_compare_json(const dt_compare *c, dt_err *err)
{
    dt_json list = dti_json_begin_list();
    for (size_t l = 0; l < c->lists.n; l++)
        for (size_t b = 0; b < c->n_budget && list.ok; b++)
            element(&list, c, l, b);
    return dti_json_end(&list, err);
}

dt_status dti_compare_csv(const void *compare, FILE *f, dt_err *err)
{
    const dt_compare *c = compare;
    (void)err;
    fprintf(f,
        "policy,budget,fits,device_peak,host_peak,disk_peak,step_seconds,images_per_second,exact,"
        "bound_seconds,moved_out,moved_in,recompute_flops,best,costs,measured_seconds,"
        "measured_spread,expected_out,expected_in\n");
    for (size_t l = 0; l < c->lists.n; l++)
        for (size_t b = 0; b < c->n_budget; b++) {
            const dt_compare_row *r = &c->row[c->of[l][b]];
            const char *quote = strchr(r->policy, ',') != NULL ? "\"" : "";
            fprintf(f, "%s%s%s,%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9f,%.6f,%s",
                quote, r->policy, quote, c->budget[b],
                dti_compare_fits(r, c->budget[b]) ? "yes" : "no", r->need.device, r->need.host,
                r->need.disk, r->time.seconds, r->time.rate, r->exact ? "yes" : "no");
            fprintf(f, ",%.9f,%" PRIu64 ",%" PRIu64 ",%.0f,%s,%s,", dti_compare_least(c, r, b),
                r->score.out, r->score.in, r->score.recompute_flops, r->best ? "yes" : "no",
                dti_compare_costs(c));
            if (r->measured > 0)
                fprintf(f, "%.9f,%.9f", r->measured, r->spread);
            else
                fputc(',', f);
            fprintf(f, ",%" PRIu64 ",%" PRIu64 "\n", r->traffic.out, r->traffic.in);
        }
    return DT_OK;
}
