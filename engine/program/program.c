/* Programs as they are changed: tensors and ops put in and taken out, copies, and what an op asks
 * its layer; and the index, which tells where each op stands and who accesses each tensor. */
#include "engine/program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

static const char *const program_names[] = {"first", "again", "update", "eval"};
static const char *const op_names[] = {"forward", "backward", "recompute", "reorder", "update",
    "fetch", "out", "in", "encode", "decode"};
_Static_assert(DT_COUNT(program_names) == DT_PROGRAM_KINDS, "a name a kind");
_Static_assert(DT_COUNT(op_names) == DT_OP_KINDS, "a name a kind");

const char *dt_program_kind_name(dt_program_kind k)
{
    return program_names[k];
}

const char *dt_op_kind_name(dt_op_kind k)
{
    return op_names[k];
}

int dt_op_kind_find(const char *name)
{
    for (int i = 0; i < DT_OP_KINDS; i++)
        if (strcmp(op_names[i], name) == 0)
            return i;
    return -1;
}

void dt_program_destroy(dt_program *p)
{
    if (p == NULL)
        return;
    dt_free(p->tensor);
    dt_free(p->op);
    dt_free(p->order);
    dt_free(p->alt);
    dt_free(p->needs_dx);
    dt_reasons_deinit(&p->reasons);
    dt_free(p->touched);
    dt_free(p->index.pos);
    dt_free(p->index.first);
    dt_free(p->index.access);
    dt_free(p);
}

static void *copied(const void *from, size_t n, size_t each, bool *ok)
{
    void *to = dt_realloc(NULL, n, each); /* nothing of it stays as it comes */
    *ok = *ok && to != NULL;
    if (to != NULL && n > 0)
        memcpy(to, from, n * each);
    return to;
}

/* What is owned is copied; the index is made anew when it is asked for. */
dt_status dt_program_copy(dt_program **out, const dt_program *p, dt_err *err)
{
    bool ok = true;
    dt_program *q = *out = copied(p, 1, sizeof *p, &ok);
    if (!ok)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
    const size_t nodes = p->graph->n_node;
    q->tensor = copied(p->tensor, p->n_tensor, sizeof *p->tensor, &ok);
    q->op = copied(p->op, p->n_op, sizeof *p->op, &ok);
    q->order = copied(p->order, p->n_order, sizeof *p->order, &ok);
    q->alt = copied(p->alt, nodes, sizeof *p->alt, &ok);
    q->needs_dx = copied(p->needs_dx, nodes, sizeof *p->needs_dx, &ok);
    q->cap_tensor = p->n_tensor;
    q->cap_op = p->n_op;
    q->cap_order = p->n_order;
    q->index = (dt_index){0};
    q->stale = true;
    q->touched = NULL;
    q->n_touched = q->cap_touched = 0;
    q->reasons = (dt_reasons){0};
    if (ok && dti_reasons_copy(&q->reasons, &p->reasons, err) == DT_OK)
        return DT_OK;
    dt_program_destroy(q);
    *out = NULL;
    return DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
}

dt_status dt_program_tensor(dt_program *p, const dt_tensor *t, int32_t *id, dt_err *err)
{
    if (!dt_grow((void **)&p->tensor, &p->cap_tensor, p->n_tensor, sizeof *p->tensor))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for tensors");
    p->tensor[p->n_tensor] = *t;
    *id = (int32_t)p->n_tensor++;
    return DT_OK;
}

dt_status dt_program_insert(dt_program *p, const dt_op *op, size_t pos, int32_t *id, dt_err *err)
{
    DT_ASSERT(pos <= p->n_order);
    if (!dt_grow((void **)&p->op, &p->cap_op, p->n_op, sizeof *p->op) ||
        !dt_grow((void **)&p->order, &p->cap_order, p->n_order, sizeof *p->order))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for ops");
    p->op[p->n_op] = *op;
    *id = (int32_t)p->n_op++;
    memmove(p->order + pos + 1, p->order + pos, (p->n_order - pos) * sizeof *p->order);
    p->order[pos] = *id;
    p->n_order++;
    return DT_OK;
}

void dt_program_touch(dt_program *p, int32_t op)
{
    if (dt_grow((void **)&p->touched, &p->cap_touched, p->n_touched, sizeof *p->touched))
        p->touched[p->n_touched++] = op;
    else
        p->stale = true;
}

void dt_op_bind(dt_op *op, int32_t tensor, int port, int mode)
{
    DT_ASSERT(op->n_arg < DT_MAX_ARGS);
    op->arg[op->n_arg++] = (dt_operand){tensor, (uint8_t)port, (uint8_t)mode};
}

dt_status dt_op_bind_work(dt_program *p, dt_op *op, size_t bytes, dt_err *err)
{
    dt_tensor t = {.role = DT_ROLE_WORKSPACE,
        .bytes = bytes,
        .home = DT_NONE,
        .node = op->node,
        .of = DT_NONE,
        .slot = DT_NONE};
    snprintf(t.name, sizeof t.name, "%.*s.ws", (int)sizeof t.name - 4, op->name);
    for (int i = 0; i < op->n_arg; i++) {
        if (op->arg[i].port != DT_WORK)
            continue;
        dt_tensor *had = &p->tensor[op->arg[i].tensor];
        if (bytes > 0 && strcmp(had->name, t.name) == 0) {
            had->bytes = bytes;
            return DT_OK;
        }
        op->arg[i] = op->arg[--op->n_arg];
        break;
    }
    if (bytes == 0)
        return DT_OK;
    int32_t id;
    DT_CHECK(dt_program_tensor(p, &t, &id, err));
    dt_op_bind(op, id, DT_WORK, DT_WRITE);
    return DT_OK;
}

int32_t dt_op_tensor(const dt_op *op, int port)
{
    for (int i = 0; i < op->n_arg; i++)
        if (op->arg[i].port == port)
            return op->arg[i].tensor;
    return DT_NONE;
}

int dt_op_mode(const dt_op *op, int32_t tensor)
{
    int mode = 0;
    for (int i = 0; i < op->n_arg; i++)
        if (op->arg[i].tensor == tensor)
            mode |= op->arg[i].mode;
    return mode;
}

/* Which parameters' gradients the op adds to those that are there. */
static unsigned added(const dt_op *op)
{
    unsigned bits = 0;
    for (int i = 0; i < op->n_arg; i++)
        bits |= dti_adds_bit(op->arg[i].port, op->arg[i].mode);
    return bits;
}

dt_call dt_op_call(const dt_program *p, const dt_op *op)
{
    return (dt_call){
        .context = p->context,
        .node = op->node == DT_NONE ? NULL : &p->graph->node[op->node],
        .graph = p->graph,
        .form = op->form,
        .alt = op->node == DT_NONE ? 0 : p->alt[op->node],
        .dtype = op->dtype,
        .n = op->n1 - op->n0,
        .home_n = p->home_n,
        .codec = op->codec,
        .packed = op->stored,
        .count = op->count,
        .needs_dx = op->node != DT_NONE && p->needs_dx[op->node],
        .vector = op->vector,
        .add = added(op),
        .workspace_limit = op->node == DT_NONE
                               ? (size_t)DT_LIMIT_ANY
                               : dti_workspace_limit(p->algorithms, op->node, op->form),
    };
}

dt_status dt_op_facts(const dt_program *p, const dt_op *op, dt_facts *f, dt_err *err)
{
    const dt_call c = dt_op_call(p, op);
    return dti_call_facts(&c, op->desc, f, err);
}

dt_status dt_op_algorithms(const dt_program *p, const dt_op *op, dt_algorithms *a, dt_err *err)
{
    const dt_call c = dt_op_call(p, op);
    return dti_call_algorithms(&c, op->desc, a, err);
}

dt_status dt_op_choice(const dt_program *p, const dt_op *op, dt_choice *choice, dt_err *err)
{
    const dt_call c = dt_op_call(p, op);
    return dti_call_choice(&c, op->desc, choice, err);
}

/* ---- the index ---- */

/* The index is made anew when a program has changed. Where ops were inserted and operands of some
 * changed, and no more, it is brought up to date, which takes a fraction of the time. */

static bool reserve_index(void **p, size_t *cap, size_t want, size_t each)
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

static dt_status no_index_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for the index of a program");
}

/* Places of all ops. */
static bool index_places(dt_program *p)
{
    dt_index *x = &p->index;
    if (!reserve_index((void **)&x->pos, &x->n_pos, p->n_op, sizeof *x->pos))
        return false;
    for (size_t i = 0; i < p->n_op; i++)
        x->pos[i] = DT_NONE;
    for (size_t i = 0; i < p->n_order; i++)
        x->pos[p->order[i]] = (int32_t)i;
    return true;
}

/* How many accesses each tensor has, in first[t + 2]. @last: by tensor: behind the place of the
 * last op that was counted, as an op that names a tensor twice accesses it once. */
static void count_accesses(dt_program *p, int32_t *last)
{
    dt_index *x = &p->index;
    memset(x->first, 0, (p->n_tensor + 2) * sizeof *x->first);
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++) {
            const int32_t t = op->arg[a].tensor;
            x->first[t + 2] += last[t] != (int32_t)i + 1;
            last[t] = (int32_t)i + 1;
        }
    }
}

/* Filled through first[t + 1], which ends as the end of t. @last: as above, below 0 */
static void fill_accesses(dt_program *p, int32_t *last)
{
    dt_index *x = &p->index;
    for (size_t t = 2; t < p->n_tensor + 2; t++)
        x->first[t] += x->first[t - 1];
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++) {
            const int32_t t = op->arg[a].tensor;
            int32_t *end = &x->first[t + 1];
            if (last[t] != -(int32_t)i - 1)
                x->access[(*end)++] = (dt_access){p->order[i], (int32_t)i, 0};
            x->access[*end - 1].mode |= op->arg[a].mode;
            last[t] = -(int32_t)i - 1;
        }
    }
}

static dt_status make_index(dt_program *p, dt_err *err)
{
    dt_index *x = &p->index;
    size_t total = 0;
    for (size_t i = 0; i < p->n_order; i++)
        total += (size_t)p->op[p->order[i]].n_arg;
    int32_t *last = dt_alloc(p->n_tensor, sizeof *last);
    const bool ok =
        last != NULL && index_places(p) &&
        reserve_index((void **)&x->first, &x->n_first, p->n_tensor + 2, sizeof *x->first) &&
        reserve_index((void **)&x->access, &x->n_access, total, sizeof *x->access);
    if (ok) {
        count_accesses(p, last);
        fill_accesses(p, last);
    }
    dt_free(last);
    return ok ? DT_OK : no_index_memory(err);
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

/* Ops that are touched lose their accesses and get them as inserted ones do. @which: by op that the
 * index knows. */
static void drop_touched(dt_program *p, const bool *which)
{
    dt_index *x = &p->index;
    int32_t from = 0, to = 0;
    for (size_t t = 0; t < x->n_tensor; t++) {
        x->first[t] = to;
        for (; from < x->first[t + 1]; from++)
            if (!which[x->access[from].op])
                x->access[to++] = x->access[from];
    }
    x->first[x->n_tensor] = to;
}

static size_t add_fresh(const dt_program *p, size_t id, fresh *to)
{
    const dt_op *op = &p->op[id];
    const int32_t pos = p->index.pos[id];
    size_t n = 0;
    for (int a = 0; a < op->n_arg && pos != DT_NONE; a++)
        if (leads(op, a)) {
            const int32_t t = op->arg[a].tensor;
            to[n++] = (fresh){t, {(int32_t)id, pos, (uint8_t)dt_op_mode(op, t)}};
        }
    return n;
}

/* All accesses of the ops that were inserted or touched, in the order of the index. */
static size_t list_fresh(dt_program *p, bool *which, fresh *to)
{
    const dt_index *x = &p->index;
    size_t n = 0;
    for (size_t i = 0; i < p->n_touched; i++) {
        const size_t id = (size_t)p->touched[i];
        if (id >= x->n_op || which[id])
            continue;
        which[id] = true;
        n += add_fresh(p, id, to + n);
    }
    if (p->n_touched > 0)
        drop_touched(p, which);
    for (size_t i = x->n_op; i < p->n_op; i++)
        n += add_fresh(p, i, to + n);
    qsort(to, n, sizeof *to, by_tensor_and_place);
    return n;
}

/* Merge fresh accesses in, from the last tensor to the first, so that nothing is overwritten before
 * it has moved up. What lies between tensors that have fresh ones moves as a whole. */
static void merge_fresh(dt_program *p, const fresh *from, size_t n)
{
    dt_index *x = &p->index;
    int32_t stop = x->first[x->n_tensor];
    const size_t total = (size_t)stop + n;
    for (size_t t = x->n_tensor + 1; t <= p->n_tensor; t++)
        x->first[t] = stop;
    for (size_t behind = p->n_tensor; n > 0;) {
        const size_t t = (size_t)from[n - 1].tensor;
        int32_t old = x->first[t + 1], to = old + (int32_t)n;
        memmove(x->access + to, x->access + old, (size_t)(stop - old) * sizeof *x->access);
        for (size_t k = t + 1; k <= behind; k++)
            x->first[k] += (int32_t)n;
        while (n > 0 && from[n - 1].tensor == (int32_t)t) {
            const bool newer =
                old == x->first[t] || from[n - 1].access.pos > x->pos[x->access[old - 1].op];
            x->access[--to] = newer ? from[--n].access : x->access[--old];
        }
        stop = x->first[t];
        memmove(x->access + stop + n, x->access + stop, (size_t)(old - stop) * sizeof *x->access);
        behind = t;
    }
    for (size_t i = 0; i < total; i++)
        x->access[i].pos = x->pos[x->access[i].op];
}

/* Ops were inserted or touched, and nothing else has changed: a policy does so thousands of times.
 */
static dt_status extend_index(dt_program *p, dt_err *err)
{
    dt_index *x = &p->index;
    size_t most = 0;
    for (size_t i = x->n_op; i < p->n_op; i++)
        most += (size_t)p->op[i].n_arg;
    for (size_t i = 0; i < p->n_touched; i++)
        most += (size_t)p->op[p->touched[i]].n_arg;
    fresh *list = dt_alloc(most, sizeof *list);
    bool *which = dt_alloc(x->n_op, sizeof *which);
    const size_t total = (size_t)x->first[x->n_tensor] + most;
    const bool ok =
        list != NULL && which != NULL && index_places(p) &&
        reserve_index((void **)&x->first, &x->n_first, p->n_tensor + 2, sizeof *x->first) &&
        reserve_index((void **)&x->access, &x->n_access, total, sizeof *x->access);
    if (ok)
        merge_fresh(p, list, list_fresh(p, which, list));
    dt_free(list);
    dt_free(which);
    return ok ? DT_OK : no_index_memory(err);
}

/* Of a device whose memory the host's is not, only those that need nothing else. */
static bool may_be_on_host(const dt_program *p, const dt_op *op)
{
    bool all = true;
    for (int k = 0; k < op->n_arg && p->map->device != DT_CPU; k++) {
        const int32_t home = p->tensor[op->arg[k].tensor].home;
        all = all && home != DT_NONE && p->map->home[home].tier == DT_TIER_HOST;
    }
    return all;
}

void dt_program_update_on_host(dt_program *p)
{
    for (size_t i = 0; i < p->n_op; i++)
        p->op[i].on_host = p->op[i].kind == DT_OP_UPDATE && may_be_on_host(p, &p->op[i]);
}

static bool is_current(const dt_program *p)
{
    return !p->stale && p->n_touched == 0 && p->index.n_op == p->n_op &&
           p->index.n_tensor == p->n_tensor;
}

dt_status dt_program_index(dt_program *p, dt_err *err)
{
    if (is_current(p))
        return DT_OK;
    const dt_status st = p->stale ? make_index(p, err) : extend_index(p, err);
    p->stale = st != DT_OK;
    p->n_touched = 0;
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
