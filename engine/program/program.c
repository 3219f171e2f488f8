/* Programs as they are changed: tensors and ops put in and taken out, copies, and what an op asks
 * its layer; and the index, which tells where each op stands and who accesses each tensor. */
#include "engine/program/program.h"

#include <stdio.h>
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
    dt_free(p->rebound);
    dt_free(p->index.pos);
    dt_free(p->index.of);
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

/* What is owned is copied; the index is made anew. */
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
    q->rebound = NULL;
    q->n_rebound = q->cap_rebound = 0;
    q->reasons = (dt_reasons){0};
    if (ok && dti_reasons_copy(&q->reasons, &p->reasons, err) == DT_OK &&
        dt_program_index(q, err) == DT_OK)
        return DT_OK;
    dt_program_destroy(q);
    *out = NULL;
    return DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
}

void dt_program_swap(dt_program *p, dt_program *q)
{
    const dt_program was = *p;
    *p = *q;
    *q = was;
}

dt_tensor dt_transient(dt_role role, size_t bytes, int32_t node)
{
    return (dt_tensor){.role = role,
        .bytes = bytes,
        .home = DT_NONE,
        .node = node,
        .of = DT_NONE,
        .group = DT_NONE};
}

dt_status dt_program_tensor(dt_program *p, const dt_tensor *t, int32_t *id, dt_err *err)
{
    if (!dt_grow(&p->tensor, &p->cap_tensor, p->n_tensor, sizeof *p->tensor))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for tensors");
    p->tensor[p->n_tensor] = *t;
    *id = (int32_t)p->n_tensor++;
    return DT_OK;
}

dt_status dt_program_insert(dt_program *p, const dt_op *op, size_t pos, int32_t *id, dt_err *err)
{
    DT_ASSERT(pos <= p->n_order);
    if (!dt_grow(&p->op, &p->cap_op, p->n_op, sizeof *p->op) ||
        !dt_grow(&p->order, &p->cap_order, p->n_order, sizeof *p->order))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for ops");
    p->op[p->n_op] = *op;
    *id = (int32_t)p->n_op++;
    memmove(p->order + pos + 1, p->order + pos, (p->n_order - pos) * sizeof *p->order);
    p->order[pos] = *id;
    p->n_order++;
    p->changed_from = pos < p->changed_from ? pos : p->changed_from;
    return DT_OK;
}

static void note_rebound(dt_program *p, int32_t op, int32_t tensor)
{
    if (dt_grow(&p->rebound, &p->cap_rebound, p->n_rebound, sizeof *p->rebound))
        p->rebound[p->n_rebound++] = (dt_rebound){op, tensor};
    else
        p->stale = true;
}

void dt_program_rebind(dt_program *p, int32_t op, int arg, int32_t tensor)
{
    int32_t *bound = &p->op[op].arg[arg].tensor;
    note_rebound(p, op, *bound);
    *bound = tensor;
}

void dt_program_rebinds(dt_program *p, int32_t op)
{
    for (int i = 0; i < p->op[op].n_arg; i++)
        note_rebound(p, op, p->op[op].arg[i].tensor);
}

void dt_op_bind(dt_op *op, int32_t tensor, int port, int mode)
{
    DT_ASSERT(op->n_arg < DT_MAX_ARGS);
    op->arg[op->n_arg++] = (dt_operand){tensor, (uint8_t)port, (uint8_t)mode};
}

dt_status dt_op_bind_work(dt_program *p, dt_op *op, size_t bytes, dt_err *err)
{
    dt_tensor t = dt_transient(DT_ROLE_WORKSPACE, bytes, op->node);
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

int dti_op_mode(const dt_op *op, int32_t tensor)
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
        .home_n = p->map->home_n,
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
 * changed, and no more, it is brought up to date: policies do so thousands of times, each of which
 * then takes what has changed, and the places behind it. */

static bool reserve_by_op(dt_program *p)
{
    return dt_grow(&p->index.pos, &p->index.cap_pos, p->n_op, sizeof *p->index.pos);
}

static bool reserve_by_tensor(dt_program *p)
{
    return dt_grow(&p->index.of, &p->index.cap_of, p->n_tensor, sizeof *p->index.of);
}

static bool reserve_accesses(dt_program *p, size_t n)
{
    return dt_grow(&p->index.access, &p->index.cap_access, n, sizeof *p->index.access);
}

/* Places of all ops from one place on. */
static void index_places(dt_program *p, size_t from)
{
    for (size_t i = from; i < p->n_order; i++)
        p->index.pos[p->order[i]] = (int32_t)i;
}

/* How many accesses each tensor has. @last: by tensor: behind the place of the last op that was
 * counted, as an op that names a tensor twice accesses it once. */
static void count_accesses(dt_program *p, int32_t *last)
{
    for (size_t t = 0; t < p->n_tensor; t++)
        p->index.of[t] = (dt_access_list){0};
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++) {
            const int32_t t = op->arg[a].tensor;
            p->index.of[t].room += last[t] != (int32_t)i + 1;
            last[t] = (int32_t)i + 1;
        }
    }
}

/* @last: as above, below 0 */
static void fill_accesses(dt_program *p, int32_t *last)
{
    dt_index *x = &p->index;
    x->n_access = 0;
    for (size_t t = 0; t < p->n_tensor; t++) {
        x->of[t].first = (int32_t)x->n_access;
        x->n_access += (size_t)x->of[t].room;
    }
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++) {
            const int32_t t = op->arg[a].tensor;
            dt_access_list *of = &x->of[t];
            if (last[t] != -(int32_t)i - 1)
                x->access[of->first + of->n++] = (dt_access){p->order[i], 0};
            x->access[of->first + of->n - 1].mode |= op->arg[a].mode;
            last[t] = -(int32_t)i - 1;
        }
    }
}

static bool make_index(dt_program *p)
{
    size_t total = 0;
    for (size_t i = 0; i < p->n_order; i++)
        total += (size_t)p->op[p->order[i]].n_arg;
    int32_t *last = dt_alloc(p->n_tensor, sizeof *last);
    const bool ok =
        last != NULL && reserve_by_op(p) && reserve_by_tensor(p) && reserve_accesses(p, total);
    if (ok) {
        for (size_t i = 0; i < p->n_op; i++)
            p->index.pos[i] = DT_NONE;
        index_places(p, 0);
        count_accesses(p, last);
        fill_accesses(p, last);
    }
    dt_free(last);
    return ok;
}

/* The first access of a list that is not before a place, by ops' places as they are now. */
static int32_t find_access(const dt_program *p, const dt_access_list *of, int32_t pos)
{
    int32_t low = 0, high = of->n;
    while (low < high) {
        const int32_t mid = low + (high - low) / 2;
        if (p->index.pos[p->index.access[of->first + mid].op] < pos)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A full list moves behind all others, with twice the room. */
static bool make_room(dt_program *p, dt_access_list *of)
{
    if (of->n < of->room)
        return true;
    const size_t room = 2 * (size_t)of->room + 2;
    dt_index *x = &p->index;
    if (!reserve_accesses(p, x->n_access + room))
        return false;
    if (of->n > 0)
        memcpy(x->access + x->n_access, x->access + of->first, (size_t)of->n * sizeof *x->access);
    of->first = (int32_t)x->n_access;
    of->room = (int32_t)room;
    x->n_access += room;
    return true;
}

/* What an op now does with a tensor, which may be nothing any more. */
static bool update_access(dt_program *p, int32_t id, int32_t tensor)
{
    dt_access_list *of = &p->index.of[tensor];
    const int mode = dti_op_mode(&p->op[id], tensor);
    const int32_t at = find_access(p, of, dt_pos(p, id));
    const bool there = at < of->n && p->index.access[of->first + at].op == id;
    if (mode != 0 && !there && !make_room(p, of))
        return false;
    dt_access *a = p->index.access + of->first + at;
    const size_t behind = (size_t)(of->n - at);
    if (mode == 0 && there) {
        memmove(a, a + 1, (behind - 1) * sizeof *a);
        of->n--;
    } else if (mode != 0 && !there) {
        memmove(a + 1, a, behind * sizeof *a);
        of->n++;
    }
    if (mode != 0)
        *a = (dt_access){id, (uint8_t)mode};
    return true;
}

static bool update_accesses(dt_program *p, int32_t id)
{
    bool ok = true;
    for (int a = 0; a < p->op[id].n_arg; a++)
        ok = ok && update_access(p, id, p->op[id].arg[a].tensor);
    return ok;
}

/* Ops were inserted, and operands of some that were there bound to other tensors. */
static bool extend_index(dt_program *p)
{
    dt_index *x = &p->index;
    bool ok = reserve_by_op(p) && reserve_by_tensor(p);
    if (!ok)
        return false;
    for (size_t t = x->n_tensor; t < p->n_tensor; t++)
        x->of[t] = (dt_access_list){0};
    index_places(p, p->changed_from);
    for (size_t i = 0; ok && i < p->n_rebound; i++)
        ok = update_access(p, p->rebound[i].op, p->rebound[i].tensor);
    for (size_t i = 0; ok && i < p->n_rebound; i++)
        ok = update_accesses(p, p->rebound[i].op);
    for (size_t i = x->n_op; ok && i < p->n_op; i++)
        ok = update_accesses(p, (int32_t)i);
    return ok;
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
    return !p->stale && p->n_rebound == 0 && p->index.n_op == p->n_op &&
           p->index.n_tensor == p->n_tensor;
}

dt_status dt_program_index(dt_program *p, dt_err *err)
{
    if (is_current(p))
        return DT_OK;
    p->stale = !(p->stale ? make_index(p) : extend_index(p));
    p->n_rebound = 0;
    p->changed_from = p->n_order;
    p->index.n_op = p->n_op;
    p->index.n_tensor = p->n_tensor;
    return p->stale ? DT_FAIL(err, DT_E_NOMEM, "no memory for the index of a program") : DT_OK;
}

const dt_access *dt_accesses(const dt_program *p, int32_t tensor, int32_t *n)
{
    DT_ASSERT(is_current(p));
    *n = p->index.of[tensor].n;
    return p->index.access + p->index.of[tensor].first;
}
