/* Dependences of a program's ops, and orders that keep them. */
#include "memory/reorder.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"

/* Edges as they are found; by place. */
typedef struct edges {
    int32_t *from, *to;
    size_t n, room[2];
} edges;

static dt_status add(edges *e, int32_t from, int32_t to, dt_err *err)
{
    if (!dt_grow(&e->from, &e->room[0], e->n, sizeof *e->from) ||
        !dt_grow(&e->to, &e->room[1], e->n, sizeof *e->to))
        return dti_pass_no_memory(err);
    e->from[e->n] = from;
    e->to[e->n++] = to;
    return DT_OK;
}

/* Behind the last write; and a write behind what has read since. */
static dt_status add_tensor(edges *e, const dt_program *p, int32_t tensor, dt_err *err)
{
    int32_t n, written = DT_NONE;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++) {
        const bool writes = (a[i].mode & DT_WRITE) != 0;
        if (written != DT_NONE)
            DT_CHECK(add(e, dt_pos(p, a[written].op), dt_pos(p, a[i].op), err));
        for (int32_t k = written + 1; writes && k < i; k++)
            DT_CHECK(add(e, dt_pos(p, a[k].op), dt_pos(p, a[i].op), err));
        written = writes ? i : written;
    }
    return DT_OK;
}

static dt_status add_fixed(edges *e, const dt_program *p, dt_err *err)
{
    const int32_t loss = p->loss == DT_NONE ? DT_NONE : dt_pos(p, p->loss);
    int32_t update = DT_NONE;
    for (int32_t k = 0; k < (int32_t)p->n_order; k++) {
        const dt_op_kind kind = p->op[p->order[k]].kind;
        if (loss != DT_NONE && k != loss)
            DT_CHECK(add(e, k < loss ? k : loss, k < loss ? loss : k, err));
        if (kind == DT_OP_UPDATE) {
            if (update != DT_NONE)
                DT_CHECK(add(e, update, k, err));
            update = k;
        }
    }
    return DT_OK;
}

/* By the place that they leave, each place's in the order of their ends. */
static dt_status sort_edges(dti_dependences *d, const edges *e, dt_err *err)
{
    d->first = dt_alloc(d->n + 2, sizeof *d->first);
    d->after = dt_alloc(e->n, sizeof *d->after);
    int32_t *by_end = dt_alloc(e->n, sizeof *by_end), *at = dt_alloc(d->n + 2, sizeof *at);
    const bool ok = d->first != NULL && d->after != NULL && by_end != NULL && at != NULL;
    for (size_t i = 0; ok && i < e->n; i++) {
        d->first[e->from[i] + 1]++;
        at[e->to[i] + 1]++;
    }
    for (size_t k = 0; ok && k < d->n; k++) {
        d->first[k + 1] += d->first[k];
        at[k + 1] += at[k];
    }
    for (size_t i = 0; ok && i < e->n; i++)
        by_end[at[e->to[i]]++] = (int32_t)i;
    if (ok)
        memcpy(at, d->first, (d->n + 1) * sizeof *at);
    for (size_t i = 0; ok && i < e->n; i++) {
        const int32_t edge = by_end[i];
        d->after[at[e->from[edge]]++] = e->to[edge];
    }
    dt_free(by_end);
    dt_free(at);
    return ok ? DT_OK : dti_pass_no_memory(err);
}

static dt_status check_kinds(const dt_program *p, dt_err *err)
{
    for (size_t k = 0; k < p->n_order; k++) {
        const dt_op *op = &p->op[p->order[k]];
        const bool fixed = op->kind == DT_OP_OUT || op->kind == DT_OP_IN ||
                           op->kind == DT_OP_RECOMPUTE || op->kind == DT_OP_ENCODE ||
                           op->kind == DT_OP_DECODE;
        if (fixed)
            return DT_FAIL(err, DT_E_CONFIG,
                "'%s' stands where a policy has put it, so ops keep their order", op->name);
    }
    return DT_OK;
}

/* Inputs are fetched at the places where they were: nothing goes before them, nor they behind. */
static dt_status add_fetches(edges *e, const dt_program *p, dt_err *err)
{
    for (int32_t k = 0; k < (int32_t)p->n_order; k++)
        for (int32_t i = 0; p->op[p->order[k]].kind == DT_OP_FETCH && i < (int32_t)p->n_order; i++)
            if (i != k)
                DT_CHECK(add(e, i < k ? i : k, i < k ? k : i, err));
    return DT_OK;
}

dt_status dti_dependences_open(dti_dependences *d, const dt_program *p, dt_err *err)
{
    edges e = {0};
    *d = (dti_dependences){.n = p->n_order};
    dt_status st = check_kinds(p, err);
    for (size_t t = 0; st == DT_OK && t < p->n_tensor; t++)
        st = add_tensor(&e, p, (int32_t)t, err);
    if (st == DT_OK)
        st = add_fixed(&e, p, err);
    if (st == DT_OK)
        st = add_fetches(&e, p, err);
    if (st == DT_OK)
        st = sort_edges(d, &e, err);
    dt_free(e.from);
    dt_free(e.to);
    return st;
}

void dti_dependences_close(dti_dependences *d)
{
    dt_free(d->first);
    dt_free(d->after);
    *d = (dti_dependences){0};
}

bool dti_dependences_keep(const dti_dependences *d, const int32_t *order, bool *seen)
{
    memset(seen, 0, d->n * sizeof *seen);
    for (size_t i = d->n; i-- > 0;) {
        const int32_t k = order[i];
        if (k < 0 || (size_t)k >= d->n || seen[k])
            return false;
        for (int32_t a = d->first[k]; a < d->first[k + 1]; a++)
            if (!seen[d->after[a]])
                return false;
        seen[k] = true;
    }
    return true;
}

dt_status dti_reorder(dt_program *p, const int32_t *order, dt_err *err)
{
    int32_t *was = dti_order_copy(p);
    if (was == NULL)
        return dti_pass_no_memory(err);
    for (size_t k = 0; k < p->n_order; k++)
        p->order[k] = was[order[k]];
    dt_free(was);
    p->stale = true;
    return dt_program_index(p, err);
}
