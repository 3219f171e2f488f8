/* Graphs of ops, made from a list of edges. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/remat/remat.h"

void dt_remat_graph_deinit(dt_remat_graph *g)
{
    dt_free(g->bytes);
    dt_free(g->cost);
    dt_free(g->backward);
    dt_free(g->in_at);
    dt_free(g->in);
    dt_free(g->out_at);
    dt_free(g->out);
    *g = (dt_remat_graph){0};
}

static dt_status check_sum(const uint64_t *v, uint32_t n, const char *what, dt_err *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (v[i] > DT_REMAT_MOST_SUM - sum)
            return DT_FAIL(err, DT_E_DATA,
                "the %s of ops 0 to %" PRIu32 " add up to more than 2^53; scale them down", what,
                i);
        sum += v[i];
    }
    return DT_OK;
}

static dt_status check_edges(
    uint32_t n_op, uint32_t n_edge, const dti_remat_edge *edge, dt_err *err)
{
    for (uint32_t i = 0; i < n_edge; i++) {
        if (edge[i].from >= n_op || edge[i].to >= n_op)
            return DT_FAIL(err, DT_E_DATA,
                "edge %" PRIu32 " to %" PRIu32 " names an op that is not there; there are %" PRIu32,
                edge[i].from, edge[i].to, n_op);
        if (edge[i].from >= edge[i].to)
            return DT_FAIL(err, DT_E_DATA,
                "edge %" PRIu32 " to %" PRIu32
                " runs backwards: ops stand in an order in which they can run, without cycles",
                edge[i].from, edge[i].to);
    }
    return DT_OK;
}

/* The ends of edges by their beginnings, or the other way round; @at has n_op + 1 places, zeroed.
 */
static void gather(
    uint32_t *at, uint32_t *to, uint32_t n_op, uint32_t n, const dti_remat_edge *edge, bool in)
{
    for (uint32_t i = 0; i < n; i++)
        at[in ? edge[i].to : edge[i].from]++;
    for (uint32_t v = 0, sum = 0; v <= n_op; v++) {
        sum += at[v];
        at[v] = sum;
    }
    for (uint32_t i = n; i-- > 0;)
        to[--at[in ? edge[i].to : edge[i].from]] = in ? edge[i].from : edge[i].to;
}

/* Of each op's list every end once: to read a value twice is to read it. @seen: scratch, by op */
static void drop_repeats(uint32_t *at, uint32_t *to, uint32_t n_op, uint32_t *seen)
{
    uint32_t n = 0, from = 0;
    for (uint32_t v = 0; v < n_op; v++)
        seen[v] = UINT32_MAX;
    for (uint32_t v = 0; v < n_op; v++) {
        const uint32_t end = at[v + 1];
        for (at[v] = n; from < end; from++)
            if (seen[to[from]] != v) {
                seen[to[from]] = v;
                to[n++] = to[from];
            }
    }
    at[n_op] = n;
}

static void fill(dt_remat_graph *g, const uint64_t *bytes, const uint64_t *cost,
    const uint8_t *backward, const dti_remat_edge *edge, uint32_t *seen)
{
    memcpy(g->bytes, bytes, g->n_op * sizeof *bytes);
    memcpy(g->cost, cost, g->n_op * sizeof *cost);
    memcpy(g->backward, backward, g->n_op);
    gather(g->in_at, g->in, g->n_op, g->n_edge, edge, true);
    gather(g->out_at, g->out, g->n_op, g->n_edge, edge, false);
    drop_repeats(g->in_at, g->in, g->n_op, seen);
    drop_repeats(g->out_at, g->out, g->n_op, seen);
    g->n_edge = g->in_at[g->n_op];
}

dt_status dti_remat_graph_init(dt_remat_graph *out, uint32_t n_op, const uint64_t *bytes,
    const uint64_t *cost, const uint8_t *backward, uint32_t n_edge, const dti_remat_edge *edge,
    dt_err *err)
{
    *out = (dt_remat_graph){0};
    if (n_op == 0 || n_op > DTI_REMAT_MOST_OPS || n_edge > DTI_REMAT_MOST_EDGES)
        return DT_FAIL(err, DT_E_DATA,
            "%" PRIu32 " ops and %" PRIu32 " edges; a graph has 1 to %d ops and at most %d edges",
            n_op, n_edge, DTI_REMAT_MOST_OPS, DTI_REMAT_MOST_EDGES);
    DT_CHECK(check_sum(bytes, n_op, "bytes", err));
    DT_CHECK(check_sum(cost, n_op, "costs", err));
    DT_CHECK(check_edges(n_op, n_edge, edge, err));
    dt_remat_graph g = {.n_op = n_op,
        .n_edge = n_edge,
        .bytes = dt_alloc(n_op, sizeof *g.bytes),
        .cost = dt_alloc(n_op, sizeof *g.cost),
        .backward = dt_alloc(n_op, sizeof *g.backward),
        .in_at = dt_alloc((size_t)n_op + 1, sizeof *g.in_at),
        .in = dt_alloc(n_edge, sizeof *g.in),
        .out_at = dt_alloc((size_t)n_op + 1, sizeof *g.out_at),
        .out = dt_alloc(n_edge, sizeof *g.out)};
    uint32_t *seen = dt_alloc(n_op, sizeof *seen);
    if (g.bytes == NULL || g.cost == NULL || g.backward == NULL || g.in_at == NULL ||
        g.in == NULL || g.out_at == NULL || g.out == NULL || seen == NULL) {
        dt_free(seen);
        dt_remat_graph_deinit(&g);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a graph of %" PRIu32 " ops", n_op);
    }
    fill(&g, bytes, cost, backward, edge, seen);
    dt_free(seen);
    *out = g;
    return DT_OK;
}
