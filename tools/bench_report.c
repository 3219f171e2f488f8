/* What bench found, for people and as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "session/plan_set.h"
#include "tools/bench.h"
#include "session/human.h"
#include "tools/json_out.h"
#include "tools/terminal.h"

/* Labels of a step, and what one of them is called. */
static double units_of(const dt_bench_result *r)
{
    const int64_t tokens = dt_graph_tokens(r->session->graph);
    return (double)(r->session->opts.train.batch * (tokens > 0 ? tokens : 1));
}

static const char *unit_of(const dt_bench_result *r)
{
    const dt_graph *g = r->session->graph;
    return dt_graph_tokens(g) > 0 ? "tokens" : dt_human_samples(&g->input, 0);
}

enum { LABEL = 10 };

static void header(const dt_bench_result *r)
{
    const dt_session *s = r->session;
    const dt_train_opts *t = &s->opts.train;
    char rate[DT_HUMAN_BYTES], text[256], bf16[32] = "";
    printf("%s   batch %" PRId64, s->graph->name, t->batch);
    if (s->micro_batch != t->batch)
        printf(" as micro-batches of %" PRId64, s->micro_batch);
    printf("   policy %s   %s   %d thread%s\n", dt_session_policy(s),
        dt_dtype_name(s->graph->dtype), s->threads, s->threads == 1 ? "" : "s");
    if (r->machine.flops[DT_BF16] > 0)
        snprintf(bf16, sizeof bf16, ", %.0f bf16", r->machine.flops[DT_BF16] / 1e9);
    snprintf(text, sizeof text,
        "machine   %.0f GFLOP/s fp32%s, %.1f GB/s read and written by a copy; measured now",
        r->machine.flops[DT_F32] / 1e9, bf16, r->machine.bytes / 1e9);
    dti_term_wrap(stdout, 0, LABEL, text);
    if (r->machine.answer > 0)
        printf("cores     one answers another in %.0f ns\n", 1e9 * r->machine.answer);
    printf("\n");
    snprintf(text, sizeof text,
        "step      %.2f ms in the median of %" PRId64 ", %.2f to %.2f, after %d that do not count",
        1e3 * r->median, r->steps, 1e3 * r->least, 1e3 * r->most, DT_BENCH_WARM);
    dti_term_wrap(stdout, 0, LABEL, text);
    printf(
        "speed     %s %s a second\n\n", dt_human_rate(rate, units_of(r) / r->median), unit_of(r));
}

static void line(const dt_bench_result *r, const char *kind, const char *pass, double ops, double s,
    double floor)
{
    static const double told = 1e-5; /* below, what an op takes is the call */
    char count[16] = "", bound[48] = "";
    if (ops > 0)
        snprintf(count, sizeof count, "%.0f", ops);
    if (floor >= told)
        snprintf(bound, sizeof bound, "%10.3f %8.2f", 1e3 * floor, s / floor);
    else if (floor > 0)
        snprintf(bound, sizeof bound, "%10.3f %8s", 1e3 * floor, "-");
    printf("%-18s %-10s %6s %11.3f %6.1f %%%s\n", kind, pass, count, 1e3 * s, 100 * s / r->step,
        bound);
}

void dti_bench_table(const dt_bench_result *r)
{
    header(r);
    printf("%-18s %-10s %6s %11s %8s%10s %8s\n", "kind of op", "pass", "ops", "ms", "share",
        "floor ms", "ms/floor");
    for (size_t i = 0; i < r->n_row; i++) {
        const dt_bench_row *w = &r->row[i];
        line(r, w->kind, w->pass, w->ops, w->seconds, w->floor);
    }
    line(r, "rest", "", 0, r->rest, 0);
    line(r, "total", "", 0, r->step, r->floor);
    putchar('\n');
    dti_term_wrap(stdout, 0, 0,
        "floor: the larger of operations over the peak and bytes over the bandwidth, op by op. The "
        "parts are means over the steps of middling length.");
    printf("page faults %" PRId64 " a step, %" PRId64 " at most\nallocations %" PRId64
           " by the engine, heap %+" PRId64 " bytes, in all steps\n",
        r->faults, r->faults_most, r->allocations, r->grown);
}

static void row_json(dt_json *list, const dt_bench_row *w)
{
    dt_json o = dt_json_element(list);
    dt_json_text(&o, "kind", w->kind);
    dt_json_text(&o, "pass", w->pass);
    dt_json_real(&o, "ops", w->ops, 2);
    dt_json_seconds(&o, "seconds", w->seconds);
    dt_json_seconds(&o, "floor_seconds", w->floor);
    dt_json_leave(list, &o);
}

dt_status dti_bench_json(const dt_bench_result *r, dt_err *err)
{
    const dt_session *s = r->session;
    dt_json j = dt_json_begin();
    dt_json_text(&j, "model", s->graph->name);
    dt_json_text(&j, "policy", dt_session_policy(s));
    dt_json_text(&j, "precision", dt_dtype_name(s->graph->dtype));
    dt_json_whole(&j, "batch", (uint64_t)s->opts.train.batch);
    dt_json_whole(&j, "micro_batch", (uint64_t)s->micro_batch);
    dt_json_whole(&j, "threads", (uint64_t)s->threads);
    dt_json machine = dt_json_inner(&j, "machine");
    dt_json_real(&machine, "fp32_flops", r->machine.flops[DT_F32], 0);
    if (r->machine.flops[DT_BF16] > 0)
        dt_json_real(&machine, "bf16_flops", r->machine.flops[DT_BF16], 0);
    dt_json_real(&machine, "bytes", r->machine.bytes, 0);
    if (r->machine.answer > 0)
        dt_json_seconds(&machine, "answer_seconds", r->machine.answer);
    dt_json_leave(&j, &machine);
    dt_json_whole(&j, "steps", (uint64_t)r->steps);
    dt_json_seconds(&j, "median_seconds", r->median);
    dt_json_seconds(&j, "least_seconds", r->least);
    dt_json_seconds(&j, "most_seconds", r->most);
    dt_json_real(&j, "per_second", units_of(r) / r->median, 3);
    dt_json_text(&j, "unit", unit_of(r));
    dt_json_seconds(&j, "step_seconds", r->step);
    dt_json_seconds(&j, "rest_seconds", r->rest);
    dt_json_seconds(&j, "floor_seconds", r->floor);
    dt_json_whole(&j, "page_faults", (uint64_t)r->faults);
    dt_json_whole(&j, "page_faults_most", (uint64_t)r->faults_most);
    dt_json_whole(&j, "allocations", (uint64_t)r->allocations);
    dt_json_real(&j, "heap_growth", (double)r->grown, 0);
    dt_json rows = dt_json_list(&j, "parts");
    for (size_t i = 0; i < r->n_row; i++)
        row_json(&rows, &r->row[i]);
    dt_json_leave(&j, &rows);
    return dti_json_out(&j, err);
}
