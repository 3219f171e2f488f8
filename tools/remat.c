/* dnntrain remat: what to compute again, on graphs of any origin. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/io.h"
#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "memory/remat/aim.h"
#include "memory/remat/chain.h"
#include "memory/remat/remat.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/json_out.h"

/* What the flags say, and what is found. */
typedef struct remat_run {
    const char *path, *policy, *budget_text, *sequence, *seed_text, *moves_text, *nodes_text;
    const char *chain, *revolve;
    const char *device_text, *fixed_text, *batch_text, *accounting;
    bool json, max_batch, published; /* @published: what is taken is counted as in the paper */
    int64_t seed, moves, batch;
    uint64_t device, fixed;
    dt_remat_graph graph;
    dt_remat_sequence best;
    dt_remat_taken base, found;
    uint64_t budget, bound, limit; /* @limit: of the cost, when the largest batch is looked for */
    uint64_t most;                 /* the largest batch */
    uint64_t relaxation;           /* of checkmate's program; 0: not solved */
    int64_t nodes;                 /* of its search */
    bool proved;                   /* that its answer is the optimum */
    double seconds;
} remat_run;

static const char search_name[] = "auto", exact_name[] = "checkmate";
static const char rotor_name[] = "rotor", revolve_name[] = "revolve";

static bool exactly(const remat_run *r)
{
    return r->policy != NULL && strcmp(r->policy, exact_name) == 0;
}

static const dt_opt bytes_row = {
    .type = DT_OPT_BYTES, .fallback = "", .min = 1, .max = 9007199254740992.0};
static const dt_opt batch_row = {.type = DT_OPT_I64, .fallback = "", .min = 1, .max = 1048576};
enum { NODES = 2000, MOST_NODES = 1 << 30 };
static const dt_opt nodes_row = {.type = DT_OPT_I64, .fallback = "", .min = 1, .max = MOST_NODES};
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
static dt_status read_budget(remat_run *r, const dt_remat_policy *p, dt_err *err)
{
    const char *text = r->budget_text;
    const size_t n = text != NULL ? strlen(text) : 0;
    char digits[32];
    double percent;
    if (n == 0 && p != NULL) { /* as much as the policy takes */
        r->budget = DT_REMAT_MOST_SUM;
        return DT_OK;
    }
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
    dti_json j = dti_json_begin();
    dti_json_whole(&j, "ops", r->graph.n_op);
    dti_json_whole(&j, "edges", r->graph.n_edge);
    dti_json_text(&j, "policy", r->policy != NULL ? r->policy : "auto");
    if (r->max_batch) {
        dti_json_text(&j, "accounting", r->published ? "published" : "rules");
        dti_json_whole(&j, "batch", r->most);
        dti_json_whole(&j, "cost_limit", r->limit);
    }
    dti_json_whole(&j, "budget", r->budget);
    dti_json_whole(&j, "peak", r->found.peak);
    dti_json_whole(&j, "base_peak", r->base.peak);
    dti_json_whole(&j, "cost", r->found.cost);
    dti_json_whole(&j, "base_cost", r->base.cost);
    if (!r->max_batch)
        dti_json_whole(&j, "lower_bound", r->bound);
    if (exactly(r)) {
        dti_json_flag(&j, "proved", r->proved);
        dti_json_whole(&j, "relaxation", r->relaxation);
    }
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
    if (exactly(r))
        printf("%s in the file's order\n",
            r->proved ? "nothing costs less" : "the best within --nodes, not proved the least");
}

static void show_batch(const remat_run *r)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], c[DT_HUMAN_BYTES];
    printf("%s: the largest batch of policy %s is %s\n\n", r->path,
        r->policy != NULL ? r->policy : "auto", dt_human_count(a, r->most));
    printf("peak of %" PRId64 " %s bytes; cost %s, %.4f %% extra, of at most %s\n", r->batch,
        dt_human_count(a, r->found.peak), dt_human_count(b, r->found.cost), extra_percent(r),
        dt_human_count(c, r->limit));
    if (r->published)
        printf("counted as published: what is kept stays to the end, and --fixed twice; "
               "--accounting rules: by the rules\n");
    printf("%zu runs, %zu of them again; %.1f seconds\n", r->best.n, r->best.n - r->graph.n_op,
        r->seconds);
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

/* --- policies --- */

static bool by_chain(const remat_run *r)
{
    return r->policy != NULL &&
           (strcmp(r->policy, rotor_name) == 0 || strcmp(r->policy, revolve_name) == 0);
}

/* NULL: the search, or the optimum. */
static dt_status find_policy(const char *name, const dt_remat_policy **out, dt_err *err)
{
    enum { NAMES = 16, OWN = 4 };
    const char *names[NAMES] = {search_name, exact_name, rotor_name, revolve_name};
    size_t n;
    const dt_remat_policy *all = dt_remat_policies(&n);
    *out = NULL;
    for (size_t i = 0; i < OWN; i++)
        if (name == NULL || strcmp(name, names[i]) == 0)
            return DT_OK;
    for (size_t i = 0; i < n && i + OWN + 1 < NAMES; i++) {
        names[i + OWN] = all[i].name;
        if (strcmp(name, all[i].name) == 0)
            *out = &all[i];
    }
    if (*out != NULL)
        return DT_OK;
    const char *near = dt_nearest(name, names);
    return near != NULL
               ? DT_FAIL(err, DT_E_CONFIG, "--policy %s; did you mean '%s'?", name, near)
               : DT_FAIL(err, DT_E_CONFIG,
                     "--policy %s; there are auto, checkmate, rotor, revolve, keep_all, chen_sqrt "
                     "and chen_budget",
                     name);
}

/* Whether @a is the better answer: under a limit of the cost the lowest peak, else within the
 * budget the least cost. */
static bool better(const remat_run *r, dt_remat_taken a, dt_remat_taken than)
{
    const uint64_t limit = r->limit > 0 ? r->limit : r->budget;
    const uint64_t bound_a = r->limit > 0 ? a.cost : a.peak;
    const uint64_t bound_than = r->limit > 0 ? than.cost : than.peak;
    const uint64_t goal_a = r->limit > 0 ? a.peak : a.cost;
    const uint64_t goal_than = r->limit > 0 ? than.peak : than.cost;
    if ((bound_a <= limit) != (bound_than <= limit))
        return bound_a <= limit;
    return bound_a <= limit ? goal_a < goal_than : bound_a < bound_than;
}

/* Chains: what is aimed at is moved until what comes of it keeps to the budget. */
typedef struct chain_search {
    remat_run *r;
    dt_chain_stages stages;
    bool revolve;
} chain_search;

/* @aim: bytes for Rotor, states for Revolve. */
static dt_status try_chain(void *ctx, uint64_t aim, uint64_t *peak, dt_err *err)
{
    chain_search *x = ctx;
    dt_chain_plan plan;
    dt_remat_sequence runs;
    dt_remat_taken took = {0};
    dt_err none = {0};
    *peak = UINT64_MAX;
    dt_status st = x->revolve ? dt_revolve_steps(&plan, x->stages.chain.n, aim, err)
                              : dt_chain_solve(&plan, &x->stages.chain, aim, &none);
    if (st == DT_E_BUDGET)
        return DT_OK;
    if (st != DT_OK)
        return x->revolve ? st : DT_FAIL(err, st, "no memory for the table of a chain");
    st = dt_chain_runs(&runs, &x->r->graph, &x->stages, &plan, NULL, err);
    if (st == DT_OK)
        st = dt_remat_measure(&x->r->graph, &runs, &took, err);
    dt_chain_plan_deinit(&plan);
    if (st == DT_OK && better(x->r, took, x->r->found)) {
        const dt_remat_sequence before = x->r->best;
        x->r->best = runs;
        x->r->found = took;
        runs = before;
    }
    dt_remat_sequence_deinit(&runs);
    *peak = took.peak;
    return st;
}

static dt_status solve_chain(remat_run *r, dt_err *err)
{
    enum { STAGES = 128, ROUNDS = 12 };
    chain_search x = {.r = r, .revolve = strcmp(r->policy, revolve_name) == 0};
    r->found = r->base; /* as written */
    dt_status st = dt_chain_of_graph(&x.stages, &r->graph, DT_CHAIN_AUTO, STAGES, NULL, err);
    const uint64_t n = x.stages.chain.n;
    const dt_aim aim = {.budget = r->budget,
        .least = 1,
        .most = x.revolve ? n : DT_CHAIN_MOST_SUM - 1,
        .first = x.revolve ? (n + 1) / 2 : r->budget,
        .rounds = ROUNDS};
    if (st == DT_OK && r->base.peak > r->budget)
        st = dt_aim_search(&aim, try_chain, &x, err);
    dt_chain_stages_deinit(&x.stages);
    return st;
}

static dt_status make_one(const remat_run *r, const dt_remat_policy *p, int k, dt_remat_sequence *s,
    dt_remat_taken *took, dt_err *err)
{
    if (r->published)
        return dt_remat_as_published(&r->graph, p, k, s, took, err);
    DT_CHECK(p->make(&r->graph, k, s, err));
    return dt_remat_measure(&r->graph, s, took, err);
}

static dt_status try_policy(remat_run *r, const dt_remat_policy *p, dt_err *err)
{
    for (int k = 0; k < p->n; k++) {
        dt_remat_sequence s = {0};
        dt_remat_taken took;
        const dt_status st = make_one(r, p, k, &s, &took, err);
        if (st == DT_OK && (k == 0 || better(r, took, r->found))) {
            const dt_remat_sequence before = r->best;
            r->best = s;
            r->found = took;
            s = before;
        }
        dt_remat_sequence_deinit(&s);
        DT_CHECK(st);
    }
    return DT_OK;
}

/* The optimum in the file's order: by shortest paths on small graphs, else by the integer program.
 */
static dt_status solve_exactly(remat_run *r, dt_err *err)
{
    const bool small = r->graph.n_op <= DT_REMAT_MOST_EXACT;
    r->proved = true;
    DT_TRY(err,
        small ? dt_remat_exact(&r->graph, r->budget, NULL, &r->best, err)
              : dt_remat_checkmate(
                    &r->graph, r->budget, (uint64_t)r->nodes, NULL, &r->best, &r->proved, err),
        "%s", r->path);
    if (!small)
        DT_TRY(err, dt_remat_relaxation(&r->graph, r->budget, NULL, &r->relaxation, err), "%s",
            r->path);
    return dt_remat_measure(&r->graph, &r->best, &r->found, err);
}

static dt_status anneal(remat_run *r, uint64_t bound, dt_err *err)
{
    if (r->graph.n_op <= DT_REMAT_MOST_EXACT) {
        dt_err none = {0}; /* another order may still fit */
        const dt_status st = dt_remat_exact(&r->graph, r->budget, NULL, &r->best, &none);
        if (st != DT_OK && st != DT_E_BUDGET)
            return DT_FAIL(err, st, "%s: no memory for all sets of its values", r->path);
    }
    const dt_remat_search how = {.budget = r->budget,
        .seed = (uint64_t)r->seed,
        .moves = (uint64_t)r->moves,
        .bound = bound};
    return dt_remat_anneal(&r->graph, &how, &r->best, &r->found, err);
}

static dt_status search(remat_run *r, const dt_remat_policy *p, dt_err *err)
{
    if (r->budget < dt_remat_least_peak(&r->graph))
        return too_small(r, 0, err);
    DT_CHECK(dt_remat_bound(&r->graph, r->budget, &r->bound, err));
    DT_CHECK(p != NULL     ? try_policy(r, p, err)
             : exactly(r)  ? solve_exactly(r, err)
             : by_chain(r) ? solve_chain(r, err)
                           : anneal(r, r->bound, err));
    if (r->budget_text == NULL)
        r->budget = r->found.peak;
    return r->found.peak <= r->budget ? DT_OK : too_small(r, r->found.peak, err);
}

/* --- the largest batch --- */

/* How a paper's policy is counted: as in the paper, unless by the rules is asked for. */
static dt_status read_accounting(remat_run *r, const dt_remat_policy *p, dt_err *err)
{
    static const char *const names[] = {"published", "rules", NULL};
    if (r->accounting != NULL && (!r->max_batch || p == NULL))
        return DT_FAIL(err, DT_E_CONFIG,
            "--accounting is for --max-batch with --policy keep_all, chen_sqrt or chen_budget");
    if (r->accounting != NULL && strcmp(r->accounting, names[0]) != 0 &&
        strcmp(r->accounting, names[1]) != 0)
        return dt_unknown("--accounting", r->accounting, names, err);
    r->published = r->max_batch && p != NULL &&
                   (r->accounting == NULL || strcmp(r->accounting, names[0]) == 0);
    return DT_OK;
}

/* Bytes and costs are of @batch samples and grow with them; at most one extra forward is run. In
 * the paper's experiment a schedule's peak has the fixed bytes in it, and is held against a device
 * from which they are taken once more. */
static dt_status read_device(remat_run *r, uint64_t *room, dt_err *err)
{
    size_t product;
    const uint64_t times = r->published ? 2 : 1;
    if (r->device_text == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "--max-batch needs --device BYTES, and --fixed BYTES for what does not grow with it");
    DT_CHECK(read_flag("--device", r->device_text, &bytes_row, &r->device, err));
    DT_CHECK(read_flag("--fixed", r->fixed_text, &bytes_row, &r->fixed, err));
    DT_CHECK(read_flag("--batch", r->batch_text, &batch_row, &r->batch, err));
    if (r->fixed >= (r->device + times - 1) / times)
        return DT_FAIL(err, DT_E_BUDGET,
            "--fixed %" PRIu64 "%s leaves nothing of --device %" PRIu64, r->fixed,
            r->published ? ", counted twice as published," : "", r->device);
    if (!dt_mul_bytes(r->device - times * r->fixed, (size_t)r->batch, &product))
        return DT_FAIL(err, DT_E_CONFIG, "--device times --batch is beyond 64 bits");
    *room = product;
    for (uint32_t v = 0; v < r->graph.n_op; v++)
        r->limit += r->graph.backward[v] == 0 ? r->graph.cost[v] : 0;
    r->limit += r->base.cost;
    return DT_OK;
}

/* Halve between a batch that fits and the first that none can; each try goes on from the best
 * sequence so far, which is kept where a try fails. */
static dt_status search_batch(remat_run *r, uint64_t room, dt_err *err)
{
    uint64_t fits = room / r->base.peak;
    uint64_t never = room / dt_remat_least_peak(&r->graph) + 1;
    dt_remat_sequence kept = {0};
    dt_remat_taken least = r->base;
    dt_status st = dt_remat_in_order(&kept, &r->graph, err);
    for (uint64_t n = never - 1; st == DT_OK && fits + 1 < never; n = fits + (never - fits) / 2) {
        r->budget = room / n;
        r->best.n = 0;
        for (size_t i = 0; i < kept.n && st == DT_OK; i++)
            st = dt_remat_push(&r->best, kept.op[i], err);
        if (st == DT_OK)
            st = anneal(r, r->limit, err);
        if (st != DT_OK)
            break;
        if (r->found.peak > r->budget || r->found.cost > r->limit) {
            never = n;
            continue;
        }
        fits = room / r->found.peak;
        least = r->found;
        const dt_remat_sequence before = kept;
        kept = r->best;
        r->best = before;
    }
    dt_remat_sequence_deinit(&r->best);
    r->best = kept;
    r->found = least;
    return st;
}

static dt_status largest_batch(remat_run *r, const dt_remat_policy *p, dt_err *err)
{
    uint64_t room;
    DT_CHECK(read_accounting(r, p, err));
    DT_CHECK(read_device(r, &room, err));
    if (r->base.peak == 0)
        return DT_FAIL(err, DT_E_DATA, "%s: no op has any bytes, so every batch fits", r->path);
    DT_CHECK(p != NULL ? try_policy(r, p, err) : search_batch(r, room, err));
    r->most = r->found.cost <= r->limit ? room / r->found.peak : 0;
    r->budget = room / (r->most > 0 ? r->most : 1);
    if (r->most == 0)
        return DT_FAIL(err, DT_E_BUDGET, "%s: not one sample fits; its peak is %" PRIu64 " bytes",
            r->path, r->found.peak / (uint64_t)r->batch);
    return DT_OK;
}

static dt_status search_file(remat_run *r, dt_err *err)
{
    DT_CHECK(dti_cli_check_file(r->path, err));
    DT_CHECK(dt_remat_read(&r->graph, r->path, err));
    DT_CHECK(dt_remat_in_order(&r->best, &r->graph, err));
    DT_CHECK(dt_remat_measure(&r->graph, &r->best, &r->base, err));
    const dt_remat_policy *policy;
    const double start = dt_seconds();
    DT_CHECK(find_policy(r->policy, &policy, err));
    if (r->max_batch && (exactly(r) || by_chain(r)))
        return DT_FAIL(err, DT_E_CONFIG,
            "--max-batch is for auto, keep_all, chen_sqrt and chen_budget, and not for %s",
            r->policy);
    if (r->max_batch) {
        DT_CHECK(largest_batch(r, policy, err));
    } else {
        DT_CHECK(read_accounting(r, policy, err));
        DT_CHECK(read_budget(r, policy, err));
        DT_CHECK(search(r, policy, err));
    }
    r->seconds = dt_seconds() - start;
    DT_CHECK(write_sequence(r, err));
    if (r->json)
        return show_json(r, err);
    if (r->max_batch)
        show_batch(r);
    else
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

static dt_status write_steps(
    const remat_run *r, const dt_chain *c, const dt_chain_plan *p, dt_err *err)
{
    dt_file_writer *w;
    dt_status st = DT_OK;
    if (r->sequence == NULL)
        return DT_OK;
    DT_CHECK(dt_writer_open(&w, r->sequence, err));
    for (size_t i = 0; i < p->n && st == DT_OK; i++) {
        char name[32];
        const char *step = step_name(c, p->step[i], name, sizeof name);
        if (step != NULL)
            st = dt_writer_put(w, step, strlen(step), err);
        if (step != NULL && st == DT_OK)
            st = dt_writer_put(w, "\n", 1, err);
    }
    if (st != DT_OK) {
        dt_writer_abandon(w);
        return st;
    }
    return dt_writer_commit(w, err);
}

static dt_status show_chain(
    const remat_run *r, const dt_chain *c, const dt_chain_plan *p, dt_err *err)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES];
    uint64_t base = 0;
    for (uint32_t i = 0; i < c->n; i++)
        base += c->stage[i].forward + c->stage[i].backward;
    const double extra = base > 0 ? 100 * ((double)p->cost - (double)base) / (double)base : 0;
    DT_CHECK(write_steps(r, c, p, err));
    if (r->json) {
        dti_json j = dti_json_begin();
        dti_json_whole(&j, "stages", c->n);
        dti_json_whole(&j, "budget", r->budget);
        dti_json_whole(&j, "unit", p->unit);
        dti_json_whole(&j, "cost", p->cost);
        dti_json_whole(&j, "base_cost", base);
        dti_json_real(&j, "extra_percent", extra, 6);
        dti_json_real(&j, "seconds", r->seconds, 3);
        return dti_json_end(&j, err);
    }
    printf("%s: %" PRIu32 " stages, budget %s bytes: cost %s, %.4f %% extra; %.1f seconds\n\n",
        r->path, c->n, dt_human_count(a, r->budget), dt_human_count(b, p->cost), extra, r->seconds);
    for (size_t i = 0; i < p->n; i++) {
        char name[32];
        const char *step = step_name(c, p->step[i], name, sizeof name);
        if (step != NULL)
            printf("%s%s", i > 0 ? " " : "", step);
    }
    printf("\n");
    return DT_OK;
}

static dt_status chain_file(remat_run *r, dt_err *err)
{
    dt_chain c;
    dt_chain_plan p;
    const double start = dt_seconds();
    if (r->budget_text == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "--chain needs --budget BYTES");
    DT_CHECK(read_flag("--budget", r->budget_text, &bytes_row, &r->budget, err));
    r->path = r->chain;
    DT_CHECK(dti_cli_check_file(r->path, err));
    DT_CHECK(dt_chain_read(&c, r->path, err));
    dt_status st = dt_chain_solve(&p, &c, r->budget, err);
    r->seconds = dt_seconds() - start;
    if (st == DT_OK)
        st = show_chain(r, &c, &p, err);
    dt_chain_plan_deinit(&p);
    dt_chain_deinit(&c);
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
        dti_json j = dti_json_begin();
        dti_json_whole(&j, "steps", (uint64_t)n);
        dti_json_whole(&j, "states", (uint64_t)s);
        dti_json_whole(&j, "extra_forwards", extra);
        return dti_json_end(&j, err);
    }
    printf("%" PRId64 " steps, %" PRId64 " states kept: %" PRIu64 " extra forward steps\n", n, s,
        extra);
    return DT_OK;
}

static dt_status run_on(remat_run *r, dt_err *err)
{
    DT_CHECK(read_flag("--seed", r->seed_text, &whole_row, &r->seed, err));
    DT_CHECK(read_flag("--moves", r->moves_text, &whole_row, &r->moves, err));
    DT_CHECK(read_flag("--nodes", r->nodes_text, &nodes_row, &r->nodes, err));
    const dt_status st = search_file(r, err);
    dt_remat_graph_deinit(&r->graph);
    dt_remat_sequence_deinit(&r->best);
    return st;
}

static dt_status remat(const dti_command_args *a, dt_err *err)
{
    remat_run r = {.seed = 1, .batch = 1, .nodes = NODES};
    const dti_flag flags[] = {
        {"--budget", "BYTES|P%", "the peak is to be no higher; P% of that of the file's own order",
            NULL, &r.budget_text},
        {"--policy", "NAME", "auto, checkmate, rotor, revolve, keep_all, chen_sqrt, chen_budget",
            NULL, &r.policy},
        {"--max-batch", NULL, "the largest batch on a device, with at most one extra forward",
            &r.max_batch, NULL},
        {"--device", "BYTES", "of the device, for --max-batch", NULL, &r.device_text},
        {"--fixed", "BYTES", "of it what does not grow with the batch: weights, gradients", NULL,
            &r.fixed_text},
        {"--accounting", "HOW", "of a paper's policy for --max-batch: published (default), rules",
            NULL, &r.accounting},
        {"--batch", "N", "samples that the file's bytes and costs are of; 1 unless given", NULL,
            &r.batch_text},
        {"--chain", "FILE", "in place of a graph a chain of stages, solved exactly", NULL,
            &r.chain},
        {"--revolve", "N,S", "extra forward steps to reverse N alike with S states", NULL,
            &r.revolve},
        {"--json", NULL, "the numbers as one object", &r.json, NULL},
        {"--sequence", "FILE", "write the ops in the order in which they run, one a line", NULL,
            &r.sequence},
        {"--seed", "N", "of the search's random numbers; 1 unless given", NULL, &r.seed_text},
        {"--moves", "N", "changes that are tried; 0: as the graph's size suggests", NULL,
            &r.moves_text},
        {"--nodes", "N", "of the search for checkmate's optimum; 2000 unless given", NULL,
            &r.nodes_text},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_remat, a, flags, false, 1, err);
    r.path = cli.word[0];
    if (st == DT_OK && !cli.help)
        st = cli.n_word == 0 && r.chain != NULL     ? chain_file(&r, err)
             : cli.n_word == 0 && r.revolve != NULL ? revolve(&r, err)
             : cli.n_word == 1 && r.chain == NULL && r.revolve == NULL
                 ? run_on(&r, err)
                 : DT_FAIL(
                       err, DT_E_CONFIG, "name one file of ops; usage: %s", dt_command_remat.usage);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_remat = {
    .name = "remat",
    .usage = "dnntrain remat FILE --budget BYTES|P% [--policy NAME] [--json] [--sequence FILE]",
    .summary = "find what to compute again so that a graph of ops fits a budget, at the least cost",
    .run = remat,
};
