/* dnntrain remat: what to compute again, on graphs of any origin. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/io.h"
#include "engine/config/options.h"
#include "memory/remat/remat.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/json_out.h"

/* What the flags say, and what is found. */
typedef struct remat_run {
    const char *path, *budget_text, *sequence, *seed_text, *moves_text;
    bool json;
    int64_t seed, moves;
    dt_remat_graph graph;
    dt_remat_sequence best;
    dt_remat_taken base, found;
    uint64_t budget, bound;
    double seconds;
} remat_run;

static const dt_opt bytes_row = {
    .type = DT_OPT_BYTES, .fallback = "", .min = 1, .max = 9007199254740992.0};
static const dt_opt whole_row = {.type = DT_OPT_I64, .fallback = "", .max = 9007199254740992.0};

static dt_status read_flag(
    const char *flag, const char *text, const dt_opt *row, void *to, dt_err *err)
{
    if (text == NULL)
        return DT_OK;
    DT_TRY(err, dt_opt_read(row, text, to, err), "%s %s", flag, text);
    return DT_OK;
}

/* Bytes, or a share of the peak of the graph's own order, rounded up. */
static dt_status read_budget(remat_run *r, dt_err *err)
{
    const char *text = r->budget_text;
    const size_t n = text != NULL ? strlen(text) : 0;
    char digits[32];
    double percent;
    if (n == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "name a budget: --budget BYTES, or --budget P%% of the peak of the file's own order");
    if (text[n - 1] != '%')
        return read_flag("--budget", text, &bytes_row, &r->budget, err);
    snprintf(digits, sizeof digits, "%.*s", (int)(n < sizeof digits ? n - 1 : 0), text);
    if (!dt_parse_f64(digits, &percent) || !(percent > 0 && percent <= 1000))
        return DT_FAIL(err, DT_E_CONFIG,
            "--budget %s: a share is a number above 0, and at most 1000, with %% behind it", text);
    r->budget = (uint64_t)ceill((long double)percent * (long double)r->base.peak / 100);
    return DT_OK;
}

static dt_status write_sequence(const remat_run *r, dt_err *err)
{
    dt_file_writer *w;
    dt_status st = DT_OK;
    if (r->sequence == NULL)
        return DT_OK;
    DT_CHECK(dt_writer_open(&w, r->sequence, err));
    for (size_t i = 0; i < r->best.n && st == DT_OK; i++) {
        char line[16];
        const int n = snprintf(line, sizeof line, "%" PRIu32 "\n", r->best.op[i]);
        st = dt_writer_put(w, line, (size_t)n, err);
    }
    if (st != DT_OK) {
        dt_writer_abandon(w);
        return st;
    }
    return dt_writer_commit(w, err);
}

static double extra_percent(const remat_run *r)
{
    return r->base.cost > 0
               ? 100 * ((double)r->found.cost - (double)r->base.cost) / (double)r->base.cost
               : 0;
}

static dt_status show_json(const remat_run *r, dt_err *err)
{
    dt_json j = dti_json_begin();
    dti_json_whole(&j, "ops", r->graph.n_op);
    dti_json_whole(&j, "edges", r->graph.n_edge);
    dti_json_whole(&j, "budget", r->budget);
    dti_json_whole(&j, "peak", r->found.peak);
    dti_json_whole(&j, "base_peak", r->base.peak);
    dti_json_whole(&j, "cost", r->found.cost);
    dti_json_whole(&j, "base_cost", r->base.cost);
    dti_json_whole(&j, "lower_bound", r->bound);
    dti_json_real(&j, "extra_percent", extra_percent(r), 6);
    dti_json_whole(&j, "runs", r->best.n);
    dti_json_real(&j, "seconds", r->seconds, 3);
    return dti_json_end(&j, err);
}

static void show_table(const remat_run *r)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES];
    const double base = r->base.cost > 0 ? (double)r->base.cost : 1;
    printf("%s: %" PRIu32 " ops, %" PRIu32 " edges, budget %s bytes\n\n", r->path, r->graph.n_op,
        r->graph.n_edge, dt_human_count(a, r->budget));
    printf("%-12s %20s %20s %10s\n", "", "peak bytes", "cost", "extra %");
    printf("%-12s %20s %20s %10.4f\n", "as written", dt_human_count(a, r->base.peak),
        dt_human_count(b, r->base.cost), 0.0);
    printf("%-12s %20s %20s %10.4f\n", "found", dt_human_count(a, r->found.peak),
        dt_human_count(b, r->found.cost), extra_percent(r));
    printf("%-12s %20s %20s %10.4f\n\n", "lower bound",
        dt_human_count(a, dt_remat_least_peak(&r->graph)), dt_human_count(b, r->bound),
        100 * ((double)r->bound - (double)r->base.cost) / base);
    printf("%zu runs, %zu of them again; %.1f seconds%s\n", r->best.n, r->best.n - r->graph.n_op,
        r->seconds, r->found.cost == r->bound ? "; nothing costs less" : "");
}

static dt_status too_small(const remat_run *r, uint64_t peak, dt_err *err)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], c[DT_HUMAN_BYTES];
    const uint64_t least = dt_remat_least_peak(&r->graph);
    if (r->budget < least)
        return DT_FAIL(err, DT_E_BUDGET,
            "%s: no sequence fits %s bytes: an op with its inputs takes %s; raise --budget",
            r->path, dt_human_count(a, r->budget), dt_human_count(b, least));
    return DT_FAIL(err, DT_E_BUDGET,
        "%s: no sequence of %s bytes was found, the lowest peak is %s (none is below %s); raise "
        "--budget or --moves",
        r->path, dt_human_count(a, r->budget), dt_human_count(b, peak), dt_human_count(c, least));
}

static dt_status search(remat_run *r, dt_err *err)
{
    const double start = dt_seconds();
    if (r->budget < dt_remat_least_peak(&r->graph))
        return too_small(r, 0, err);
    DT_CHECK(dt_remat_bound(&r->graph, r->budget, &r->bound, err));
    const dt_remat_search how = {.budget = r->budget,
        .seed = (uint64_t)r->seed,
        .moves = (uint64_t)r->moves,
        .bound = r->bound};
    DT_CHECK(dt_remat_anneal(&r->graph, &how, &r->best, &r->found, err));
    r->seconds = dt_seconds() - start;
    return r->found.peak <= r->budget ? DT_OK : too_small(r, r->found.peak, err);
}

static dt_status search_file(remat_run *r, dt_err *err)
{
    DT_CHECK(dti_cli_check_file(r->path, err));
    DT_CHECK(dt_remat_read(&r->graph, r->path, err));
    DT_CHECK(dt_remat_in_order(&r->best, &r->graph, err));
    DT_CHECK(dt_remat_measure(&r->graph, &r->best, &r->base, err));
    DT_CHECK(read_budget(r, err));
    DT_CHECK(search(r, err));
    DT_CHECK(write_sequence(r, err));
    if (r->json)
        return show_json(r, err);
    show_table(r);
    return DT_OK;
}

static dt_status run_on(remat_run *r, dt_err *err)
{
    DT_CHECK(read_flag("--seed", r->seed_text, &whole_row, &r->seed, err));
    DT_CHECK(read_flag("--moves", r->moves_text, &whole_row, &r->moves, err));
    const dt_status st = search_file(r, err);
    dt_remat_graph_deinit(&r->graph);
    dt_remat_sequence_deinit(&r->best);
    return st;
}

static dt_status remat(const dt_command_args *a, dt_err *err)
{
    remat_run r = {.seed = 1};
    const dt_flag flags[] = {
        {"--budget", "BYTES|P%", "the peak is to be no higher; P% of that of the file's own order",
            NULL, &r.budget_text},
        {"--json", NULL, "the numbers as one object", &r.json, NULL},
        {"--sequence", "FILE", "write the ops in the order in which they run, one a line", NULL,
            &r.sequence},
        {"--seed", "N", "of the search's random numbers; 1 unless given", NULL, &r.seed_text},
        {"--moves", "N", "changes that are tried; 0: as the graph's size suggests", NULL,
            &r.moves_text},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dt_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_remat, a, flags, false, 1, err);
    r.path = cli.word[0];
    if (st == DT_OK && !cli.help)
        st = cli.n_word == 1 ? run_on(&r, err)
                             : DT_FAIL(err, DT_E_CONFIG, "name a file of ops; usage: %s",
                                   dt_command_remat.usage);
    dti_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_remat = {
    .name = "remat",
    .usage = "dnntrain remat FILE --budget BYTES|P% [--json] [--sequence FILE] [--seed N] "
             "[--moves N]",
    .summary = "find what to compute again so that a graph of ops fits a budget, at the least cost",
    .run = remat,
};
