/* SwapAdvisor (Huang et al., ASPLOS 2020): the order of the ops, how memory is shared out among
 * sizes of tensors, and the swaps that follow from both are searched together by a genetic
 * algorithm (memory/policies/swapadvisor_search.h).
 *
 * An individual is an order and a pool of objects in classes of sizes. Where an op wants an object
 * and its class has none that is free, the tensor of that class whose next use is farthest is
 * swapped out; copies begin as early as their object allows. Individuals live on by the seconds
 * that this takes on three queues.
 *
 * Ours differs:
 * - Numbers drawn come from a seed, and individuals are counted, where the paper searches for 30
 *   minutes on 72 cores.
 * - Of the paper's 144 individuals two are for each of those cores. Of 4,000 samples so many have 6
 *   generations of each search, and 32 have 30, of every fourth of which a real plan is made. Steps
 *   are as fast with either: ResNet-50 in 1.1 and 0.9 GB, three seeds each (batch 32, simulated,
 *   P100, 2026-11-29).
 * - The classes are of the search alone: tensors are placed by the run's pool, which needs less. So
 *   it is searched twice, with half of the samples each: first for orders alone, where all tensors
 *   share the limit's bytes and the farthest next use of any tells who leaves, then as in the
 *   paper. What an individual is judged by is not what its plan takes: the best of the population
 *   and of every few generations is made a real plan, by which the limit is moved, and the fastest
 *   real plan that fits is taken. More samples add to what fewer have tried, so none makes a slower
 *   plan.
 * - Before both come the order as given with the limits that its real plans lead to, and the same
 *   by a cache of all bytes that is replayed on the load curve (memory/gap/replay.h): by the
 *   farthest next use, and by the oldest one, the paper's rival ODSwap.
 * - Parameters are no tensors of the pool, as where one lives is said for all programs of a run
 *   before a pass sees one. With @weights those of at least so many bytes live on the host, with
 *   their gradients and the optimizer's state, and come for the ops that read them by copies that
 *   the plan puts in; a parameter that was only read is dropped without a copy, as theirs is in
 *   forward. Which ones do is searched beside the rest: a choice is planned and simulated with a
 *   whole search of its own. The first go by bytes: each of @smallest, and none at all; then come
 *   @weights_samples with a gene a parameter, children of the two fastest before them. The fastest
 *   run that fits is taken.
 * - The queues of the two directions do not slow each other, where the paper's link gives 12 GB/s
 *   one way and 20 both ways together.
 * - An individual beyond the limit is not dropped, but slower by its bytes.
 * - The order stays where another policy has put in copies or recomputes.
 * - Without a budget nothing is done. The input is not copied out, but fetched again. */
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"
#include "memory/gap/replay.h"
#include "memory/policies/swapadvisor_search.h"
#include "memory/remat/aim.h"
#include "memory/reorder.h"

enum { OFF, HOST, SEARCHED, MOST_INDIVIDUALS = 64, LIMITS = 8 };

typedef struct options {
    int weights;
    uint64_t weights_from;
    int64_t seed, samples, population, guard;
    double mutation;
    uint64_t budget, least;
    int64_t individuals;
    int32_t chosen, parent[MOST_INDIVIDUALS][2]; /* of weights, see below */
} options;

static const char *const whose[] = {[OFF] = "off", [HOST] = "host", [SEARCHED] = "search", NULL};

/* From how many bytes on weights live on the host, by choice; 0, the first, is none. */
static const uint64_t smallest[] = {0, 64 << 20, 16 << 20, 4 << 20, 1 << 20, 64 << 10, 1};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"seed",       DT_OPT_I64,   AT(seed),       "1",    0, 1e15,  NULL,   NULL, "seed of the search's random numbers"},
    {"samples",    DT_OPT_I64,   AT(samples),    "4000", 4, 1e9,   NULL,   NULL, "individuals to judge; more never make a slower plan"},
    {"population", DT_OPT_I64,   AT(population), "32",   2, 10000, NULL,   NULL, "individuals that survive a generation; the paper has 144"},
    {"mutation",   DT_OPT_F64,   AT(mutation),   "0.1",  0, 1,     NULL,   NULL, "share of an individual's genes that are mutated"},
    {"guard",      DT_OPT_I64,   AT(guard),      "1",    0, 1e6,   NULL,   NULL, "number of ops for which a tensor stays after its use"},
    {"budget",     DT_OPT_BYTES, AT(budget),     "0",    0, 0,     NULL,   NULL, "most device memory to use; 0: memory.device_budget. Without a budget nothing is done"},
    {"least",      DT_OPT_BYTES, AT(least),      "1MiB", 0, 0,     NULL,   NULL, "bytes of the smallest tensor that is swapped"},
    {"weights",      DT_OPT_ENUM,  AT(weights),  "off",  0, 0,     whose,  NULL, "which parameters live on the host, with their gradients and states; off: none; host: those of weights_from bytes and more; search: those that make the fastest run"},
    {"weights_from", DT_OPT_BYTES, AT(weights_from), "0", 0, 0,    NULL,   NULL, "with weights = host: bytes of the smallest parameter that lives there"},
    {"weights_samples", DT_OPT_I64, AT(individuals), "32", 0, MOST_INDIVIDUALS, NULL, NULL, "with weights = search: number of choices by single parameters to plan, after the seven by size"},
    {NULL,         DT_OPT_I64,   0,              NULL,   0, 0,     NULL,   NULL, NULL},
};
/* clang-format on */

/* ---- weights ---- */

/* A choice of which parameters live on the host is an individual. The first ones go by bytes, as
 * `smallest` says. Each of those behind has a gene a parameter, from one or the other of the two
 * fastest before it, or, now and then, the opposite, where there are bytes to speak of. So it is
 * told by its two parents and its number, from which the same is drawn each time. */
enum { BY_BYTES = DT_COUNT(smallest), LEAST = 64 << 10 };

static bool says_home(const void *given)
{
    return ((const options *)given)->weights == HOST;
}

static size_t home_choices(const void *given)
{
    const options *o = given;
    return o->weights == SEARCHED ? BY_BYTES + (size_t)o->individuals : 1;
}

/* The two fastest of the first n, the first of several. */
static void find_parents(const double *worth, size_t n, int32_t parent[2])
{
    parent[0] = 0;
    for (size_t i = 1; i < n; i++)
        if (worth[i] < worth[parent[0]])
            parent[0] = (int32_t)i;
    parent[1] = parent[0] == 0 ? 1 : 0;
    for (size_t i = 0; i < n; i++)
        if ((int32_t)i != parent[0] && worth[i] < worth[parent[1]])
            parent[1] = (int32_t)i;
}

static void choose_home(void *given, const double *worth, size_t choice)
{
    options *o = given;
    o->weights = choice == 0 ? OFF : HOST;
    o->weights_from = choice < BY_BYTES ? smallest[choice] : 0;
    o->chosen = choice < BY_BYTES ? 0 : (int32_t)choice;
    for (size_t i = BY_BYTES; i <= choice; i++)
        find_parents(worth, i, o->parent[i - BY_BYTES]);
}

/* The gene of a parameter, which its gradient and its states share. */
static bool gene(const options *o, const dt_home *h)
{
    const uint32_t often = (uint32_t)(o->mutation / 2 * 0xFFFFFFFF);
    int32_t i = o->chosen;
    bool turned = false;
    while (i >= BY_BYTES) {
        const dt_u32x4 of = {{(uint32_t)i, (uint32_t)h->node, (uint32_t)h->param, 1}};
        const dt_u32x4 r = dt_philox(of, (uint32_t)o->seed, (uint32_t)((uint64_t)o->seed >> 32));
        turned = turned != (h->param_bytes >= LEAST && r.v[1] < often);
        i = o->parent[i - BY_BYTES][r.v[0] & 1];
    }
    return (i > 0 && h->param_bytes >= smallest[i]) != turned;
}

static dt_tier home(const void *given, dt_device_kind device, const dt_home *h, uint64_t *host)
{
    const options *o = given;
    (void)device, (void)host;
    const bool moves =
        h->role == DT_ROLE_WEIGHTS || h->role == DT_ROLE_GRADIENTS || h->role == DT_ROLE_OPTIMIZER;
    const bool away = o->chosen > 0 ? gene(o, h) : h->param_bytes >= o->weights_from;
    return moves && away ? DT_TIER_HOST : DT_AT_DEVICE;
}

/* @tensor: of those of the problem, the program's; @number: by the program's, the problem's or
 * DT_NONE. @given: the best plan of the order as given, which @limit led to. @tried_bytes
 * @tried_seconds: of the individual whose plan was made last. @best: the program of the best plan,
 * at @cost; NULL: none yet. */
typedef struct advisor {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    dti_dependences d;
    dti_swap_problem x;
    int32_t *tensor, *number;
    dti_genes found;
    dti_swap_plan plan;
    uint64_t budget, limit, tried_bytes;
    double tried_seconds;
    dt_program *best;
    dti_pass_cost cost, given;
} advisor;

/* ---- the problem ---- */

static bool is_written_once(const dt_program *p, int32_t t)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, t, &n);
    for (int32_t i = 1; i < n; i++)
        if (a[i].mode == DT_WRITE)
            return false;
    return n > 0;
}

static bool considered(const advisor *x, int32_t t)
{
    const dt_tensor *of = &x->p->tensor[t];
    return of->home == DT_NONE && of->pin == DT_PIN_NONE && dti_may_free(of, x->o->least) &&
           is_written_once(x->p, t);
}

static int by_bytes(const void *a, const void *b)
{
    const uint64_t *p = a, *q = b;
    return (*p > *q) - (*p < *q);
}

static void find_sizes(advisor *x)
{
    dti_swap_problem *s = &x->x;
    for (size_t i = 0; i < s->n_tensor; i++)
        s->size[i] = x->p->tensor[x->tensor[i]].bytes;
    if (s->n_tensor > 0)
        qsort(s->size, s->n_tensor, sizeof *s->size, by_bytes);
    for (size_t i = 0; i < s->n_tensor; i++)
        if (i == 0 || s->size[i] != s->size[i - 1])
            s->size[s->n_size++] = s->size[i];
    for (size_t i = 0; i < s->n_tensor; i++) {
        const uint64_t bytes = x->p->tensor[x->tensor[i]].bytes;
        while (s->size[s->size_of[i]] != bytes)
            s->size_of[i]++;
    }
}

static void find_tensors(advisor *x)
{
    dti_swap_problem *s = &x->x;
    for (size_t t = 0; t < x->p->n_tensor; t++) {
        x->number[t] = DT_NONE;
        if (!considered(x, (int32_t)t))
            continue;
        const dt_tensor *of = &x->p->tensor[t];
        x->number[t] = (int32_t)s->n_tensor;
        x->tensor[s->n_tensor] = (int32_t)t;
        s->out[s->n_tensor] = dti_copy_seconds(x->env, of, DT_ROW_COPY_OUT);
        s->in[s->n_tensor++] = dti_copy_seconds(x->env, of, DT_ROW_COPY_IN);
    }
}

static void find_args(advisor *x)
{
    dti_swap_problem *s = &x->x;
    int32_t n = 0;
    for (size_t k = 0; k < s->n_op; k++) {
        const dt_op *op = &x->p->op[x->p->order[k]];
        for (int a = 0; a < op->n_arg; a++) {
            const int32_t t = x->number[op->arg[a].tensor];
            bool there = t == DT_NONE;
            for (int32_t i = s->arg_at[k]; i < n && !there; i++)
                there = s->arg[i] == t;
            if (!there)
                s->arg[n++] = t;
        }
        s->arg_at[k + 1] = n;
    }
}

/* What lives while an op runs and is no tensor of the problem. Of another order that is a guess. */
static void find_beside(advisor *x, const dti_load_curve *c)
{
    dti_swap_problem *s = &x->x;
    const dt_program *p = x->p;
    uint64_t own = 0;
    for (size_t i = 0; i < s->n_tensor; i++) {
        int32_t n;
        const dt_access *a = dt_accesses(p, x->tensor[i], &n);
        s->beside[dt_pos(p, a[0].op)] += p->tensor[x->tensor[i]].bytes;
        s->beside[dt_pos(p, a[n - 1].op) + 1] -= p->tensor[x->tensor[i]].bytes;
    }
    for (size_t k = 0; k < s->n_op; k++) { /* what goes below 0 comes back by as much */
        own += s->beside[k];
        s->beside[k] = c->load[k] > own ? c->load[k] - own : 0;
    }
}

/* Without dependences the order stays. */
static dt_status find_dependences(advisor *x, dt_err *err)
{
    dt_err why = {0};
    const dt_status st = dti_dependences_open(&x->d, x->p, &why);
    x->x.fixed = st != DT_OK;
    x->x.after_at = x->d.first;
    x->x.after = x->d.after;
    return st == DT_OK || st == DT_E_CONFIG ? DT_OK : dt_err_append(err, st, why.text);
}

static bool make_problem(advisor *x)
{
    const dt_program *p = x->p;
    dti_swap_problem *s = &x->x;
    x->tensor = dt_alloc(p->n_tensor, sizeof *x->tensor);
    x->number = dt_alloc(p->n_tensor, sizeof *x->number);
    *s = (dti_swap_problem){.n_op = p->n_order,
        .seconds = dt_alloc(p->n_order, sizeof *s->seconds),
        .out = dt_alloc(p->n_tensor, sizeof *s->out),
        .in = dt_alloc(p->n_tensor, sizeof *s->in),
        .arg_at = dt_alloc(p->n_order + 1, sizeof *s->arg_at),
        .arg = dt_alloc(p->n_order * DT_MAX_ARGS, sizeof *s->arg),
        .size_of = dt_alloc(p->n_tensor, sizeof *s->size_of),
        .size = dt_alloc(p->n_tensor, sizeof *s->size),
        .beside = dt_alloc(p->n_order + 1, sizeof *s->beside),
        .guard = (int32_t)x->o->guard,
        .inlined = dti_stands_between(x->env, dti_offload_tier(x->env))};
    return x->tensor != NULL && x->number != NULL && s->seconds != NULL && s->out != NULL &&
           s->in != NULL && s->arg_at != NULL && s->arg != NULL && s->size_of != NULL &&
           s->size != NULL && s->beside != NULL;
}

static dt_status find_seconds(advisor *x, dt_err *err)
{
    double *seconds = dt_alloc(x->p->n_op, sizeof *seconds);
    const dt_status st =
        seconds != NULL ? dti_pass_op_seconds(x->env, x->p, seconds, err) : dti_pass_no_memory(err);
    for (size_t k = 0; st == DT_OK && k < x->x.n_op; k++)
        x->x.seconds[k] = seconds[x->p->order[k]];
    dt_free(seconds);
    return st;
}

static dt_status open_problem(advisor *x, dt_err *err)
{
    if (!make_problem(x))
        return dti_pass_no_memory(err);
    DT_CHECK(find_seconds(x, err));
    find_tensors(x);
    find_sizes(x);
    find_args(x);
    dti_load_curve c;
    const dt_status st = dti_load_curve_open(&c, x->p, x->env, 0, err);
    if (st == DT_OK)
        find_beside(x, &c);
    dti_load_curve_close(&c);
    return st == DT_OK ? find_dependences(x, err) : st;
}

static void close_problem(advisor *x)
{
    dti_swap_problem *s = &x->x;
    dti_dependences_close(&x->d);
    dti_genes_deinit(&x->found);
    dti_swap_plan_deinit(&x->plan);
    dt_free(x->tensor);
    dt_free(x->number);
    dt_free(s->seconds);
    dt_free(s->out);
    dt_free(s->in);
    dt_free(s->arg_at);
    dt_free(s->arg);
    dt_free(s->size_of);
    dt_free(s->size);
    dt_free(s->beside);
}

/* ---- rewriting ---- */

/* The last place from @from up to @most whose op begins before these seconds. */
static int32_t last_before(const advisor *x, double seconds, int32_t from, int32_t most)
{
    while (from < most && x->plan.begin[from + 1] < seconds)
        from++;
    return from;
}

/* The first place from @from up to @most whose op ends no sooner than these seconds; or @most. */
static int32_t place_after(const advisor *x, double seconds, int32_t from, int32_t most)
{
    while (from < most && x->plan.end[from] < seconds)
        from++;
    return from;
}

/* @order: the program's, before copies come between the ops */
static dt_status swap(const advisor *x, const dti_swap *w, const int32_t *order, dt_program *q,
    dti_offloads *all, dt_err *err)
{
    const int32_t tensor = x->tensor[w->tensor];
    const int32_t release = last_before(x, w->gone, w->from, w->to - 1);
    const int32_t fetch = place_after(x, w->fetched, release + 1, w->to);
    const dti_offload_opt o = {.release_after = order[release], .fetch_before = order[fetch]};
    dti_gap g =
        dti_gap_now(q, (dti_gap){.tensor = tensor, .from = order[w->from], .to = order[w->to]});
    DT_CHECK(
        dt_reasons_add(&q->reasons, &g.reason, err, "%s: of %s the one used last, %d ops later",
            q->policy, x->x.common ? "all that is there" : "its class", (int)(w->to - w->from)));
    return dti_offloads_add(all, q, &g, &o, err);
}

static dt_status rewrite(advisor *x, dti_genes *g, dt_program *q, dt_err *err)
{
    DT_CHECK(dti_swap_plan_make(&x->plan, &x->x, g, err));
    if (!x->x.fixed)
        DT_CHECK(dti_reorder(q, g->order, err));
    int32_t *order = dti_order_copy(q); /* copies come between the ops */
    if (order == NULL)
        return dti_pass_no_memory(err);
    dti_offloads all = {0};
    dt_status st = DT_OK;
    for (size_t i = 0; i < x->plan.n && st == DT_OK; i++)
        st = swap(x, &x->plan.swap[i], order, q, &all, err);
    st = dti_offloads_end(&all, q, st, err);
    dt_free(order);
    return st;
}

/* ---- real plans ---- */

/* The best is kept. Takes @q, whatever comes of it. */
static dt_status measure(advisor *x, dt_program *q, dt_status st, dti_pass_cost *cost, dt_err *err)
{
    if (st == DT_OK)
        st = dti_pass_cost_of(x->env, q, cost, err);
    if (st == DT_OK && (x->best == NULL || dti_pass_is_better(cost, &x->cost, x->budget))) {
        dt_program *was = x->best;
        x->best = q;
        x->cost = *cost;
        q = was;
    }
    dt_program_destroy(q);
    return st;
}

static dt_status try_replay(advisor *x, dti_planner_choose *choose, dt_err *err)
{
    const dti_planner_opts o = {.budget = x->budget, .least = x->o->least};
    dti_pass_cost cost;
    dt_program *q = NULL;
    DT_CHECK(dt_program_copy(&q, x->p, err));
    dt_status st = dti_fetch_again(q, err);
    if (st == DT_OK)
        st = dti_planner_run(q, x->env, &o, choose, err);
    return measure(x, q, st, &cost, err);
}

/* The next limit: this one, moved by what the plan is off. */
static uint64_t moved(uint64_t limit, uint64_t peak, uint64_t budget)
{
    if (peak <= budget)
        return limit + (budget - peak);
    const uint64_t over = peak - budget;
    return over < limit / 2 ? limit - over : limit / 2;
}

static dt_status try_individual(advisor *x, dti_genes *g, dti_pass_cost *cost, dt_err *err)
{
    dt_program *q = NULL;
    DT_CHECK(dt_program_copy(&q, x->p, err));
    return measure(x, q, rewrite(x, g, q, err), cost, err);
}

static dt_status try_best(void *self, dti_genes *g, uint64_t *limit, dt_err *err)
{
    advisor *x = self;
    dti_pass_cost cost = {0};
    const bool same = g->bytes == x->tried_bytes &&
                      !(g->seconds < x->tried_seconds || g->seconds > x->tried_seconds);
    if (same)
        return DT_OK;
    x->tried_bytes = g->bytes;
    x->tried_seconds = g->seconds;
    x->x.limit = *limit;
    DT_CHECK(try_individual(x, g, &cost, err));
    *limit = moved(*limit, cost.device, x->budget);
    return DT_OK;
}

/* ---- the search ---- */

/* The program's own order, with bytes in common. */
static dt_status try_limit(void *self, uint64_t limit, uint64_t *peak, dt_err *err)
{
    advisor *x = self;
    dti_pass_cost cost = {0};
    x->x.limit = limit;
    DT_CHECK(try_individual(x, &x->found, &cost, err));
    *peak = cost.device;
    if (x->limit == 0 || dti_pass_is_better(&cost, &x->given, x->budget)) {
        x->given = cost;
        x->limit = limit;
    }
    return DT_OK;
}

static dt_status begin(advisor *x, dt_err *err)
{
    const dti_aim aim = {.budget = x->budget,
        .least = x->budget / 2,
        .most = 2 * x->budget,
        .first = x->budget,
        .rounds = LIMITS};
    for (size_t k = 0; k < x->x.n_op; k++)
        x->found.order[k] = (int32_t)k;
    x->x.common = true;
    return dti_aim_search(&aim, try_limit, x, err);
}

static dt_status evolve(advisor *x, bool common, uint64_t limit, dt_err *err)
{
    const options *o = x->o;
    const dti_swap_opts how = {.seed = (uint64_t)o->seed,
        .samples = (uint64_t)o->samples / (x->x.fixed ? 1 : 2),
        .population = (int32_t)o->population,
        .mutation = o->mutation,
        .tries = x->env->tries,
        .listener = x->env->listener,
        .round = try_best,
        .self = x};
    x->tried_bytes = 0;
    x->x.common = common;
    x->x.limit = limit;
    return dti_swap_search(&x->x, &how, &x->found, err);
}

static dt_status try_all(advisor *x, dt_err *err)
{
    DT_CHECK(open_problem(x, err));
    if (x->x.n_size == 0)
        return DT_OK;
    DT_CHECK(dti_genes_init(&x->found, &x->x, err));
    DT_CHECK(dti_swap_plan_init(&x->plan, &x->x, err));
    DT_CHECK(begin(x, err));
    if (!x->x.fixed)
        DT_CHECK(evolve(x, true, x->limit, err));
    return evolve(x, false, x->budget, err);
}

static dt_status search(advisor *x, dt_err *err)
{
    dti_pass_cost whole = {0};
    DT_CHECK(dti_pass_cost_of(x->env, x->p, &whole, err));
    if (whole.device <= x->budget)
        return DT_OK;
    DT_CHECK(try_replay(x, dti_replay_farthest, err));
    DT_CHECK(try_replay(x, dti_replay_oldest, err));
    DT_CHECK(try_all(x, err));
    /* where no swap makes it smaller than it was, it stays as it was */
    if (x->cost.device <= x->budget || x->cost.device < whole.device)
        dt_program_swap(x->p, x->best);
    return DT_OK;
}

static dt_status swapadvisor(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    advisor x = {.p = p, .env = env, .o = o, .budget = dti_pass_budget(env, o->budget)};
    if (p->loss == DT_NONE || x.budget == 0)
        return DT_OK;
    dt_status st = dt_program_index(p, err);
    if (st == DT_OK)
        st = search(&x, err);
    close_problem(&x);
    dt_program_destroy(x.best);
    return st;
}

static const dti_only_with only_with[] = {
    {"weights_from", "weights", "host"},
    {"weights_samples", "weights", "search"},
    {NULL, NULL, NULL},
};

const dt_policy dt_policy_swapadvisor = {
    .name = "swapadvisor",
    .summary = "order of ops, classes of sizes and swaps, by a genetic search (SwapAdvisor 2020)",
    .exact = true,
    .by_budget = true,
    .wants_budget = true,
    .searches = true,
    .leaves = DT_LEAVES_RUNS,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .only_with = only_with,
    .pass = swapadvisor,
    .home = home,
    .says_home = says_home,
    .home_choices = home_choices,
    .choose_home = choose_home,
};
