/* AutoTM (Hildebrand et al., ASPLOS 2020): where each value is when, as an integer program over the
 * ops of the step (memory/policies/autotm_program.h), solved by CBC. What it makes small are the
 * seconds of copies that no op hides; what it keeps to is the device's bytes at every op.
 *
 *     static        a value is away whenever no op uses it, or never
 *     synchronous   each absence for itself; its copies stand between the ops
 *     asynchronous  copies may also be beside one of some ops behind the one use, and before the
 *                   next; of those of one op, what is longer than it is noticed
 *
 * The relaxation is rounded at twelve thresholds, and copies go to where they show least. Where
 * that is not within a hundredth of the relaxation, the program is branched and bounded by a number
 * of nodes, unless it has more than a thousand columns. What was found, the relaxation's bound, and
 * that a number of nodes that was asked for went unused, stand in the reasons.
 *
 * Ours differs:
 * - The paper's static mode moves nothing: a value is in fast memory or in slow memory for the
 *   whole step, where its ops read it. Ours, whose ops find values on the device, moves one
 *   whenever no op uses it.
 * - The paper's processors read slow memory as well, so its ops may run where their values are.
 *   Here ops find their values on the device, as on the paper's cards.
 * - A value that leaves a second time is copied out again; in the paper the first copy still holds.
 *   None does in ResNet-50 within half and a quarter of keep_all's bytes.
 * - A copy is not bound to the op that is to hide it: behind that op its bytes are wanted, and
 *   whoever wants them waits.
 * - Algorithms of ops are chosen by memory.algorithms, and not by the same program.
 * - When holes between addresses take a plan above the budget, the limit of every op is lowered,
 *   and not those of some ops by a fiftieth; of the limits tried, the fastest plan that fits.
 * - A placement of a simpler mode is one of the others, too, and is taken where the whole step is
 *   simulated to be faster with it: the program knows nothing of copies that wait for each other.
 * - Without a budget the limit is the least there is. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/gap/rewrite.h"
#include "memory/policies/autotm_program.h"
#include "memory/remat/aim.h"

enum { STATIC, SYNCHRONOUS, ASYNCHRONOUS, ROUNDS = 3, NODES = 100 };

typedef struct options {
    int mode;
    int64_t reach, nodes;
    uint64_t budget, least;
} options;

static const char *const modes[] = {"static", "synchronous", "asynchronous", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"mode",   DT_OPT_ENUM,  AT(mode),   "asynchronous", 0, 0, modes, NULL, "what is decided; static: whether a value leaves whenever it is idle; synchronous: this for each absence; asynchronous: also beside which ops its copies run"},
    {"reach",  DT_OPT_I64,   AT(reach),  "15",   1, 1000,    NULL, NULL, "with mode = asynchronous: how many ops away from a use a copy may run"},
    {"nodes",  DT_OPT_I64,   AT(nodes),  "100",  0, 1 << 30, NULL, NULL, "most branch-and-bound nodes of each search, of which there are up to eight; 0, or if the program has more than 1000 columns: the relaxation is only rounded"},
    {"budget", DT_OPT_BYTES, AT(budget), "0",    0, 0,       NULL, NULL, "most device memory to use; 0: memory.device_budget. Without a budget the lowest peak"},
    {"least",  DT_OPT_BYTES, AT(least),  "1MiB", 0, 0,       NULL, NULL, "bytes of the smallest tensor that is considered"},
    {NULL,     DT_OPT_I64,   0,          NULL,   0, 0,       NULL, NULL, NULL},
};
/* clang-format on */

/* @mode: whose placement @place is
 * @hides: copies may be beside ops
 * @gap: of each absence of @place
 * @best: the placement that is taken, of @best_mode, with what comes of it, if one was @found
 * @too_wide: the mode that was asked for has too many columns for branch and bound */
typedef struct autotm {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    uint64_t budget;
    int mode;
    bool hides;
    dti_load_curve curve;
    dti_placement place;
    double *hidden;
    dti_gap *gap;
    dti_placement best;
    int best_mode;
    dti_pass_cost cost;
    bool found, too_wide;
} autotm;

/* @to: NULL: they are counted */
static size_t find_absences(const autotm *x, dti_absence_of *to)
{
    size_t n = 0;
    for (size_t t = 0; t < x->p->n_tensor; t++) {
        const dt_tensor *of = &x->p->tensor[t];
        dti_gap g;
        for (int32_t i = 0; dti_may_free(of, x->o->least) && dti_gap_next(x->p, (int32_t)t, &i, &g);
             n++) {
            if (to == NULL)
                continue;
            x->gap[n] = g;
            to[n] = (dti_absence_of){.tensor = (int32_t)t,
                .from = g.from_pos,
                .to = g.to_pos,
                .bytes = of->bytes,
                .out = dti_copy_seconds(x->env, of, DT_ROW_COPY_OUT),
                .in = dti_copy_seconds(x->env, of, DT_ROW_COPY_IN)};
        }
    }
    return n;
}

static dt_status open_all(autotm *x, dt_err *err)
{
    DT_CHECK(dt_program_index(x->p, err));
    DT_CHECK(dti_load_curve_open(&x->curve, x->p, x->env, 0, err));
    const size_t n = find_absences(x, NULL);
    x->gap = dt_alloc(n + 1, sizeof *x->gap);
    x->hidden = dt_alloc(x->curve.n + 1, sizeof *x->hidden);
    x->hides = !dti_stands_between(x->env, dti_offload_tier(x->env));
    x->place = (dti_placement){.n_place = x->curve.n,
        .hidden = x->hidden,
        .load = x->curve.load,
        .of = dt_alloc(n + 1, sizeof *x->place.of),
        .nodes = (int)x->o->nodes};
    x->best.of = dt_alloc(n + 1, sizeof *x->best.of);
    if (x->gap == NULL || x->hidden == NULL || x->place.of == NULL || x->best.of == NULL)
        return dti_pass_no_memory(err);
    for (size_t k = 0; k < x->curve.n; k++)
        x->hidden[k] = x->curve.op[k] >= 0 ? x->curve.end[k] - x->curve.begin[k] : 0;
    x->place.n = find_absences(x, x->place.of);
    return DT_OK;
}

static void close_all(autotm *x)
{
    dti_load_curve_close(&x->curve);
    dt_free(x->place.of);
    dt_free(x->best.of);
    dt_free(x->gap);
    dt_free(x->hidden);
}

/* ---- rewriting ---- */

/* Whether a number of nodes that was asked for changes nothing for the mode that was. */
static bool nodes_go_unused(const autotm *x)
{
    return x->too_wide && x->o->nodes != NODES && x->o->nodes > 0;
}

static dt_status leave(const autotm *x, const dti_absence_of *a, const dti_gap *gap,
    const int32_t *order, dt_program *q, dti_offloads *all, dt_err *err)
{
    const dti_offload_opt o = {.release_after = order[a->release], .fetch_before = order[a->fetch]};
    dti_gap g = dti_gap_now(q, *gap);
    if (!a->away || a->fetch <= a->release + 1)
        return DT_OK;
    DT_CHECK(dt_reasons_add(&q->reasons, &g.reason, err,
        "%s: %s, copies show for %.4g ms, for %.4g at least in any placement%s", q->policy,
        modes[x->mode], 1e3 * x->place.cost, 1e3 * x->place.bound,
        nodes_go_unused(x) ? "; nodes unused: over 1000 columns" : ""));
    return dti_offloads_add(all, q, &g, &o, err);
}

/* By the placement, of the program as it came or a copy of that. */
static dt_status rewrite(void *self, dt_program *q, dt_err *err)
{
    const autotm *x = self;
    int32_t *order = dti_order_copy(q); /* copies come between the ops */
    if (order == NULL)
        return dti_pass_no_memory(err);
    dti_offloads all = {0};
    dt_status st = DT_OK;
    for (size_t i = 0; i < x->place.n && st == DT_OK; i++)
        st = leave(x, &x->place.of[i], &x->gap[i], order, q, &all, err);
    st = dti_offloads_end(&all, q, st, err);
    dt_free(order);
    return st;
}

/* ---- what is taken ---- */

static void keep(autotm *x, const dti_pass_cost *cost)
{
    dti_absence_of *was = x->best.of;
    x->best = x->place;
    x->place.of = was;
    memcpy(was, x->best.of, x->best.n * sizeof *was);
    x->best_mode = x->mode;
    x->cost = *cost;
    x->found = true;
}

/* The best placement of a mode within a limit, and what comes of it. */
static dt_status try_limit(void *self, uint64_t limit, uint64_t *peak, dt_err *err)
{
    autotm *x = self;
    dti_pass_cost cost = {0};
    x->place.limit = limit;
    x->place.tied = x->mode == STATIC;
    x->place.reach = x->mode == ASYNCHRONOUS && x->hides ? (int32_t)x->o->reach : 0;
    DT_CHECK(dti_placement_solve(&x->place, err));
    x->too_wide |= x->mode == x->o->mode && x->place.too_wide;
    DT_CHECK(dti_pass_cost_if(x->env, x->p, rewrite, x, &cost, err));
    if (!x->found || dti_pass_is_better(&cost, &x->cost, x->budget))
        keep(x, &cost);
    *peak = cost.device;
    return DT_OK;
}

/* Within the budget: of some limits, and of simpler modes at the limit that is best. */
static dt_status find_within(autotm *x, uint64_t least, dt_err *err)
{
    const uint64_t most = x->budget > least ? x->budget : least;
    const dti_aim a = {x->budget, least, most, most, ROUNDS};
    uint64_t peak;
    DT_CHECK(dti_aim_search(&a, try_limit, x, err));
    if (x->cost.device > x->budget)
        return try_limit(x, least, &peak, err);
    const uint64_t limit = x->best.limit;
    for (x->mode--; x->mode >= STATIC; x->mode--)
        DT_CHECK(try_limit(x, limit, &peak, err));
    return DT_OK;
}

static dt_status find(autotm *x, dt_err *err)
{
    const uint64_t least = dti_placement_least(&x->place);
    uint64_t peak;
    x->mode = x->o->mode;
    if (x->budget > 0)
        DT_CHECK(find_within(x, least, err));
    else
        DT_CHECK(try_limit(x, least, &peak, err));
    const dti_placement last = x->place;
    x->place = x->best;
    x->best = last;
    x->mode = x->best_mode;
    return DT_OK;
}

static dt_status autotm_pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    autotm x = {.p = p, .env = env, .o = o, .budget = dti_pass_budget(env, o->budget)};
    if (p->loss == DT_NONE)
        return DT_OK;
    dt_status st = open_all(&x, err);
    if (st == DT_OK)
        st = find(&x, err);
    if (st == DT_OK)
        st = rewrite(&x, p, err);
    close_all(&x);
    return st;
}

static const dti_only_with only_with[] = {
    {"reach", "mode", "asynchronous"},
    {NULL, NULL, NULL},
};

const dt_policy dt_policy_autotm = {
    .name = "autotm",
    .summary = "which values leave, and beside which ops, by an integer program (AutoTM 2020)",
    .exact = true,
    .by_budget = true,
    .searches = true,
    .leaves = DT_LEAVES_RUNS,
    .solver = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .only_with = only_with,
    .pass = autotm_pass,
};
