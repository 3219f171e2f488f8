/* What was compared, as a table for people, as JSON and as comma-separated values. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/compare.h"
#include "tools/json_out.h"

enum { NAME_LEAST = 14, NAME_MOST = 30 };
static const double mib = 1 << 20;

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
    printf("budgets of the device, MiB:");
    for (size_t b = 0; b < c->n_budget; b++)
        printf(" %.1f", (double)c->budget[b] / mib);
    printf("\n\n");
}

/* How many of the budgets the row fits, and for which it was planned. */
static void line(const dt_compare *c, const dt_compare_row *r, int width, bool ran)
{
    const dt_compare_row *kept = &c->row[c->kept];
    char budget[32] = "any";
    const double again = r->score.flops > 0 ? 100 * r->score.recompute_flops / r->score.flops : 0;
    if (r->budget > 0)
        snprintf(budget, sizeof budget, "%.1f", (double)r->budget / mib);
    printf("%s %-*.*s %10s %10.2f %5.1f%% %11.6f %9.1f %6.1f%% %9.1f", r->best ? "*" : " ", width,
        width, r->policy, budget, (double)r->need.device / mib,
        100 * (double)r->need.device / (double)kept->need.device, r->time.seconds, r->time.rate,
        again, (double)r->traffic.out / mib);
    if (ran && r->measured > 0)
        printf(" %11.6f %5.1f%% %6.3f", r->measured, 100 * r->spread / r->measured,
            r->time.seconds / r->measured);
    else if (ran)
        printf(" %11s %6s %6s", "-", "-", "-");
    printf("%s%s", r->exact ? "" : "  changes results", r->can ? "" : "  cannot be run");
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        if (r->lives[t] > 0)
            printf("  %.2f MiB live on the %s", (double)r->lives[t] / mib, dt_tier_name(t));
    printf("\n");
}

static bool was_run(const dt_compare *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->row[i].measured > 0)
            return true;
    return false;
}

void dti_compare_table(const dt_compare *c)
{
    const int width = name_width(c);
    const bool ran = was_run(c);
    const dt_compare_row **all = dt_alloc(c->n + 1, sizeof *all);
    if (all == NULL)
        return;
    for (size_t i = 0; i < c->n; i++)
        all[i] = &c->row[i];
    qsort(all, c->n, sizeof(dt_compare_row *), fastest_first);
    header(c);
    printf("  %-*s %10s %10s %6s %11s %9s %7s %9s", width, "policy", "planned by", "peak MiB", "",
        "step s", "samples/s", "again", "out MiB");
    printf("%s\n", ran ? "  measured s spread  ratio" : "");
    for (size_t i = 0; i < c->n; i++)
        if (!all[i]->again)
            line(c, all[i], width, ran);
    printf("\n*: no exact plan takes less of both memory and time; again: computed again, of "
           "forward and\nbackward; out: moved in a step; planned by: the budget, where plans go by "
           "one\n");
    if (ran)
        printf("ratio: predicted / measured; spread: of the middle half of the steps\n");
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
