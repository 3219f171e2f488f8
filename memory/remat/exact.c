/* The optimum on small graphs: first runs in the graph's order, and any op again at any time. It is
 * at most that of Checkmate's integer program (Jain et al., MLSys 2020), which runs an op at most
 * once before each first run. Branch and bound, best first (A* of Hart, Nilsson and Raphael, 1968),
 * over how many ops have run and what is there.
 *
 * A value goes only when room is wanted, as nothing is gained by letting it go sooner, and only as
 * many go as must. The bound of a state is what must still run: all first runs; once more what they
 * read and is not there, with what that reads; and behind a later first run, what cannot have
 * stayed over it. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "memory/remat/remat.h"

#define NEVER UINT64_MAX /* a cost */
enum { MOST = DTI_REMAT_MOST_EXACT, NONE = 255 };

typedef uint64_t set; /* of ops, or their values */

/**
 * struct state - where a search may go on.
 * @there: values that some op still wants
 * @cost:  of what has run; @bound: of all to the end, at least
 * @from:  the state before
 * @ran:   first runs so far
 * @op:    what ran last, or waits for room
 * @gone:  the value that was the last to make room for it; NONE: the op has run
 */
typedef struct state {
    set there;
    uint64_t cost, bound;
    uint32_t from;
    uint8_t ran, op, gone;
} state;

typedef struct entry {
    uint64_t bound;
    uint32_t state;
    uint8_t ran;
} entry;

/**
 * struct paths - a search.
 * @in:     by op, what it reads
 * @wanted: by how many have run, what the others read, or ops that would run again for them
 * @first:  by how many have run, what the first runs of the others cost
 * @later:  by op, what must run again behind its first run, whatever was before
 * @state:  the first is the beginning; at most @most
 * @slot:   numbers of states, by a hash of ran and there, of those where no op waits; 0: none
 * @heap:   of those to go on from, the least bound at its top
 */
typedef struct paths {
    const dt_remat_graph *g;
    const uint8_t *once;
    uint64_t budget;
    set in[MOST], wanted[MOST + 1];
    uint64_t first[MOST + 1], later[MOST];
    state *state;
    size_t n_state, cap_state, most;
    uint32_t *slot;
    size_t n_slot;
    entry *heap;
    size_t n_heap, cap_heap;
} paths;

static set bit(uint32_t v)
{
    return (set)1 << v;
}

/* The lowest of a set that is not empty, which loses it. */
static uint32_t take(set *s)
{
    const uint32_t v = (uint32_t)__builtin_ctzll(*s);
    *s &= *s - 1;
    return v;
}

static uint64_t bytes_of(const paths *p, set s)
{
    uint64_t sum = 0;
    while (s != 0)
        sum += p->g->bytes[take(&s)];
    return sum;
}

/* --- bounds --- */

static bool only_once(const paths *p, uint32_t v)
{
    return p->once != NULL && p->once[v] != 0;
}

/* Whether a byte of u is computed again for less than one of v. */
static bool is_cheaper(const dt_remat_graph *g, uint32_t u, uint32_t v)
{
    return (double)g->cost[u] * (double)g->bytes[v] < (double)g->cost[v] * (double)g->bytes[u];
}

/* Values that may run again, the cheapest byte first. */
static uint32_t sort_by_price(const paths *p, set s, uint32_t *order)
{
    uint32_t n = 0;
    while (s != 0) {
        const uint32_t v = take(&s);
        if (p->g->bytes[v] == 0 || only_once(p, v))
            continue;
        uint32_t i = n++;
        for (; i > 0 && is_cheaper(p->g, v, order[i - 1]); i--)
            order[i] = order[i - 1];
        order[i] = v;
    }
    return n;
}

/* Of values that compete for @room bytes, the least cost of those that find none, were each to run
 * again without its inputs: a knapsack that may cut one. */
static uint64_t knapsack(const paths *p, set s, uint64_t room)
{
    const dt_remat_graph *g = p->g;
    const uint64_t all = bytes_of(p, s);
    uint64_t over = all > room ? all - room : 0;
    uint32_t order[MOST];
    double cost = 0;
    const uint32_t n = over > 0 ? sort_by_price(p, s, order) : 0;
    for (uint32_t i = 0; i < n && over > 0; i++) {
        const uint64_t bytes = g->bytes[order[i]], part = bytes < over ? bytes : over;
        cost += (double)g->cost[order[i]] * ((double)part / (double)bytes);
        over -= part;
    }
    return (uint64_t)(cost * (1 - 1e-12)); /* what sums may be wrong by */
}

/* Of what was made before x and ops behind it read, up to some y, that which cannot have stayed
 * over x runs again before y has run; and then comes what is behind y. */
static void bound_later(paths *p)
{
    const dt_remat_graph *g = p->g;
    for (uint32_t x = g->n_op; x-- > 0;) {
        const uint64_t own = g->bytes[x] + bytes_of(p, p->in[x]);
        const uint64_t room = own < p->budget ? p->budget - own : 0;
        set read = 0;
        p->later[x] = 0;
        for (uint32_t y = x + 1; y < g->n_op; y++) {
            read |= p->in[y] & (bit(x) - 1) & ~p->in[x];
            const uint64_t least = knapsack(p, read, room) + p->later[y];
            p->later[x] = least > p->later[x] ? least : p->later[x];
        }
    }
}

static void prepare(paths *p)
{
    const dt_remat_graph *g = p->g;
    for (uint32_t v = 0; v < g->n_op; v++)
        for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++)
            p->in[v] |= bit(g->in[i]);
    for (uint32_t ran = g->n_op; ran-- > 0;) {
        p->first[ran] = p->first[ran + 1] + g->cost[ran];
        p->wanted[ran] = p->wanted[ran + 1] | p->in[ran];
    }
    for (uint32_t ran = 0; ran < g->n_op; ran++)
        for (uint32_t v = ran; v-- > 0;)
            p->wanted[ran] |= (p->wanted[ran] & bit(v)) != 0 ? p->in[v] : 0;
    bound_later(p);
}

/* What it costs at least to go on to the end. */
static uint64_t bound(const paths *p, uint32_t ran, set there)
{
    const dt_remat_graph *g = p->g;
    const set before = bit(ran) - 1;
    set again = 0;
    uint64_t cost = 0, most = 0;
    for (uint32_t x = ran; x < g->n_op; x++) {
        set lacks = p->in[x] & before & ~there & ~again;
        while (lacks != 0) {
            const uint32_t v = take(&lacks);
            if (only_once(p, v))
                return NEVER;
            again |= bit(v);
            cost += g->cost[v];
            lacks |= p->in[v] & ~there & ~again;
        }
        most = cost + p->later[x] > most ? cost + p->later[x] : most;
    }
    return p->first[ran] + most;
}

/* --- states --- */

static bool before(entry a, entry b)
{
    if (a.bound != b.bound)
        return a.bound < b.bound;
    return a.ran != b.ran ? a.ran > b.ran : a.state > b.state;
}

static dt_status push(paths *p, entry e, dt_err *err)
{
    if (!dt_grow(&p->heap, &p->cap_heap, p->n_heap, sizeof *p->heap))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu states", p->n_heap);
    size_t i = p->n_heap++;
    for (; i > 0 && before(e, p->heap[(i - 1) / 2]); i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = e;
    return DT_OK;
}

static entry pop(paths *p)
{
    const entry least = p->heap[0], last = p->heap[--p->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < p->n_heap; i = child) {
        if (child + 1 < p->n_heap && before(p->heap[child + 1], p->heap[child]))
            child++;
        if (!before(p->heap[child], last))
            break;
        p->heap[i] = p->heap[child];
    }
    p->heap[i] = last;
    return least;
}

/* Where the state is, or its place in p->slot, which holds 0. */
static size_t find(const paths *p, uint32_t ran, set there)
{
    uint64_t h = (there ^ (uint64_t)ran << 57) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = (size_t)(h >> 20) % p->n_slot;; i = (i + 1) % p->n_slot) {
        const state *s = &p->state[p->slot[i]];
        if (p->slot[i] == 0 || (s->ran == ran && s->there == there))
            return i;
    }
}

/* Of more than the most, @full says so. */
static dt_status add(paths *p, const state *s, bool *full, dt_err *err)
{
    *full = p->n_state == p->most;
    if (*full)
        return DT_OK;
    if (!dt_grow(&p->state, &p->cap_state, p->n_state, sizeof *p->state))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu states", p->n_state);
    p->state[p->n_state++] = *s;
    return push(p, (entry){s->bound, (uint32_t)p->n_state - 1, s->ran}, err);
}

/* From a state, of which @kept is left, @op runs. */
static dt_status run(paths *p, uint32_t from, uint32_t op, set kept, bool *full, dt_err *err)
{
    const state *was = &p->state[from];
    const uint32_t ran = was->ran + (op == was->ran ? 1u : 0u);
    const set there = (kept | bit(op)) & p->wanted[ran];
    const uint64_t cost = was->cost + p->g->cost[op], rest = bound(p, ran, there);
    const size_t at = find(p, ran, there);
    const state s = {there, cost, cost + rest, from, (uint8_t)ran, (uint8_t)op, NONE};
    if (rest == NEVER || (p->slot[at] != 0 && p->state[p->slot[at]].cost <= cost))
        return DT_OK;
    if (p->slot[at] != 0) {
        p->state[p->slot[at]] = s;
        return push(p, (entry){s.bound, p->slot[at], s.ran}, err);
    }
    p->slot[at] = (uint32_t)p->n_state;
    return add(p, &s, full, err);
}

/* From a state, @op waits until enough has gone; the last was @gone. */
static dt_status hold_back(
    paths *p, uint32_t from, uint32_t op, set kept, uint32_t gone, bool *full, dt_err *err)
{
    const state *was = &p->state[from];
    const uint64_t rest = bound(p, was->ran, kept);
    const state s = {kept, was->cost, was->cost + rest, from, was->ran, (uint8_t)op, (uint8_t)gone};
    return rest == NEVER ? DT_OK : add(p, &s, full, err);
}

/* --- what can follow --- */

/* The order in which values go, the largest first: so when there is room enough, each of those that
 * went was needed for that. */
static bool goes_after(const paths *p, uint32_t v, uint32_t last)
{
    const uint64_t *bytes = p->g->bytes;
    return last == NONE || bytes[v] < bytes[last] || (bytes[v] == bytes[last] && v > last);
}

static uint32_t goes_first(const paths *p, set s)
{
    uint32_t v = take(&s);
    while (s != 0) {
        const uint32_t u = take(&s);
        v = goes_after(p, v, u) ? u : v;
    }
    return v;
}

/* From a state on, one more value goes, so that @op can run when @lack bytes more are free; one
 * that is behind @last, which went before it. */
static dt_status make_room(
    paths *p, uint32_t from, uint32_t op, uint32_t last, uint64_t lack, bool *full, dt_err *err)
{
    const set there = p->state[from].there;
    set may = 0;
    uint64_t left = 0;
    for (set rest = there & ~p->in[op]; rest != 0;) {
        const uint32_t v = take(&rest);
        if (p->g->bytes[v] > 0 && goes_after(p, v, last)) {
            may |= bit(v);
            left += p->g->bytes[v];
        }
    }
    while (may != 0 && left >= lack && !*full) {
        const uint32_t v = goes_first(p, may);
        const set kept = there & ~bit(v);
        const uint64_t bytes = p->g->bytes[v];
        if (bytes >= lack)
            DT_CHECK(run(p, from, op, kept, full, err));
        else
            DT_CHECK(hold_back(p, from, op, kept, v, full, err));
        may &= ~bit(v);
        left -= bytes;
    }
    return DT_OK;
}

static uint64_t lacking(const paths *p, uint32_t op, set there)
{
    const uint64_t all = bytes_of(p, there) + p->g->bytes[op];
    return all > p->budget ? all - p->budget : 0;
}

static dt_status leave(paths *p, uint32_t from, bool *full, dt_err *err)
{
    const state s = p->state[from];
    if (s.gone != NONE)
        return make_room(p, from, s.op, s.gone, lacking(p, s.op, s.there), full, err);
    set may = (p->wanted[s.ran] & (bit(s.ran) - 1) & ~s.there) | bit(s.ran);
    while (may != 0 && !*full) {
        const uint32_t op = take(&may);
        const uint64_t lack = lacking(p, op, s.there);
        if ((p->in[op] & ~s.there) != 0 || (op < s.ran && only_once(p, op)))
            continue;
        DT_CHECK(lack == 0 ? run(p, from, op, s.there, full, err)
                           : make_room(p, from, op, NONE, lack, full, err));
    }
    return DT_OK;
}

static dt_status write_down(const paths *p, uint32_t at, dt_remat_sequence *out, dt_err *err)
{
    out->n = 0;
    for (; at != 0; at = p->state[at].from)
        if (p->state[at].gone == NONE)
            DT_CHECK(dti_remat_push(out, p->state[at].op, err));
    for (size_t i = 0; i < out->n / 2; i++) {
        const uint32_t op = out->op[i];
        out->op[i] = out->op[out->n - 1 - i];
        out->op[out->n - 1 - i] = op;
    }
    return DT_OK;
}

static dt_status search(paths *p, dt_remat_sequence *out, bool *proved, dt_err *err)
{
    bool full = false;
    prepare(p);
    p->state[p->n_state++] = (state){.bound = bound(p, 0, 0), .gone = NONE};
    if (p->budget >= dt_remat_least_peak(p->g))
        DT_CHECK(push(p, (entry){p->state[0].bound, 0, 0}, err));
    while (p->n_heap > 0 && !full) {
        const entry e = pop(p);
        if (e.bound > p->state[e.state].bound)
            continue;
        if (e.ran == p->g->n_op)
            return write_down(p, e.state, out, err);
        DT_CHECK(leave(p, e.state, &full, err));
    }
    char count[DT_HUMAN_BYTES];
    *proved = !full;
    return full ? DT_FAIL(err, DT_E_BUDGET, "of %zu states none is the end", p->most)
                : DT_FAIL(err, DT_E_BUDGET, "no sequence in the file's order fits %s bytes",
                      dt_human_count(count, p->budget));
}

static dt_status search_within(
    paths *p, size_t states, dt_remat_sequence *out, bool *proved, dt_err *err)
{
    p->most = states;
    p->n_slot = 2 * states + 1;
    p->slot = dt_alloc(p->n_slot, sizeof *p->slot);
    const bool ok = p->slot != NULL && dt_grow(&p->state, &p->cap_state, 0, sizeof *p->state);
    const dt_status st = ok ? search(p, out, proved, err)
                            : DT_FAIL(err, DT_E_NOMEM, "no memory for %zu states", states);
    dt_free(p->slot);
    dt_free(p->state);
    dt_free(p->heap);
    return st;
}

dt_status dti_remat_exact(const dt_remat_graph *g, uint64_t budget, size_t states,
    const uint8_t *once, dt_remat_sequence *out, bool *proved, dt_err *err)
{
    *proved = true;
    if (g->n_op > MOST)
        return DT_FAIL(err, DT_E_CONFIG,
            "the optimum is searched for of at most %d ops, and there are %" PRIu32
            "; the search, auto, has a bound for any",
            MOST, g->n_op);
    paths *p = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the sets of a graph's values");
    p->g = g;
    p->budget = budget;
    p->once = once;
    const dt_status st = search_within(p, states, out, proved, err);
    dt_free(p);
    return st;
}
