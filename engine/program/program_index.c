/* The index of a program: where each op stands, and who accesses each tensor. Made anew when a
 * program has changed; where ops were only inserted, brought up to date, which takes a fraction of
 * the time. */
#include "engine/program/program.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

static bool reserve(void **p, size_t *cap, size_t want, size_t each)
{
    if (*p != NULL && want <= *cap)
        return true;
    void *q = dt_realloc(*p, want + want / 4 + 16, each);
    if (q == NULL)
        return false;
    *p = q;
    *cap = want + want / 4 + 16;
    return true;
}

/* Whether operand i of the op is the first that names its tensor: accesses are counted once an op.
 */
static bool leads(const dt_op *op, int i)
{
    for (int j = 0; j < i; j++)
        if (op->arg[j].tensor == op->arg[i].tensor)
            return false;
    return true;
}

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for the index of a program");
}

/* Places of all ops. */
static bool index_places(dt_program *p)
{
    dt_index *x = &p->index;
    if (!reserve((void **)&x->pos, &x->n_pos, p->n_op, sizeof *x->pos))
        return false;
    for (size_t i = 0; i < p->n_op; i++)
        x->pos[i] = DT_NONE;
    for (size_t i = 0; i < p->n_order; i++)
        x->pos[p->order[i]] = (int32_t)i;
    return true;
}

static dt_status make_index(dt_program *p, dt_err *err)
{
    dt_index *x = &p->index;
    size_t total = 0;
    for (size_t i = 0; i < p->n_order; i++)
        total += (size_t)p->op[p->order[i]].n_arg;
    if (!index_places(p) ||
        !reserve((void **)&x->first, &x->n_first, p->n_tensor + 2, sizeof *x->first) ||
        !reserve((void **)&x->access, &x->n_access, total, sizeof *x->access))
        return no_memory(err);
    /* Count into first[t + 2], sum up, then fill through first[t + 1], which ends as the end of t.
     */
    memset(x->first, 0, (p->n_tensor + 2) * sizeof *x->first);
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++)
            if (leads(op, a))
                x->first[op->arg[a].tensor + 2]++;
    }
    for (size_t t = 2; t < p->n_tensor + 2; t++)
        x->first[t] += x->first[t - 1];
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++)
            if (leads(op, a)) {
                const int32_t t = op->arg[a].tensor;
                x->access[x->first[t + 1]++] =
                    (dt_access){p->order[i], (int32_t)i, (uint8_t)dt_op_mode(op, t)};
            }
    }
    return DT_OK;
}

/* An access of an op that the index does not know yet. */
typedef struct fresh {
    int32_t tensor;
    dt_access access;
} fresh;

static int by_tensor_and_place(const void *a, const void *b)
{
    const fresh *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return (x->access.pos > y->access.pos) - (x->access.pos < y->access.pos);
}

/* All accesses of the ops that were inserted, in the order of the index. */
static size_t list_fresh(const dt_program *p, fresh *to)
{
    const dt_index *x = &p->index;
    size_t n = 0;
    for (size_t i = x->n_op; i < p->n_op; i++) {
        const dt_op *op = &p->op[i];
        for (int a = 0; a < op->n_arg && x->pos[i] != DT_NONE; a++)
            if (leads(op, a)) {
                const int32_t t = op->arg[a].tensor;
                to[n++] = (fresh){t, {(int32_t)i, x->pos[i], (uint8_t)dt_op_mode(op, t)}};
            }
    }
    qsort(to, n, sizeof *to, by_tensor_and_place);
    return n;
}

/* Merge fresh accesses in, from the last tensor to the first, so that nothing is overwritten before
 * it has moved up. */
static void merge_fresh(dt_program *p, const fresh *from, size_t n)
{
    dt_index *x = &p->index;
    const int32_t total = x->first[x->n_tensor];
    for (size_t t = x->n_tensor + 1; t <= p->n_tensor; t++)
        x->first[t] = total;
    int32_t old = total, to = total + (int32_t)n;
    for (size_t t = p->n_tensor; t-- > 0;) {
        x->first[t + 1] = to;
        while (old > x->first[t] || (n > 0 && from[n - 1].tensor == (int32_t)t)) {
            dt_access last = {.pos = DT_NONE};
            if (old > x->first[t]) {
                last = x->access[old - 1];
                last.pos = x->pos[last.op];
            }
            const bool newer =
                n > 0 && from[n - 1].tensor == (int32_t)t && from[n - 1].access.pos > last.pos;
            x->access[--to] = newer ? from[--n].access : last;
            old -= !newer;
        }
    }
}

/* Ops were inserted, and nothing else has changed: a policy does so thousands of times. */
static dt_status extend_index(dt_program *p, dt_err *err)
{
    dt_index *x = &p->index;
    size_t most = 0;
    for (size_t i = x->n_op; i < p->n_op; i++)
        most += (size_t)p->op[i].n_arg;
    fresh *list = dt_alloc(most, sizeof *list);
    const size_t total = (size_t)x->first[x->n_tensor] + most;
    const bool ok = list != NULL && index_places(p) &&
                    reserve((void **)&x->first, &x->n_first, p->n_tensor + 2, sizeof *x->first) &&
                    reserve((void **)&x->access, &x->n_access, total, sizeof *x->access);
    if (ok)
        merge_fresh(p, list, list_fresh(p, list));
    dt_free(list);
    return ok ? DT_OK : no_memory(err);
}

static bool is_current(const dt_program *p)
{
    return !p->stale && p->index.n_op == p->n_op && p->index.n_tensor == p->n_tensor;
}

dt_status dt_program_index(dt_program *p, dt_err *err)
{
    if (is_current(p))
        return DT_OK;
    const dt_status st = p->stale ? make_index(p, err) : extend_index(p, err);
    p->stale = st != DT_OK;
    p->index.n_op = p->n_op;
    p->index.n_tensor = p->n_tensor;
    return st;
}

const dt_access *dt_accesses(const dt_program *p, int32_t tensor, int32_t *n)
{
    DT_ASSERT(is_current(p));
    *n = p->index.first[tensor + 1] - p->index.first[tensor];
    return p->index.access + p->index.first[tensor];
}
