/* The search: simulated annealing over sequences of runs, as FastSA does (Imanishi, Xu et al.,
 * NeurIPS 2023).
 *
 * A change of the sequence puts a run before a reader of its value, and the runs of inputs that
 * would have to live longer for it; takes one out, and what ran for it alone; does both; or moves a
 * run within its dependences. It is kept when it costs less, or by chance, the rarer the more it
 * costs and the colder it is. Bytes over the budget cost as well, so the way may lead through
 * sequences that do not fit.
 *
 * Ours differs: any op may run any number of times; the price of bytes follows the search; several
 * rounds begin hot from the same sequence, the last ones warm from the best; the end is counted in
 * changes, never in seconds. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"
#include "memory/remat/runs.h"

enum {
    CHANGES = 48,
    DEPTH = 12,
    REACH = 64,
    SPREAD_EVERY = 8192,
    COOLINGS = 4096,
    AT_LEAST = 32,
    DEAD = 16,
    LONG = 1 << 14
};
static const double moves_for = 80e6, moves_an_op = 3e5, least_moves = 1e6;
/* The price of bytes rises as long as the sequence is over the budget and falls as long as it fits,
 * so that the search stays at the border between the two. */
static const double dearer = 1.1;

typedef struct edit {
    uint32_t slot, op;
    bool put;
} edit;

typedef struct search {
    dti_runs r;
    const dti_remat_search *how;
    uint32_t most_runs;
    edit log[CHANGES];
    size_t n_log;
    dt_u32x4 drawn;
    int n_drawn;
    uint64_t counter;
    uint32_t *best, *scratch; /* sequences */
    size_t n_best;
    dt_remat_taken least; /* of @best; its peak is over the budget as long as nothing fits */
    double tie;           /* bytes that a run at the peak counts */
    double cost_price;    /* so that costs and bytes are in percent of the base cost */
} search;

static uint32_t draw(search *s)
{
    if (s->n_drawn == 0) {
        const dt_u32x4 ctr = {{(uint32_t)s->counter, (uint32_t)(s->counter >> 32), 0, 0}};
        s->counter++;
        s->drawn = dt_philox(ctr, (uint32_t)s->how->seed, (uint32_t)(s->how->seed >> 32));
        s->n_drawn = 4;
    }
    return s->drawn.v[--s->n_drawn];
}

static uint32_t below(search *s, uint32_t n)
{
    return (uint32_t)(((uint64_t)draw(s) * n) >> 32);
}

static double unit(search *s) /* (0, 1) */
{
    return ((double)draw(s) + 0.5) * 0x1p-32;
}

/* --- changes, and how they are taken back --- */

static void put(search *s, uint32_t slot, uint32_t op)
{
    s->log[s->n_log++] = (edit){slot, op, true};
    dti_runs_put(&s->r, slot, op);
}

static void take(search *s, uint32_t slot)
{
    s->log[s->n_log++] = (edit){slot, s->r.op[slot], false};
    dti_runs_take(&s->r, slot);
}

static void undo(search *s)
{
    while (s->n_log > 0) {
        const edit e = s->log[--s->n_log];
        if (e.put)
            dti_runs_take(&s->r, e.slot);
        else
            dti_runs_put(&s->r, e.slot, e.op);
    }
}

static bool room(const search *s)
{
    return s->n_log + 2 < CHANGES && s->r.n_run < s->most_runs;
}

/* The empty slot nearest to @slot on one side, within [low, high); DTI_NO_RUN: none near. */
static uint32_t gap_left(const dti_runs *r, uint32_t slot, uint32_t low)
{
    for (int k = 0; k < REACH && slot > low; k++)
        if (r->op[--slot] == DTI_NO_RUN)
            return slot;
    return DTI_NO_RUN;
}

static uint32_t gap_right(const dti_runs *r, uint32_t slot, uint32_t high)
{
    for (int k = 0; k < REACH && slot + 1 < high; k++)
        if (r->op[++slot] == DTI_NO_RUN)
            return slot;
    return DTI_NO_RUN;
}

/* Run @v once more right before @slot, and some of the inputs that are dead by then. */
static void run_before(search *s, uint32_t v, uint32_t slot, int depth)
{
    dti_runs *r = &s->r;
    const dt_remat_graph *g = r->g;
    const uint32_t at = gap_left(r, slot, r->first[v] + 1);
    if (at == DTI_NO_RUN || !room(s) || r->count[v] >= DTI_REMAT_MOST_RUNS ||
        (s->how->once != NULL && s->how->once[v] != 0))
        return;
    uint32_t dead[DEAD], n = 0;
    for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1] && n < DEAD; i++)
        if (r->end[dti_runs_before(r, g->in[i], at)] < at)
            dead[n++] = g->in[i];
    put(s, at, v);
    for (uint32_t i = 0; i < n && depth > 0; i++)
        if ((draw(s) & 1) != 0)
            run_before(s, dead[i], at, depth - 1);
}

static bool add(search *s)
{
    const dt_remat_graph *g = s->r.g;
    const uint32_t slot = s->r.run[below(s, s->r.n_run)], w = s->r.op[slot];
    const uint32_t n_in = g->in_at[w + 1] - g->in_at[w], had = (uint32_t)s->n_log;
    if (n_in > 0)
        run_before(s, g->in[g->in_at[w] + below(s, n_in)], slot, DEPTH);
    return s->n_log > had;
}

/* A first run that another of the op must not become. */
static bool is_bound(const search *s, uint32_t slot)
{
    return s->how->in_order && s->r.before[slot] == DTI_NO_RUN;
}

/* Take a run out, and the runs of its inputs that nobody reads then. */
static void take_idle(search *s, uint32_t slot, int depth)
{
    dti_runs *r = &s->r;
    const dt_remat_graph *g = r->g;
    const uint32_t v = r->op[slot];
    take(s, slot);
    for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1] && depth > 0; i++) {
        const uint32_t made = dti_runs_before(r, g->in[i], slot);
        /* none, where an input of another input has gone with that */
        if (made != DTI_NO_RUN && r->end[made] == made && r->count[g->in[i]] > 1 &&
            !is_bound(s, made) && room(s))
            take_idle(s, made, depth - 1);
    }
}

static bool drop(search *s)
{
    const dti_runs *r = &s->r;
    for (int k = 0; k < REACH; k++) {
        const uint32_t slot = r->run[below(s, r->n_run)];
        if (r->count[r->op[slot]] < 2 || is_bound(s, slot) ||
            (r->before[slot] == DTI_NO_RUN && r->end[slot] > slot))
            continue;
        take_idle(s, slot, DEPTH);
        return true;
    }
    return false;
}

static bool swap(search *s)
{
    if (drop(s) && add(s))
        return true;
    undo(s);
    return false;
}

/* Slots [*low, *high) to which a run may move: between the runs of the same op, and if it is the
 * first between its inputs' and its readers' first ones, or those of its neighbours. */
static void bounds_of(const search *s, uint32_t slot, uint32_t *low, uint32_t *high)
{
    const dti_runs *r = &s->r;
    const dt_remat_graph *g = r->g;
    const uint32_t v = r->op[slot];
    *low = 0;
    *high = r->after[slot] != DTI_NO_RUN ? r->after[slot] : r->n_slot;
    if (r->before[slot] != DTI_NO_RUN) {
        *low = r->before[slot] + 1;
        return;
    }
    for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++) {
        const uint32_t made = r->first[g->in[i]] + 1;
        *low = made > *low ? made : *low;
    }
    for (uint32_t i = g->out_at[v]; i < g->out_at[v + 1]; i++) {
        const uint32_t read = r->first[g->out[i]];
        *high = read < *high ? read : *high;
    }
    if (s->how->in_order && v > 0 && r->first[v - 1] < slot && r->first[v - 1] >= *low)
        *low = r->first[v - 1] + 1;
    if (s->how->in_order && v + 1 < g->n_op && r->first[v + 1] > slot && r->first[v + 1] < *high)
        *high = r->first[v + 1];
}

/* Where to in [low, high): to an end of it, anywhere, or not far; an empty slot, or DTI_NO_RUN. */
static uint32_t aim(search *s, uint32_t slot, uint32_t low, uint32_t high)
{
    const dti_runs *r = &s->r;
    const uint32_t kind = below(s, 4);
    const bool left = (draw(s) & 1) != 0;
    uint32_t to;
    if (kind == 0)
        return left ? gap_left(r, high, low) : gap_right(r, low - (low > 0), high);
    if (kind == 1) {
        to = low + below(s, high - low);
    } else {
        const uint32_t far = 1 + below(s, (uint32_t)1 << below(s, 9));
        to = left ? (slot >= low + far ? slot - far : low)
                  : (far < high - slot ? slot + far : high - 1);
    }
    if (r->op[to] == DTI_NO_RUN)
        return to;
    return (draw(s) & 1) != 0 ? gap_left(r, to, low) : gap_right(r, to, high);
}

static bool shift(search *s)
{
    const uint32_t slot = s->r.run[below(s, s->r.n_run)];
    uint32_t low, high;
    bounds_of(s, slot, &low, &high);
    if (high - low < 2)
        return false;
    const uint32_t to = aim(s, slot, low, high);
    if (to == DTI_NO_RUN)
        return false;
    put(s, to, s->r.op[slot]);
    take(s, slot);
    return true;
}

static bool propose(search *s)
{
    s->n_log = 0;
    const uint32_t kind = below(s, 20);
    return kind < 5 ? add(s) : kind < 8 ? drop(s) : kind < 10 ? swap(s) : shift(s);
}

/* --- rounds --- */

/**
 * struct course - how hot a round it begins and ends, in percent of the base cost.
 * @least_price: what a percent of the budget costs over it at least, likewise
 */
typedef struct course {
    double hot, cold, least_price;
} course;

static bool better(dt_remat_taken a, dt_remat_taken than, uint64_t budget)
{
    const bool fits = a.peak <= budget, fitted = than.peak <= budget;
    if (fits != fitted)
        return fits;
    return fits ? a.cost < than.cost : a.peak < than.peak;
}

/* Bytes over the budget, and a little for each run that is at the peak, so that of many equal ones
 * each counts. */
static double over(const search *s)
{
    const uint64_t peak = dti_runs_peak(&s->r), budget = s->how->budget;
    return peak > budget ? (double)(peak - budget) + s->tie * (double)dti_runs_at_peak(&s->r) : 0;
}

static void remember(search *s, uint64_t peak)
{
    const dt_remat_taken now = {s->r.cost, peak};
    if (!better(now, s->least, s->how->budget))
        return;
    s->least = now;
    s->n_best = dti_runs_store(&s->r, s->best);
}

/* Nothing better can be found. */
static bool done(const search *s)
{
    return s->least.peak <= s->how->budget && s->least.cost <= s->how->bound;
}

static void anneal(search *s, const course *c, uint64_t moves)
{
    const uint64_t budget = s->how->budget;
    const uint64_t cool_every = moves / COOLINGS > AT_LEAST ? moves / COOLINGS : AT_LEAST;
    const double steps = (double)moves / (double)cool_every + 1;
    const double lowest = c->least_price * 100 / ((double)budget + 1);
    double heat = c->hot * fmax(1, 100.0 / s->r.g->n_op); /* of few ops each costs much */
    const double cooling = pow(c->cold / heat, 1 / steps);
    double price = lowest;
    uint64_t peak = dti_runs_peak(&s->r);
    double was_over = over(s);
    const uint64_t spread_every =
        SPREAD_EVERY > 8 * (uint64_t)s->r.g->n_op ? SPREAD_EVERY : 8 * (uint64_t)s->r.g->n_op;
    /* to copy a long sequence takes as long as many moves */
    const uint64_t copied_for = s->r.n_slot > LONG ? s->r.n_slot / 64 : 0;
    uint64_t quiet_until = 0;
    for (uint64_t k = 0; k < moves && !done(s); k++) {
        if (k % cool_every == cool_every - 1) {
            heat *= cooling;
            price = fmax(lowest, price * (peak > budget ? dearer : 1 / dearer));
        }
        if (k % spread_every == spread_every - 1)
            dti_runs_load(&s->r, s->scratch, dti_runs_store(&s->r, s->scratch));
        const uint64_t cost = s->r.cost;
        if (!propose(s))
            continue;
        dti_runs_settle(&s->r);
        const uint64_t now = dti_runs_peak(&s->r);
        const double now_over = over(s);
        const double worse =
            ((double)s->r.cost - (double)cost) * s->cost_price + (now_over - was_over) * price;
        if (worse > 0 && worse >= -heat * log(unit(s))) {
            undo(s);
            continue;
        }
        peak = now;
        was_over = now_over;
        if (k >= quiet_until) {
            remember(s, peak);
            quiet_until = k + copied_for;
        }
    }
    remember(s, peak);
}

/* All rounds take the same number of moves. */
static const course hot[] = {{1, .002, .1}, {.5, .001, .1}, {1, .005, .05}};
static const course warm[] = {{.1, .0005, .1}, {.05, .0005, .1}};

static dt_status round_from(
    search *s, const course *c, const uint32_t *op, size_t n, uint64_t moves, dt_err *err)
{
    const dt_remat_graph *g = s->r.g;
    const size_t most = 2 * (n > g->n_op ? n : g->n_op);
    dti_runs_deinit(&s->r);
    DT_CHECK(dti_runs_init(&s->r, g, most, err));
    dt_free(s->scratch);
    s->scratch = dt_alloc(most + CHANGES, sizeof *s->scratch);
    void *kept =
        dt_realloc(s->best, (most > s->n_best ? most : s->n_best) + CHANGES, sizeof *s->best);
    s->best = kept != NULL ? kept : s->best;
    if (s->scratch == NULL || kept == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu runs", most);
    s->most_runs = (uint32_t)most;
    dti_runs_load(&s->r, op, n);
    remember(s, dti_runs_peak(&s->r));
    anneal(s, c, moves);
    return DT_OK;
}

/* So many that a graph of a few hundred ops takes some seconds: a move takes the longer the more
 * readers a value has. */
static uint64_t moves_of(const search *s)
{
    if (s->how->moves > 0)
        return s->how->moves;
    const double n = s->r.g->n_op, degree = fmax(1, s->r.g->n_edge / n);
    return (uint64_t)fmax(least_moves, fmin(moves_for / (degree * degree), moves_an_op * n));
}

static dt_status rounds(search *s, const dt_remat_sequence *from, dt_err *err)
{
    const uint64_t each = moves_of(s) / (DT_COUNT(hot) + DT_COUNT(warm));
    for (size_t i = 0; i < DT_COUNT(hot) && !done(s); i++)
        DT_CHECK(round_from(s, &hot[i], from->op, from->n, each, err));
    for (size_t i = 0; i < DT_COUNT(warm) && !done(s); i++) {
        const size_t n = s->n_best;
        uint32_t *start = dt_alloc(n, sizeof *start);
        if (start == NULL)
            return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu runs", n);
        memcpy(start, s->best, n * sizeof *start);
        const dt_status st = round_from(s, &warm[i], start, n, each, err);
        dt_free(start);
        DT_CHECK(st);
    }
    return DT_OK;
}

dt_status dti_remat_anneal(const dt_remat_graph *g, const dti_remat_search *how,
    dt_remat_sequence *io, dt_remat_taken *out, dt_err *err)
{
    DT_CHECK(dti_remat_measure(g, io, out, err));
    search s = {.r = {.g = g}, .how = how, .least = {UINT64_MAX, UINT64_MAX}};
    uint64_t base = 0, bytes = 0;
    for (uint32_t v = 0; v < g->n_op; v++) {
        base += g->cost[v];
        bytes += g->bytes[v];
    }
    s.tie = (double)bytes / g->n_op / 16;
    s.cost_price = 100 / (base > 0 ? (double)base : 1);
    dt_status st = rounds(&s, io, err);
    if (st == DT_OK) {
        io->n = 0;
        for (size_t i = 0; i < s.n_best && st == DT_OK; i++)
            st = dti_remat_push(io, s.best[i], err);
        *out = s.least;
    }
    dti_runs_deinit(&s.r);
    dt_free(s.best);
    dt_free(s.scratch);
    return st;
}
