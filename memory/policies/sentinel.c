/* Sentinel (Ren et al., HPCA 2021). The step is cut into intervals of so many layers. At the begin
 * of an interval the values that the next one needs are fetched, those that are accessed most
 * often first, and a value leaves as soon as no further op of its interval uses it, unless the next
 * interval does. Values that live in one layer alone are short-lived and never move. The length of
 * the intervals (MIL) is the one that leaves the fewest seconds of copies exposed, of those whose
 * values fit: longer ones hide copies behind more ops, and keep more on the device meanwhile. Where
 * there is no room for what the next interval needs (the paper's case 2), it comes as it is needed,
 * and ops wait for all of it; where that is too much as well, it leaves until then.
 *
 * Ours differs:
 * - The paper counts accesses of memory by faults of pages, and moves pages of which short- and
 *   long-lived values share none. Here tensors move, and an access is that of an op; what is short-
 *   lived is moved in no case and needs no region of its own. The pool co_located makes one all the
 *   same, at the begin of the arena, for any policy; it takes more than one region for all.
 * - Layers are runs of ops of one layer of the network, which the paper's user marks.
 * - Its goal, read by the letter, takes the longest interval that has room. Ours is what its figure
 *   5 shows: for each length the copies of each interval are held against the seconds of the one
 *   before, and what is longer is exposed. Room is told by the program's lives, and by a real plan
 *   in the end.
 * - Without a budget the length is that of the lowest peak.
 * - With one, values stay as far as it has room, those accessed most often first. The paper's leave
 *   in any case (stay = off); of its slow memory they come back in time, and nothing is lost from
 *   60 % of fast memory on (figure 10), which over a card's link takes values that stay.
 * - Ops wait for copies that are late, as in the paper's version for cards. Parameters stay where
 *   they live. */
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "memory/gap/least.h"
#include "memory/gap/rewrite.h"
#include "memory/policy.h"

/* So many real plans, and values that stay to so small a part of them: of large programs, whose
 * plans take long, the fewer. */
enum { ONE_BY_ONE = 64, MOST = 128, PLANS = 6, COMPARED = 8, PARTS = 64, MANY_OPS = 4000 };

typedef struct options {
    int64_t layers;
    uint64_t budget, least;
    bool stay;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"layers", DT_OPT_I64,   AT(layers), "0",     0, 1e6, NULL, NULL, "layers per migration interval; 0: the number that fits and hides the most copies"},
    {"budget", DT_OPT_BYTES, AT(budget), "0",     0, 0,   NULL, NULL, "most device memory to use; 0: memory.device_budget. Without a budget the lowest peak"},
    {"least",  DT_OPT_BYTES, AT(least),  "64KiB", 0, 0,   NULL, NULL, "bytes of the smallest tensor that moves"},
    {"stay",   DT_OPT_BOOL,  AT(stay),   "on",    0, 0,   NULL, NULL, "with a budget, keep values as far as they fit; off: each leaves when neither its interval nor the next one needs it"},
    {NULL,     DT_OPT_I64,   0,          NULL,    0, 0,   NULL, NULL, NULL},
};
/* clang-format on */

/* A long-lived value's gap; @accesses: of the value; @rank: how many stay before it. */
typedef struct idle {
    dti_gap gap;
    int32_t accesses;
    double out, in;
    size_t rank;
} idle;

/* What a length comes to; @late: values are fetched as they are needed, not an interval before;
 * @all: even those that the next interval needs leave meanwhile, and ops wait until they are gone;
 * @stay: so many gaps, by rank, are not left; @looked: @bound is that of the program rewritten, no
 * longer what it is at least; @fits: the plan by which @fitting values stay fits, and has that
 * @cost. */
typedef struct choice {
    int64_t layers;
    bool late, all, looked, fits;
    size_t stay, fitting;
    uint64_t bound;
    double exposed;
    dti_pass_cost cost;
} choice;

/* @layer: by place, the number of its layer, of n_layer; @first: by layer, its first place, and one
 * more. @idle: n gaps, those of values that are accessed most often first. */
typedef struct sentinel {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    dti_load_curve curve;
    dti_least least;
    int32_t *layer, *first, n_layer;
    idle *idle;
    size_t n;
} sentinel;

/* ---- layers and values ---- */

/* A run of ops of one node, forward or backward. Ops of none, as sums and copies, belong to the
 * layer before. */
static dt_status find_layers(sentinel *x, dt_err *err)
{
    const dt_program *p = x->p;
    int32_t node = DT_NONE;
    x->layer = dt_alloc(p->n_order + 1, sizeof *x->layer);
    x->first = dt_alloc(p->n_order + 2, sizeof *x->first);
    if (x->layer == NULL || x->first == NULL)
        return dti_pass_no_memory(err);
    for (size_t k = 0; k < p->n_order; k++) {
        const int32_t of = p->op[p->order[k]].node;
        const bool begins = of != DT_NONE && (of != node || p->order[k] == p->loss);
        if (begins || k == 0)
            x->first[x->n_layer++] = (int32_t)k;
        node = of != DT_NONE ? of : node;
        x->layer[k] = x->n_layer - 1;
    }
    x->first[x->n_layer] = (int32_t)p->n_order;
    return DT_OK;
}

static int most_accessed_first(const void *va, const void *vb)
{
    const idle *a = va, *b = vb;
    if (a->accesses != b->accesses)
        return a->accesses > b->accesses ? -1 : 1;
    if (a->gap.tensor != b->gap.tensor)
        return a->gap.tensor < b->gap.tensor ? -1 : 1;
    return a->gap.from_pos < b->gap.from_pos ? -1 : a->gap.from_pos > b->gap.from_pos;
}

/* Those accessed most often, then those that lie idle for the fewest ops: what stays of them is in
 * the way of the fewest others. */
static int stays_first(const void *va, const void *vb)
{
    const idle *a = *(idle *const *)va, *b = *(idle *const *)vb;
    const int32_t of_a = a->gap.to_pos - a->gap.from_pos, of_b = b->gap.to_pos - b->gap.from_pos;
    if (a->accesses != b->accesses)
        return a->accesses > b->accesses ? -1 : 1;
    if (of_a != of_b)
        return of_a < of_b ? -1 : 1;
    return a < b ? -1 : a > b;
}

static dt_status rank_all(const sentinel *x, dt_err *err)
{
    idle **by = dt_alloc(x->n + 1, sizeof(idle *));
    if (by == NULL)
        return dti_pass_no_memory(err);
    for (size_t i = 0; i < x->n; i++)
        by[i] = &x->idle[i];
    if (x->n > 0)
        qsort(by, x->n, sizeof(idle *), stays_first);
    for (size_t i = 0; i < x->n; i++)
        by[i]->rank = i;
    dt_free(by);
    return DT_OK;
}

static int32_t count_accesses(const dt_program *p, int32_t tensor)
{
    int32_t n;
    (void)dt_accesses(p, tensor, &n);
    return n;
}

/* Gaps of a tensor, but those within one layer. */
static void add_gaps(sentinel *x, int32_t tensor)
{
    const dt_tensor *of = &x->p->tensor[tensor];
    const int32_t accesses = count_accesses(x->p, tensor);
    dti_gap g;
    for (int32_t i = 0; dti_gap_next(x->p, tensor, &i, &g);)
        if (x->layer[g.from_pos] != x->layer[g.to_pos])
            x->idle[x->n++] = (idle){.gap = g,
                .accesses = accesses,
                .out = dti_copy_seconds(x->env, of, DT_ROW_COPY_OUT),
                .in = dti_copy_seconds(x->env, of, DT_ROW_COPY_IN)};
}

static dt_status find_idle(sentinel *x, dt_err *err)
{
    const dt_program *p = x->p;
    size_t room = 0; /* a gap is behind an access */
    for (size_t t = 0; t < p->n_tensor; t++)
        room += (size_t)count_accesses(p, (int32_t)t);
    x->idle = dt_alloc(room + 1, sizeof *x->idle);
    if (x->idle == NULL)
        return dti_pass_no_memory(err);
    for (size_t t = 0; t < p->n_tensor; t++)
        if (dti_may_free(&p->tensor[t], x->o->least))
            add_gaps(x, (int32_t)t);
    if (x->n > 0)
        qsort(x->idle, x->n, sizeof *x->idle, most_accessed_first);
    return rank_all(x, err);
}

/* ---- intervals ---- */

static int32_t interval_of(const sentinel *x, int32_t pos, int64_t layers)
{
    return (int32_t)(x->layer[pos] / layers);
}

static int32_t begin_of(const sentinel *x, int32_t interval, int64_t layers)
{
    const int64_t layer = interval * layers;
    return x->first[layer < x->n_layer ? layer : x->n_layer];
}

/* Whether a gap is left and refilled: the interval behind that of its begin does not need it. The
 * places behind which the value is gone, and before which it is fetched. */
static bool moves(
    const sentinel *x, const idle *i, const choice *c, int32_t *release, int32_t *fetch)
{
    const int32_t from = interval_of(x, i->gap.from_pos, c->layers);
    const int32_t to = interval_of(x, i->gap.to_pos, c->layers);
    const int32_t needed_until = c->all ? from : from + 1; /* if it is read there, it stays */
    if (to <= needed_until || i->rank < c->stay)
        return false;
    const int32_t last = begin_of(x, from + 1, c->layers) - 1;
    const double done = x->curve.end[i->gap.from_pos] + i->out;
    *fetch = c->late ? i->gap.to_pos : begin_of(x, to - 1, c->layers);
    *release = i->gap.from_pos;
    while (!c->all && *release < last && x->curve.end[*release] < done)
        ++*release;
    return *fetch > *release + 1;
}

/* Seconds of copies back that are longer than the interval beside which they are made; all of those
 * beside none. */
static dt_status find_exposed(const sentinel *x, choice *c, dt_err *err)
{
    const size_t n = (size_t)(x->n_layer / c->layers) + 2;
    double *in = dt_alloc(n, sizeof *in);
    if (in == NULL)
        return dti_pass_no_memory(err);
    for (size_t k = 0; k < x->n; k++) {
        int32_t release, fetch;
        if (moves(x, &x->idle[k], c, &release, &fetch))
            in[interval_of(x, fetch, c->layers)] += x->idle[k].in;
    }
    c->exposed = 0;
    for (size_t a = 0; a < n; a++) {
        const int32_t from = begin_of(x, (int32_t)a, c->layers),
                      to = begin_of(x, (int32_t)a + 1, c->layers);
        const bool beside = to > from && !c->late;
        const double seconds = beside ? x->curve.end[to - 1] - x->curve.begin[from] : 0;
        c->exposed += in[a] > seconds ? in[a] - seconds : 0;
    }
    dt_free(in);
    return DT_OK;
}

static void find_least(sentinel *x, choice *c)
{
    dti_least_clear(&x->least);
    for (size_t k = 0; k < x->n; k++) {
        int32_t release, fetch;
        if (moves(x, &x->idle[k], c, &release, &fetch))
            dti_least_away(&x->least, release, fetch, x->p->tensor[x->idle[k].gap.tensor].bytes);
    }
    c->bound = dti_least_bytes(&x->least);
}

/* Of the program as it came, or a copy of that, which is only looked at and gives no reasons. */
static dt_status rewrite(const sentinel *x, dt_program *q, const choice *c, dt_err *err)
{
    int32_t *order = dti_order_copy(q); /* copies come between the ops */
    if (order == NULL)
        return dti_pass_no_memory(err);
    dti_offloads all = {0};
    dt_status st = DT_OK;
    for (size_t k = 0; k < x->n && st == DT_OK; k++) {
        const idle *i = &x->idle[k];
        int32_t release, fetch;
        if (!moves(x, i, c, &release, &fetch))
            continue;
        const dti_offload_opt o = {.release_after = order[release], .fetch_before = order[fetch]};
        dti_gap g = dti_gap_now(q, i->gap);
        if (q == x->p)
            st = dt_reasons_add(&q->reasons, &g.reason, err,
                "%s: intervals of %d layer%s; accessed %d time%s", q->policy, (int)c->layers,
                c->layers == 1 ? "" : "s", (int)i->accesses, i->accesses == 1 ? "" : "s");
        if (st == DT_OK)
            st = dti_offloads_add(&all, q, &g, &o, err);
    }
    st = dti_offloads_end(&all, q, st, err);
    dt_free(order);
    return st;
}

/* ---- the length ---- */

typedef struct trial {
    const sentinel *x;
    const choice *c;
} trial;

static dt_status rewrite_in(void *self, dt_program *copy, dt_err *err)
{
    const trial *t = self;
    return rewrite(t->x, copy, t->c, err);
}

static dt_status look(const sentinel *x, choice *c, dt_err *err)
{
    c->looked = true;
    return dti_pass_bound_if(x->env, x->p, rewrite_in, &(trial){x, c}, &c->bound, err);
}

static dt_status fits(const sentinel *x, choice *c, uint64_t budget, bool *yes, dt_err *err)
{
    dti_pass_cost cost = {0};
    DT_CHECK(dti_pass_cost_if(x->env, x->p, rewrite_in, &(trial){x, c}, &cost, err));
    *yes = cost.device <= budget;
    if (*yes) {
        c->fits = true;
        c->fitting = c->stay;
        c->cost = cost;
    }
    return DT_OK;
}

/* At least @least, and @most for a program of few ops. */
static int fewer(const sentinel *x, int most, int least)
{
    const size_t n = x->p->n_order;
    const int by_ops = n > MANY_OPS ? (int)((size_t)most * MANY_OPS / n) : most;
    return by_ops > least ? by_ops : least;
}

/* Of equals the longer interval, which moves less. */
static bool better(const choice *a, const choice *b, uint64_t limit)
{
    const bool fits_a = a->bound <= limit, fits_b = b->bound <= limit;
    if (fits_a != fits_b)
        return fits_a;
    if (!fits_a && a->bound != b->bound)
        return a->bound < b->bound;
    return a->exposed < b->exposed || (!(a->exposed > b->exposed) && a->layers > b->layers);
}

/* One by one, then by half: in a deep network it takes many layers for a copy to hide, or for
 * values to stay. At last one by which nothing moves, and first those for the least room. */
static int list_lengths(const sentinel *x, choice all[MOST])
{
    int n = 0;
    all[n++] = (choice){.layers = 1, .late = true, .all = true};
    all[n++] = (choice){.layers = 1, .late = true};
    for (int64_t layers = 1; layers < x->n_layer && n < MOST - 1; n++) {
        all[n].layers = layers;
        layers += layers < ONE_BY_ONE ? 1 : layers / 2;
    }
    all[n++] = (choice){.layers = x->n_layer + 1};
    return n;
}

static choice *best_of(choice *all, int n, uint64_t limit)
{
    choice *best = &all[0];
    for (int k = 1; k < n; k++)
        best = better(&all[k], best, limit) ? &all[k] : best;
    return best;
}

/* The best is looked at until it has been: no other can then be better. What does not fit when it
 * is placed lowers the limit by as much as a byte below its bound. */
static dt_status choose(sentinel *x, uint64_t budget, choice *taken, dt_err *err)
{
    choice all[MOST] = {{0}};
    const int n = list_lengths(x, all);
    for (int k = 0; k < n; k++) {
        DT_CHECK(find_exposed(x, &all[k], err));
        find_least(x, &all[k]);
    }
    const int most = fewer(x, PLANS, 1);
    uint64_t limit = budget;
    for (int plans = 0;;) {
        choice *best = best_of(all, n, limit);
        if (!best->looked) {
            DT_CHECK(look(x, best, err));
            continue;
        }
        *taken = *best;
        bool yes = true;
        if (best->bound > limit || plans++ == most)
            return DT_OK;
        DT_CHECK(fits(x, best, budget, &yes, err));
        if (yes)
            return DT_OK;
        limit = best->bound - 1;
    }
}

/* Whether so many may stay: by what lives at least, or as they are placed. */
static dt_status may_stay(
    sentinel *x, choice *c, size_t stay, uint64_t budget, bool placed, bool *yes, dt_err *err)
{
    c->stay = stay;
    if (placed)
        return fits(x, c, budget, yes, err);
    find_least(x, c);
    *yes = c->bound <= budget;
    return DT_OK;
}

/* The most between those that fit and those that do not, but for a few. */
static dt_status find_most(
    sentinel *x, choice *c, size_t high, size_t few, uint64_t budget, bool placed, dt_err *err)
{
    size_t low = 0;
    while (high - low > few) {
        const size_t middle = low + (high - low) / 2;
        bool yes = false;
        DT_CHECK(may_stay(x, c, middle, budget, placed, &yes, err));
        if (yes)
            low = middle;
        else
            high = middle;
    }
    c->stay = low;
    return DT_OK;
}

/* As many as the budget has room for; where holes between tensors are in the way, fewer, to a small
 * part. */
static dt_status find_stay(sentinel *x, uint64_t budget, choice *c, dt_err *err)
{
    bool yes = false;
    DT_CHECK(find_most(x, c, x->n + 1, 1, budget, false, err));
    DT_CHECK(fits(x, c, budget, &yes, err));
    const size_t few = c->stay / (size_t)fewer(x, PARTS, 4) + 1;
    return yes ? DT_OK : find_most(x, c, c->stay, few, budget, true, err);
}

/* ---- real plans ---- */

typedef struct fastest {
    choice of;
    bool any;
} fastest;

static const double rounding = 1e-9; /* of sums of seconds */

/* With as many values as may stay. The best so far stays so of what differs by rounding alone. */
static dt_status measure(sentinel *x, uint64_t budget, choice *c, fastest *best, dt_err *err)
{
    if (x->o->stay)
        DT_CHECK(find_stay(x, budget, c, err));
    if (!c->fits || c->fitting != c->stay)
        DT_CHECK(dti_pass_cost_if(x->env, x->p, rewrite_in, &(trial){x, c}, &c->cost, err));
    dti_pass_cost rounded_up = c->cost;
    rounded_up.seconds *= 1 + rounding;
    if (!best->any || dti_pass_is_better(&rounded_up, &best->of.cost, budget))
        *best = (fastest){*c, true};
    return DT_OK;
}

/* What a length leaves exposed when as many values stay as there is room for. */
static dt_status estimate(sentinel *x, uint64_t budget, choice *c, dt_err *err)
{
    if (x->o->stay)
        DT_CHECK(find_most(x, c, x->n + 1, 1, budget, false, err));
    find_least(x, c);
    return find_exposed(x, c, err);
}

static bool is_same(const choice *a, const choice *b)
{
    return a->layers == b->layers && a->late == b->late && a->all == b->all;
}

/* The fastest of the plan of the length chosen and of those that by now are expected to leave the
 * least exposed. */
static dt_status compare(sentinel *x, uint64_t budget, choice *taken, dt_err *err)
{
    choice all[MOST] = {{0}};
    fastest best = {0};
    const int n = list_lengths(x, all), most = fewer(x, COMPARED, 1);
    for (int k = 0; k < n; k++)
        DT_CHECK(estimate(x, budget, &all[k], err));
    DT_CHECK(measure(x, budget, taken, &best, err));
    for (int plans = 0; plans < most && plans < n; plans++) {
        choice *next = best_of(all, n - plans, budget);
        if (!is_same(next, taken))
            DT_CHECK(measure(x, budget, next, &best, err));
        *next = all[n - plans - 1];
    }
    *taken = best.of;
    return DT_OK;
}

/* The length, by the budget, of those that the configuration leaves open. */
static dt_status find_length(sentinel *x, uint64_t budget, choice *taken, dt_err *err)
{
    if (taken->layers == 0) {
        DT_CHECK(choose(x, budget, taken, err));
        return budget > 0 ? compare(x, budget, taken, err) : DT_OK;
    }
    return budget > 0 && x->o->stay ? find_stay(x, budget, taken, err) : DT_OK;
}

static dt_status sentinel_pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const uint64_t budget = dti_pass_budget(env, o->budget);
    dt_lower_opts lower;
    const dt_pass_env within = dti_pass_within(env, budget, &lower);
    sentinel x = {.p = p, .env = &within, .o = o};
    choice taken = {.layers = x.o->layers};
    if (p->loss == DT_NONE)
        return DT_OK;
    dt_status st = dt_program_index(p, err);
    if (st == DT_OK)
        st = dti_load_curve_open(&x.curve, p, env, 0, err);
    if (st == DT_OK)
        st = find_layers(&x, err);
    if (st == DT_OK)
        st = find_idle(&x, err);
    if (st == DT_OK)
        st = dti_least_open(&x.least, &x.curve, p, env, err);
    if (st == DT_OK)
        st = find_length(&x, budget, &taken, err);
    if (st == DT_OK)
        st = rewrite(&x, p, &taken, err);
    dti_least_close(&x.least);
    dti_load_curve_close(&x.curve);
    dt_free(x.layer);
    dt_free(x.first);
    dt_free(x.idle);
    return st;
}

const dt_policy dt_policy_sentinel = {
    .name = "sentinel",
    .summary =
        "values of the next interval of layers come, those of the last leave (Sentinel 2021)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = sentinel_pass,
};
