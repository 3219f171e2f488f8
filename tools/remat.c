/* dnntrain remat: what to compute again, on graphs of any origin. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "memory/pools/pool_file.h"
#include "memory/remat/chain.h"
#include "memory/remat/solve.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/json_out.h"
#include "tools/out_file.h"
#include "tools/patience.h"

/* What the flags say, and what is found. */
typedef struct remat_run {
    const char *path, *policy, *budget_text, *seed_text, *moves_text, *nodes_text;
    const char *sequence, *intervals;
    const char *chain, *revolve;
    const char *device_text, *fixed_text, *batch_text, *accounting;
    bool json, max_batch;
    int64_t batch;
    uint64_t device, fixed;
    dt_remat_graph graph;
    dt_remat_task task;
    uint64_t most; /* the largest batch */
    double seconds;
} remat_run;

/* By dt_remat_how. */
enum { OWN = DT_REMAT_BY_POLICY };
static const char *const own[OWN] = {"auto", "checkmate", "rotor", "revolve"};

enum { MOST_NAMES = 31, NAMES_BYTES = 512 };

/* What --policy may be, NULL-terminated: by dt_remat_how, then the policies of papers. */
static void policy_names(const char *to[MOST_NAMES + 1])
{
    size_t n;
    const dt_remat_policy *all = dt_remat_policies(&n);
    DT_ASSERT(OWN + n <= MOST_NAMES);
    for (size_t i = 0; i < OWN + n; i++)
        to[i] = i < OWN ? own[i] : all[i - OWN].name;
    to[OWN + n] = NULL;
}

/* Those names from @from on: "a, b, c". */
static const char *list_policies(char to[NAMES_BYTES], size_t from)
{
    const char *names[MOST_NAMES + 1];
    policy_names(names);
    return dt_list_words(to, NAMES_BYTES, names + from);
}

/* How much of what is asked for goes to stdout; nothing: the table does. */
static int on_stdout(const remat_run *r)
{
    return r->json + dti_is_stdout(r->sequence) + dti_is_stdout(r->intervals);
}

static bool exactly(const remat_run *r)
{
    return r->task.how == DT_REMAT_CHECKMATE;
}

static const dt_opt bytes_row = {
    .type = DT_OPT_BYTES, .fallback = "", .min = 1, .max = 9007199254740992.0};
static const dt_opt fixed_row = {.type = DT_OPT_BYTES, .fallback = "", .max = 9007199254740992.0};
static const dt_opt batch_row = {.type = DT_OPT_I64, .fallback = "", .min = 1, .max = 1048576};
enum { MOST_NODES = 1 << 30 };
static const dt_opt nodes_row = {.type = DT_OPT_I64, .fallback = "", .min = 1, .max = MOST_NODES};
static const dt_opt whole_row = {.type = DT_OPT_I64, .fallback = "", .max = 9007199254740992.0};

static dt_status read_flag(
    const char *flag, const char *text, const dt_opt *row, void *to, dt_err *err)
{
    dt_err why = {0};
    const dt_status st = text != NULL ? dt_opt_read(row, text, to, &why) : DT_OK;
    return st == DT_OK ? st
                       : DT_FAIL(err, st, "%s %.80s: %.*s", flag, text,
                             (int)strcspn(why.text, "\n"), why.text);
}

/* Bytes, or a share of the peak of the graph's own order, rounded up. */
static dt_status read_budget(remat_run *r, dt_err *err)
{
    const char *text = r->budget_text;
    const size_t n = text != NULL ? strlen(text) : 0;
    char digits[32];
    double percent;
    if (n == 0 && r->task.policy != NULL) { /* as much as the policy takes */
        r->task.any_budget = true;
        r->task.budget = DT_REMAT_MOST_SUM;
        return DT_OK;
    }
    if (n == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "name a budget: --budget BYTES, or --budget P%% of the peak of the file's own order");
    if (text[n - 1] != '%')
        return read_flag("--budget", text, &bytes_row, &r->task.budget, err);
    snprintf(digits, sizeof digits, "%.*s", (int)(n < sizeof digits ? n - 1 : 0), text);
    if (!dt_parse_f64(digits, &percent) || !(percent > 0 && percent <= 1000))
        return DT_FAIL(err, DT_E_CONFIG,
            "--budget %s: a share is a number above 0, and at most 1000, with %% behind it", text);
    r->task.budget = (uint64_t)ceill((long double)percent * (long double)r->task.base.peak / 100);
    return DT_OK;
}

static dt_status print_sequence(const void *run, FILE *f, dt_err *err)
{
    const dt_remat_sequence *s = &((const remat_run *)run)->task.best;
    (void)err;
    for (size_t i = 0; i < s->n; i++)
        fprintf(f, "%" PRIu32 "\n", s->op[i]);
    return DT_OK;
}

/* As `dnntrain pool` reads them: a value a run, and time is the number of runs before. */
static dt_status fill_intervals(dt_interval *v, size_t *last, const remat_run *r, dt_err *err)
{
    const dt_remat_sequence *s = &r->task.best;
    DT_CHECK(dt_remat_last_reads(&r->graph, s, last, err));
    for (size_t i = 0; i < s->n; i++)
        v[i] = (dt_interval){.lower = (int64_t)i,
            .upper = (int64_t)last[i] + 1,
            .bytes = r->graph.bytes[s->op[i]],
            .align = 1,
            .id = (int64_t)i};
    return DT_OK;
}

static dt_status print_intervals(const void *run, FILE *f, dt_err *err)
{
    const remat_run *r = run;
    const size_t n = r->task.best.n;
    dt_interval *v = dt_alloc(n, sizeof *v);
    size_t *last = dt_alloc(n, sizeof *last);
    dt_status st = v != NULL && last != NULL
                       ? fill_intervals(v, last, r, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory for the intervals of %zu runs", n);
    if (st == DT_OK)
        st = dt_pool_file_print(v, n, f, err);
    dt_free(v);
    dt_free(last);
    return st;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static double extra_percent(const remat_run *r)
{
    return r->task.base.cost > 0 ? 100 * ((double)r->task.found.cost - (double)r->task.base.cost) /
                                       (double)r->task.base.cost
                                 : 0;
}

/* Of the file's order, by branch and bound over sets of values; or as no sequence at all costs
 * less.
 */
static bool is_proved(const remat_run *r)
{
    return r->task.proved || r->task.found.cost == r->task.bound;
}

/* Of what Checkmate's program knows, which the file's order has more than. */
static bool is_optimum(const remat_run *r)
{
    return r->task.optimum || is_proved(r);
}

/* What an answer of Checkmate's is worth. */
static const char *standing(const remat_run *r)
{
    return is_proved(r)       ? "nothing costs less in the file's order"
           : is_optimum(r)    ? "nothing costs less in the file's order in which each op runs at "
                                "most once before every first run"
           : r->task.annealed ? "annealed, and not proved the least; --nodes N branches for longer"
                              : "the best in the file's order within --nodes, not proved the least";
}

static void whole_or_null(dt_json *to, const char *key, uint64_t value, bool known)
{
    if (known)
        dt_json_whole(to, key, value);
    else
        dt_json_null(to, key);
}

static dt_status show_json(const remat_run *r, dt_err *err)
{
    dt_json j = dt_json_begin();
    dt_json_whole(&j, "ops", r->graph.n_op);
    dt_json_whole(&j, "edges", r->graph.n_edge);
    dt_json_text(&j, "policy", r->policy != NULL ? r->policy : "auto");
    if (r->max_batch) {
        dt_json_text(&j, "accounting", r->task.published ? "published" : "rules");
        dt_json_whole(&j, "batch", r->most);
        dt_json_whole(&j, "cost_limit", r->task.limit);
    }
    dt_json_whole(&j, "budget", r->task.budget);
    dt_json_whole(&j, "peak", r->task.found.peak);
    dt_json_whole(&j, "base_peak", r->task.base.peak);
    dt_json_whole(&j, "cost", r->task.found.cost);
    dt_json_whole(&j, "base_cost", r->task.base.cost);
    whole_or_null(&j, "lower_bound", r->task.bound, !r->task.published);
    if (exactly(r)) {
        dt_json_flag(&j, "proved", is_proved(r));
        dt_json_flag(&j, "optimum", is_optimum(r));
        dt_json_flag(&j, "annealed", r->task.annealed);
        whole_or_null(&j, "relaxation", r->task.relaxation, r->task.relaxation > 0);
    }
    dt_json_real(&j, "extra_percent", extra_percent(r), 6);
    dt_json_whole(&j, "runs", r->task.best.n);
    dt_json_real(&j, "seconds", r->seconds, 3);
    return dti_json_out(&j, err);
}

static void show_runs(const remat_run *r, const char *more)
{
    const size_t n = r->task.best.n;
    printf("%zu run%s, %zu of them again; %.1f seconds%s\n", n, plural(n), n - r->graph.n_op,
        r->seconds, more);
}

static void show_table(const remat_run *r)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES];
    const double base = r->task.base.cost > 0 ? (double)r->task.base.cost : 1;
    printf("%s: %" PRIu32 " op%s, %" PRIu32 " edge%s, budget %s byte%s\n\n", r->path, r->graph.n_op,
        plural(r->graph.n_op), r->graph.n_edge, plural(r->graph.n_edge),
        dt_human_count(a, r->task.budget), plural(r->task.budget));
    printf("%-12s %20s %20s %10s\n", "", "peak bytes", "cost", "extra %");
    printf("%-12s %20s %20s %10.4f\n", "as written", dt_human_count(a, r->task.base.peak),
        dt_human_count(b, r->task.base.cost), 0.0);
    printf("%-12s %20s %20s %10.4f\n", "found", dt_human_count(a, r->task.found.peak),
        dt_human_count(b, r->task.found.cost), extra_percent(r));
    printf("%-12s %20s %20s %10.4f\n\n", "lower bound",
        dt_human_count(a, dt_remat_least_peak(&r->graph)), dt_human_count(b, r->task.bound),
        100 * ((double)r->task.bound - (double)r->task.base.cost) / base);
    show_runs(r, r->task.found.cost == r->task.bound ? "; nothing costs less" : "");
    if (exactly(r))
        printf("%s\n", standing(r));
}

static void show_batch(const remat_run *r)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], c[DT_HUMAN_BYTES];
    printf("%s: the largest batch of policy %s is %s\n\n", r->path,
        r->policy != NULL ? r->policy : "auto", dt_human_count(a, r->most));
    printf("peak of batch %" PRId64 ": %s bytes; cost %s, %.4f %% extra, of at most %s\n", r->batch,
        dt_human_count(a, r->task.found.peak), dt_human_count(b, r->task.found.cost),
        extra_percent(r), dt_human_count(c, r->task.limit));
    if (r->task.published)
        printf("counted as published: what is kept stays to the end, and --fixed twice; "
               "--accounting rules: by the rules\n");
    show_runs(r, "");
}

static dt_status too_small(const remat_run *r, uint64_t peak, dt_err *err)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], c[DT_HUMAN_BYTES];
    const uint64_t least = dt_remat_least_peak(&r->graph);
    if (r->task.budget < least)
        return DT_FAIL(err, DT_E_BUDGET,
            "%s: no sequence fits %s byte%s: an op with its inputs takes %s; raise --budget",
            r->path, dt_human_count(a, r->task.budget), plural(r->task.budget),
            dt_human_count(b, least));
    const bool searches = r->task.how == DT_REMAT_AUTO || r->task.annealed;
    return DT_FAIL(err, DT_E_BUDGET,
        "%s: no sequence of %s bytes was found, the lowest peak is %s (none is below %s); raise "
        "--budget, or %s",
        r->path, dt_human_count(a, r->task.budget), dt_human_count(b, peak),
        dt_human_count(c, least), searches ? "--moves" : "leave out --policy, to search for one");
}

/* --- which flags go together --- */

enum { GRAPH = 1, BATCH = 2, CHAIN = 4, REVOLVE = 8 };

static int asked_for(const remat_run *r)
{
    return r->revolve != NULL ? REVOLVE : r->chain != NULL ? CHAIN : r->max_batch ? BATCH : GRAPH;
}

static dt_status check_flags(const remat_run *r, dt_err *err)
{
    const struct {
        const char *flag, *value;
        int with;
    } rows[] = {
        {"--max-batch", r->max_batch ? "" : NULL, BATCH},
        {"--chain", r->chain, CHAIN},
        {"--budget", r->budget_text, GRAPH | CHAIN},
        {"--policy", r->policy, GRAPH | BATCH},
        {"--device", r->device_text, BATCH},
        {"--fixed", r->fixed_text, BATCH},
        {"--batch", r->batch_text, BATCH},
        {"--accounting", r->accounting, GRAPH | BATCH},
        {"--seed", r->seed_text, GRAPH | BATCH},
        {"--moves", r->moves_text, GRAPH | BATCH},
        {"--nodes", r->nodes_text, GRAPH},
        {"--sequence", r->sequence, GRAPH | BATCH | CHAIN},
        {"--intervals", r->intervals, GRAPH | BATCH},
    };
    static const char *const names[] = {
        [BATCH] = "--max-batch", [CHAIN] = "--chain", [REVOLVE] = "--revolve"};
    const int asked = asked_for(r);
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        if (rows[i].value == NULL || (rows[i].with & asked) != 0)
            continue;
        return asked == GRAPH
                   ? DT_FAIL(err, DT_E_CONFIG, "%s is for --max-batch alone", rows[i].flag)
                   : DT_FAIL(err, DT_E_CONFIG, "%s does not go with %s; leave one of them out",
                         rows[i].flag, names[asked]);
    }
    return DT_OK;
}

/* --- policies --- */

static bool by_chain(const remat_run *r)
{
    return r->task.how == DT_REMAT_ROTOR || r->task.how == DT_REMAT_REVOLVE;
}

static dt_status find_policy(remat_run *r, dt_err *err)
{
    const char *names[MOST_NAMES + 1], *name = r->policy != NULL ? r->policy : own[DT_REMAT_AUTO];
    char what[128];
    size_t n, i = 0;
    const dt_remat_policy *all = dt_remat_policies(&n);
    policy_names(names);
    while (names[i] != NULL && strcmp(name, names[i]) != 0)
        i++;
    if (names[i] == NULL) {
        snprintf(what, sizeof what, "--policy %.80s", name);
        return dt_unknown(what, name, names, err);
    }
    r->task.how = i < OWN ? (dt_remat_how)i : DT_REMAT_BY_POLICY;
    r->task.policy = i < OWN ? NULL : &all[i - OWN];
    return DT_OK;
}

static dt_status search(remat_run *r, dt_err *err)
{
    dt_remat_task *t = &r->task;
    if (t->budget < dt_remat_least_peak(&r->graph))
        return too_small(r, 0, err);
    const dt_status st = dt_remat_solve(t, err);
    if (st != DT_OK)
        return exactly(r) ? DT_FAIL(err, st, "%s", r->path) : st;
    return t->found.peak <= t->budget ? DT_OK : too_small(r, t->found.peak, err);
}

/* --- the largest batch --- */

/* How a paper's policy is counted: as in the paper, unless by the rules is asked for. */
static dt_status read_accounting(remat_run *r, dt_err *err)
{
    const dt_remat_policy *p = r->task.policy;
    static const char *const names[] = {"published", "rules", NULL};
    char list[NAMES_BYTES];
    if (r->accounting != NULL && (!r->max_batch || p == NULL))
        return DT_FAIL(err, DT_E_CONFIG,
            "--accounting is for --max-batch by a policy of a paper: %s", list_policies(list, OWN));
    if (r->accounting != NULL && strcmp(r->accounting, names[0]) != 0 &&
        strcmp(r->accounting, names[1]) != 0)
        return dt_unknown("--accounting", r->accounting, names, err);
    r->task.published = r->max_batch && p != NULL &&
                        (r->accounting == NULL || strcmp(r->accounting, names[0]) == 0);
    return DT_OK;
}

/* Bytes and costs are of @batch samples and grow with them. In the paper's experiment a schedule's
 * peak has the fixed bytes in it, and is held against a device from which they are taken once more.
 */
static dt_status read_device(remat_run *r, uint64_t *room, dt_err *err)
{
    size_t product;
    const uint64_t times = r->task.published ? 2 : 1;
    if (r->device_text == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "--max-batch needs --device BYTES, and --fixed BYTES for what does not grow with it");
    DT_CHECK(read_flag("--device", r->device_text, &bytes_row, &r->device, err));
    DT_CHECK(read_flag("--fixed", r->fixed_text, &fixed_row, &r->fixed, err));
    DT_CHECK(read_flag("--batch", r->batch_text, &batch_row, &r->batch, err));
    if (r->fixed >= (r->device + times - 1) / times)
        return DT_FAIL(err, DT_E_BUDGET,
            "--fixed %" PRIu64 "%s leaves nothing of --device %" PRIu64, r->fixed,
            r->task.published ? ", counted twice as published," : "", r->device);
    if (!dt_mul_bytes(r->device - times * r->fixed, (size_t)r->batch, &product))
        return DT_FAIL(err, DT_E_CONFIG, "--device times --batch is beyond 64 bits");
    *room = product;
    return DT_OK;
}

static dt_status too_dear(const remat_run *r, dt_err *err)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES];
    return DT_FAIL(err, DT_E_BUDGET,
        "%s: policy %s computes more than one forward again, whatever the batch: its least cost is "
        "%s, and --max-batch allows %s; name another --policy",
        r->path, r->policy, dt_human_count(a, r->task.found.cost),
        dt_human_count(b, r->task.limit));
}

static dt_status largest_batch(remat_run *r, dt_err *err)
{
    uint64_t room;
    char peak[DT_HUMAN_BYTES];
    DT_CHECK(read_device(r, &room, err));
    if (r->task.base.peak == 0)
        return DT_FAIL(err, DT_E_DATA, "%s: no op has any bytes, so every batch fits", r->path);
    DT_CHECK(dt_remat_largest_batch(&r->task, room, &r->most, err));
    if (r->most == 0 && r->task.found.cost > r->task.limit)
        return too_dear(r, err);
    if (r->most == 0)
        return DT_FAIL(err, DT_E_BUDGET, "%s: not one sample fits; its peak is %s bytes", r->path,
            dt_human_count(peak, r->task.found.peak / (uint64_t)r->batch));
    return DT_OK;
}

/* What would be read by nobody: a rule tries no changes at random. */
static dt_status check_search(const remat_run *r, dt_err *err)
{
    const char *flag = r->seed_text != NULL ? "--seed" : r->moves_text != NULL ? "--moves" : NULL;
    if (r->nodes_text != NULL && !exactly(r))
        return DT_FAIL(err, DT_E_CONFIG, "--nodes is for --policy checkmate alone");
    if (flag != NULL && (r->task.policy != NULL || by_chain(r)))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s is of a search, and --policy %s makes none; it is for auto, checkmate", flag,
            r->policy);
    return DT_OK;
}

static dt_status search_file(remat_run *r, dt_err *err)
{
    char list[NAMES_BYTES];
    DT_CHECK(dti_cli_check_data(r->path, "a graph of ops", err));
    DT_CHECK(dt_remat_read(&r->graph, r->path, err));
    DT_CHECK(dt_remat_task_init(&r->task, &r->graph, err));
    const double start = dt_seconds();
    DT_CHECK(find_policy(r, err));
    if (r->max_batch && (exactly(r) || by_chain(r)))
        return DT_FAIL(err, DT_E_CONFIG, "--max-batch is not for --policy %s; it is for auto, %s",
            r->policy, list_policies(list, OWN));
    DT_CHECK(check_search(r, err));
    DT_CHECK(read_accounting(r, err));
    if (!r->max_batch)
        DT_CHECK(read_budget(r, err));
    dti_patience_begin(
        "trying sequences of %" PRIu32 " ops: this may take a minute", r->graph.n_op);
    const dt_status st = r->max_batch ? largest_batch(r, err) : search(r, err);
    dti_patience_end();
    DT_CHECK(st);
    r->seconds = dt_seconds() - start;
    if (r->sequence != NULL)
        DT_CHECK(dti_write_file(r->sequence, print_sequence, r, err));
    if (r->intervals != NULL)
        DT_CHECK(dti_write_file(r->intervals, print_intervals, r, err));
    if (r->json)
        return show_json(r, err);
    if (r->max_batch && on_stdout(r) == 0)
        show_batch(r);
    else if (on_stdout(r) == 0)
        show_table(r);
    return DT_OK;
}

/* --- chains --- */

static const char *step_name(const dt_chain *c, dt_chain_step s, char *to, size_t bytes)
{
    static const char *const acts[] = {"Fn", "Fck", "Fall", "B"};
    if (s.stage + 1 == c->n)
        return s.act == DT_CHAIN_BACKWARD ? NULL : "Loss";
    snprintf(to, bytes, "%s%" PRIu32, acts[s.act], s.stage + 1);
    return to;
}

/* A chain and how it runs. */
typedef struct solved {
    dt_chain chain;
    dt_chain_plan plan;
} solved;

static dt_status print_steps(const void *of, FILE *f, dt_err *err)
{
    const solved *s = of;
    (void)err;
    for (size_t i = 0; i < s->plan.n; i++) {
        char name[32];
        const char *step = step_name(&s->chain, s->plan.step[i], name, sizeof name);
        if (step != NULL)
            fprintf(f, "%s\n", step);
    }
    return DT_OK;
}

static void list_steps(dt_json *j, const solved *s)
{
    dt_json list = dt_json_list(j, "steps");
    for (size_t i = 0; i < s->plan.n; i++) {
        char name[32];
        const char *step = step_name(&s->chain, s->plan.step[i], name, sizeof name);
        if (step != NULL)
            dt_json_push_text(&list, step);
    }
    dt_json_leave(j, &list);
}

/* Each stage forward once, and backward. */
static uint64_t base_cost(const dt_chain *c)
{
    uint64_t base = 0;
    for (uint32_t i = 0; i < c->n; i++)
        base += c->stage[i].forward + c->stage[i].backward;
    return base;
}

static double chain_extra_percent(const solved *s)
{
    const double base = (double)base_cost(&s->chain);
    return base > 0 ? 100 * ((double)s->plan.cost - base) / base : 0;
}

static dt_status show_chain_json(const remat_run *r, const solved *s, dt_err *err)
{
    const dt_chain *c = &s->chain;
    const dt_chain_plan *p = &s->plan;
    const uint64_t base = base_cost(c);
    dt_json j = dt_json_begin();
    dt_json_whole(&j, "stages", c->n);
    dt_json_whole(&j, "budget", r->task.budget);
    dt_json_whole(&j, "unit", p->unit);
    dt_json_whole(&j, "peak", dt_chain_peak(c, p));
    dt_json_whole(&j, "cost", p->cost);
    dt_json_whole(&j, "base_cost", base);
    dt_json_whole(&j, "lower_bound", dt_chain_counts_bytes(c, p->unit) ? p->cost : base);
    dt_json_real(&j, "extra_percent", chain_extra_percent(s), 6);
    dt_json_real(&j, "seconds", r->seconds, 3);
    list_steps(&j, s);
    return dti_json_out(&j, err);
}

static void show_chain_steps(const remat_run *r, const solved *s)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], name[32];
    printf("%s: %" PRIu32 " stage%s, budget %s byte%s: cost %s, %.4f %% extra; %.1f seconds\n\n",
        r->path, s->chain.n, plural(s->chain.n), dt_human_count(a, r->task.budget),
        plural(r->task.budget), dt_human_count(b, s->plan.cost), chain_extra_percent(s),
        r->seconds);
    for (size_t i = 0; i < s->plan.n; i++) {
        const char *step = step_name(&s->chain, s->plan.step[i], name, sizeof name);
        if (step != NULL)
            printf("%s%s", i > 0 ? " " : "", step);
    }
    printf("\n");
}

/* Where bytes are counted in larger units than their sizes have, a sequence may be missed. */
static dt_status chain_too_small(const remat_run *r, const dt_chain *c, dt_err *err)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES];
    uint64_t least;
    DT_CHECK(dt_chain_least(c, &least, err));
    dt_human_count(a, r->task.budget);
    dt_human_count(b, least);
    if (r->task.budget < least)
        return DT_FAIL(err, DT_E_BUDGET,
            "%s: no sequence fits %s byte%s: the least is %s; raise --budget", r->path, a,
            plural(r->task.budget), b);
    return DT_FAIL(err, DT_E_BUDGET,
        "%s: no sequence of %s bytes was found, as its table rounds bytes up; the least is %s; "
        "raise --budget",
        r->path, a, b);
}

static dt_status chain_file(remat_run *r, dt_err *err)
{
    solved s;
    dt_err none = {0};
    const double start = dt_seconds();
    if (r->budget_text == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "--chain needs --budget BYTES");
    if (strchr(r->budget_text, '%') != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "--budget %s: shares are for graphs, and of a chain there is no order of the file's "
            "own; name bytes",
            r->budget_text);
    DT_CHECK(read_flag("--budget", r->budget_text, &bytes_row, &r->task.budget, err));
    r->path = r->chain;
    DT_CHECK(dti_cli_check_data(r->path, "a chain of stages", err));
    DT_CHECK(dt_chain_read(&s.chain, r->path, err));
    dt_status st = dt_chain_solve(&s.plan, &s.chain, r->task.budget, &none);
    if (st != DT_OK)
        st = st == DT_E_BUDGET
                 ? chain_too_small(r, &s.chain, err)
                 : DT_FAIL(err, st, "%s: %.*s", r->path, (int)strcspn(none.text, "\n"), none.text);
    r->seconds = dt_seconds() - start;
    if (st == DT_OK && r->sequence != NULL)
        st = dti_write_file(r->sequence, print_steps, &s, err);
    if (st == DT_OK && r->json)
        st = show_chain_json(r, &s, err);
    else if (st == DT_OK && on_stdout(r) == 0)
        show_chain_steps(r, &s);
    dt_chain_plan_deinit(&s.plan);
    dt_chain_deinit(&s.chain);
    return st;
}

static dt_status revolve(const remat_run *r, dt_err *err)
{
    const char *comma = strchr(r->revolve, ',');
    char first[32];
    int64_t n = 0, s = 0;
    const size_t length = comma != NULL ? (size_t)(comma - r->revolve) : 0;
    snprintf(first, sizeof first, "%.*s", (int)(length < sizeof first ? length : 0), r->revolve);
    if (comma == NULL || !dt_parse_i64(first, &n) || !dt_parse_i64(comma + 1, &s) || n < 1 ||
        n > DT_REVOLVE_MOST_STEPS || s < 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "--revolve %s; it takes N,S: 1 to %d steps, and the states that are kept, the first "
            "one's among them",
            r->revolve, DT_REVOLVE_MOST_STEPS);
    const uint64_t extra = dt_revolve_extra((uint64_t)n, (uint64_t)s);
    if (r->json) {
        dt_json j = dt_json_begin();
        dt_json_whole(&j, "steps", (uint64_t)n);
        dt_json_whole(&j, "states", (uint64_t)s);
        dt_json_whole(&j, "extra_forwards", extra);
        return dti_json_out(&j, err);
    }
    printf("%" PRId64 " step%s, %" PRId64 " state%s kept: %" PRIu64 " extra forward step%s\n", n,
        plural((uint64_t)n), s, plural((uint64_t)s), extra, plural(extra));
    return DT_OK;
}

static dt_status run_on(remat_run *r, dt_err *err)
{
    DT_CHECK(read_flag("--seed", r->seed_text, &whole_row, &r->task.seed, err));
    DT_CHECK(read_flag("--moves", r->moves_text, &whole_row, &r->task.moves, err));
    DT_CHECK(read_flag("--nodes", r->nodes_text, &nodes_row, &r->task.nodes, err));
    const dt_status st = search_file(r, err);
    dt_remat_graph_deinit(&r->graph);
    dt_remat_task_deinit(&r->task);
    return st;
}

/* On a graph of ops, a chain of stages, or steps that are all alike. */
static dt_status run_mode(remat_run *r, const dti_cli *cli, dt_err *err)
{
    const char *files[] = {r->sequence, r->intervals};
    r->path = cli->n_word > 0 ? cli->word[0] : NULL;
    DT_CHECK(check_flags(r, err));
    DT_CHECK(
        dti_check_outputs(NULL, files, DT_COUNT(files), r->path != NULL ? r->path : r->chain, err));
    if (on_stdout(r) > 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "--json and what is named - all go to stdout; name files for the others");
    if (cli->n_word == 0 && r->chain != NULL)
        return chain_file(r, err);
    if (cli->n_word == 0 && r->revolve != NULL)
        return revolve(r, err);
    if (cli->n_word == 1 && r->chain == NULL && r->revolve == NULL)
        return run_on(r, err);
    return DT_FAIL(err, DT_E_CONFIG, "name one file of ops; usage: %s", dt_command_remat.usage);
}

static dt_status remat(const dti_command_args *a, dt_err *err)
{
    char policies[NAMES_BYTES];
    remat_run r = {.batch = 1, .task = {.seed = 1}};
    const dti_flag flags[] = {
        {"--budget", "BYTES|P%", "the peak is to be no higher; P% of that of the file's own order",
            NULL, &r.budget_text},
        {"--policy", "NAME", list_policies(policies, 0), NULL, &r.policy},
        {"--max-batch", NULL, "the largest batch on a device, with at most one extra forward",
            &r.max_batch, NULL},
        {"--device", "BYTES", "of the device, for --max-batch", NULL, &r.device_text},
        {"--fixed", "BYTES", "of it what does not grow with the batch: weights, gradients", NULL,
            &r.fixed_text},
        {"--accounting", "HOW", "of a paper's policy for --max-batch: published (default), rules",
            NULL, &r.accounting},
        {"--batch", "N", "samples that the file's bytes and costs are of; 1 unless given", NULL,
            &r.batch_text},
        {"--chain", "FILE", "in place of a graph a chain of stages: its best persistent sequence",
            NULL, &r.chain},
        {"--revolve", "N,S", "extra forward steps to reverse N alike with S states", NULL,
            &r.revolve},
        {"--json", NULL, "the numbers as one object", &r.json, NULL},
        {"--sequence", "FILE", "write the ops in the order in which they run, one a line", NULL,
            &r.sequence},
        {"--intervals", "FILE.csv", "write how long each run's value lives, for dnntrain pool",
            NULL, &r.intervals},
        {"--seed", "N", "of the search's random numbers; 1 unless given", NULL, &r.seed_text},
        {"--moves", "N", "changes that are tried; 0: as the graph's size suggests", NULL,
            &r.moves_text},
        {"--nodes", "N",
            "of branch and bound in checkmate's integer program; small graphs need none", NULL,
            &r.nodes_text},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_remat, a, flags, false, 1, err);
    if (st == DT_OK && !cli.help)
        st = run_mode(&r, &cli, err);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_remat = {
    .name = "remat",
    .usage = "dnntrain remat FILE --budget BYTES|P% [--policy NAME] [--json] [--sequence FILE]",
    .summary = "find what to compute again so that a graph of ops fits a budget, at the least cost",
    .run = remat,
};
