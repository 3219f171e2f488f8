/* Graphs as text: a line `OPS EDGES`, then a line an op, `BYTES COST BACKWARD`, in an order in
 * which they can run, then a line an edge, `FROM TO`, ops counted from 0. Numbers are decimal, with
 * blanks between them. */
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"
#include "memory/remat/number_lines.h"
#include "memory/remat/remat.h"

enum { MOST_BYTES = 512 << 20, OP_LINE = 6, EDGE_LINE = 4 };

static dt_status counts(dti_number_lines *r, uint64_t *n_op, uint64_t *n_edge)
{
    uint64_t v[2];
    DT_CHECK(dti_number_line(r, v, 2, "OPS EDGES"));
    if (v[0] == 0 || v[0] > DTI_REMAT_MOST_OPS || v[1] > DTI_REMAT_MOST_EDGES)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s:1: %" PRIu64 " ops and %" PRIu64 " edges; there may be 1 to %d ops and up to %d "
            "edges",
            r->path, v[0], v[1], DTI_REMAT_MOST_OPS, DTI_REMAT_MOST_EDGES);
    /* the last line may lack its end */
    if (v[0] * OP_LINE + v[1] * EDGE_LINE > (uint64_t)(r->end - r->at) + 1)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s:1: %" PRIu64 " ops and %" PRIu64 " edges are more than the file can hold", r->path,
            v[0], v[1]);
    *n_op = v[0];
    *n_edge = v[1];
    return DT_OK;
}

typedef struct lines {
    uint64_t *bytes, *cost;
    uint8_t *backward;
    dti_remat_edge *edge;
} lines;

static dt_status read_ops(dti_number_lines *r, lines *l, uint64_t n)
{
    uint64_t v[3], sum[2] = {0};
    for (uint64_t i = 0; i < n; i++) {
        DT_CHECK(dti_number_line(r, v, 3, "BYTES COST BACKWARD"));
        for (size_t k = 0; k < 2; k++) {
            if (v[k] > DT_REMAT_MOST_SUM - sum[k])
                return DT_FAIL(r->err, DT_E_DATA,
                    "%s:%zu: the %s add up to more than 2^53 here; scale them down", r->path,
                    r->line, k == 0 ? "bytes" : "costs");
            sum[k] += v[k];
        }
        if (v[2] > 1)
            return DT_FAIL(r->err, DT_E_DATA,
                "%s:%zu: BACKWARD is %" PRIu64 "; it is 1 for ops of the backward pass, else 0",
                r->path, r->line, v[2]);
        l->bytes[i] = v[0];
        l->cost[i] = v[1];
        l->backward[i] = (uint8_t)v[2];
    }
    return DT_OK;
}

static dt_status read_edges(dti_number_lines *r, lines *l, uint64_t n_op, uint64_t n)
{
    uint64_t v[2];
    for (uint64_t i = 0; i < n; i++) {
        DT_CHECK(dti_number_line(r, v, 2, "FROM TO"));
        if (v[0] >= n_op || v[1] >= n_op)
            return DT_FAIL(r->err, DT_E_DATA,
                "%s:%zu: there is no op %" PRIu64 "; they are 0 to %" PRIu64, r->path, r->line,
                v[0] >= n_op ? v[0] : v[1], n_op - 1);
        if (v[0] >= v[1])
            return DT_FAIL(r->err, DT_E_DATA,
                "%s:%zu: edge %" PRIu64 " to %" PRIu64 " runs against the order of the lines; ops "
                "stand in an order in which they can run, so there is no cycle",
                r->path, r->line, v[0], v[1]);
        l->edge[i] = (dti_remat_edge){(uint32_t)v[0], (uint32_t)v[1]};
    }
    return dti_number_end(r);
}

dt_status dti_remat_parse(
    dt_remat_graph *out, const char *text, size_t bytes, const char *path, dt_err *err)
{
    *out = (dt_remat_graph){0};
    dti_number_lines r = {dt_behind_mark(text, bytes), text + bytes, path, 0, err};
    uint64_t n_op, n_edge;
    DT_CHECK(counts(&r, &n_op, &n_edge));
    lines l = {.bytes = dt_alloc(n_op, sizeof *l.bytes),
        .cost = dt_alloc(n_op, sizeof *l.cost),
        .backward = dt_alloc(n_op, sizeof *l.backward),
        .edge = dt_alloc(n_edge, sizeof *l.edge)};
    dt_status st = l.bytes != NULL && l.cost != NULL && l.backward != NULL && l.edge != NULL
                       ? read_ops(&r, &l, n_op)
                       : DT_FAIL(err, DT_E_NOMEM, "%s: no memory for %" PRIu64 " ops", path, n_op);
    if (st == DT_OK)
        st = read_edges(&r, &l, n_op, n_edge);
    if (st == DT_OK)
        st = dti_remat_graph_init(
            out, (uint32_t)n_op, l.bytes, l.cost, l.backward, (uint32_t)n_edge, l.edge, err);
    dt_free(l.bytes);
    dt_free(l.cost);
    dt_free(l.backward);
    dt_free(l.edge);
    return st;
}

dt_status dt_remat_read(dt_remat_graph *out, const char *path, dt_err *err)
{
    char *text;
    size_t bytes;
    *out = (dt_remat_graph){0};
    DT_CHECK(dt_read_file(&text, &bytes, path, MOST_BYTES, DT_E_DATA, err));
    const dt_status st = dti_remat_parse(out, text, bytes, path, err);
    dt_free(text);
    return st;
}
