/* The optimum on graphs so small that all sets of values can be told apart: first runs in the
 * graph's order, and any op again at any time. It is at most that of Checkmate's integer program
 * (Jain et al., MLSys 2020), which runs an op at most once before each first run. Shortest paths by
 * Dijkstra's algorithm over (how many ops have run, what is there). */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/remat/remat.h"

enum { DROP = 0x80 }; /* of a step: the value goes, else the op runs */

typedef struct entry {
    uint64_t cost;
    uint32_t state;
} entry;

/**
 * struct paths - by state, ran << n_op | there.
 * @cost: from the beginning; UINT64_MAX: not reached
 * @from @step: how it is reached
 */
typedef struct paths {
    const dt_remat_graph *g;
    const uint8_t *once;
    uint64_t budget, *cost;
    uint32_t *from;
    uint8_t *step;
    entry *heap;
    size_t n_heap, cap_heap;
} paths;

static dt_status push(paths *p, entry e, dt_err *err)
{
    if (!dt_grow(&p->heap, &p->cap_heap, p->n_heap, sizeof *p->heap))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu paths", p->n_heap);
    size_t i = p->n_heap++;
    for (; i > 0 && p->heap[(i - 1) / 2].cost > e.cost; i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = e;
    return DT_OK;
}

static entry pop(paths *p)
{
    const entry least = p->heap[0], last = p->heap[--p->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < p->n_heap; i = child) {
        if (child + 1 < p->n_heap && p->heap[child + 1].cost < p->heap[child].cost)
            child++;
        if (p->heap[child].cost >= last.cost)
            break;
        p->heap[i] = p->heap[child];
    }
    p->heap[i] = last;
    return least;
}

static dt_status reach(
    paths *p, uint32_t state, uint64_t cost, uint32_t from, uint32_t step, dt_err *err)
{
    if (cost >= p->cost[state])
        return DT_OK;
    p->cost[state] = cost;
    p->from[state] = from;
    p->step[state] = (uint8_t)step;
    return push(p, (entry){cost, state}, err);
}

static dt_status leave(paths *p, entry e, dt_err *err)
{
    const dt_remat_graph *g = p->g;
    const uint32_t n = g->n_op, ran = e.state >> n, there = e.state & ((1u << n) - 1);
    uint64_t live = 0;
    for (uint32_t v = 0; v < n; v++)
        live += (there >> v & 1) != 0 ? g->bytes[v] : 0;
    for (uint32_t v = 0; v < n && v <= ran; v++) {
        if ((there >> v & 1) != 0) {
            DT_CHECK(reach(p, e.state & ~(1u << v), e.cost, e.state, DROP | v, err));
            continue;
        }
        if (v < ran && p->once != NULL && p->once[v] != 0)
            continue;
        uint32_t inputs = 0;
        for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++)
            inputs |= 1u << g->in[i];
        if ((inputs & ~there) == 0 && live + g->bytes[v] <= p->budget)
            DT_CHECK(reach(p, (ran + (v == ran)) << n | there | 1u << v, e.cost + g->cost[v],
                e.state, v, err));
    }
    return DT_OK;
}

static dt_status write_down(const paths *p, uint32_t state, dt_remat_sequence *out, dt_err *err)
{
    out->n = 0;
    for (; state != 0; state = p->from[state])
        if ((p->step[state] & DROP) == 0)
            DT_CHECK(dti_remat_push(out, p->step[state], err));
    for (size_t i = 0; i < out->n / 2; i++) {
        const uint32_t op = out->op[i];
        out->op[i] = out->op[out->n - 1 - i];
        out->op[out->n - 1 - i] = op;
    }
    return DT_OK;
}

static dt_status shortest(paths *p, dt_remat_sequence *out, dt_err *err)
{
    const uint32_t n = p->g->n_op;
    memset(p->cost, 0xff, ((size_t)n + 1) * ((size_t)1 << n) * sizeof *p->cost);
    p->cost[0] = 0;
    DT_CHECK(push(p, (entry){0, 0}, err));
    while (p->n_heap > 0) {
        const entry e = pop(p);
        if (e.cost > p->cost[e.state])
            continue;
        if (e.state >> n == n)
            return write_down(p, e.state, out, err);
        DT_CHECK(leave(p, e, err));
    }
    return DT_FAIL(
        err, DT_E_BUDGET, "no sequence in the file's order fits %" PRIu64 " bytes", p->budget);
}

dt_status dti_remat_exact(const dt_remat_graph *g, uint64_t budget, const uint8_t *once,
    dt_remat_sequence *out, dt_err *err)
{
    if (g->n_op > DTI_REMAT_MOST_EXACT)
        return DT_FAIL(err, DT_E_CONFIG,
            "checkmate's optimum is found for at most %d ops, and there are %" PRIu32
            "; the search, auto, has a bound for any",
            DTI_REMAT_MOST_EXACT, g->n_op);
    const size_t states = ((size_t)g->n_op + 1) << g->n_op;
    paths p = {.g = g,
        .once = once,
        .budget = budget,
        .cost = dt_alloc(states, sizeof *p.cost),
        .from = dt_alloc(states, sizeof *p.from),
        .step = dt_alloc(states, sizeof *p.step)};
    const dt_status st = p.cost != NULL && p.from != NULL && p.step != NULL
                             ? shortest(&p, out, err)
                             : DT_FAIL(err, DT_E_NOMEM, "no memory for %zu states", states);
    dt_free(p.cost);
    dt_free(p.from);
    dt_free(p.step);
    dt_free(p.heap);
    return st;
}
