#include "engine/program/program.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"

static const char *const program_names[] = {"first", "again", "update", "eval"};
static const char *const op_names[] = {
    "forward", "backward", "clone", "reorder", "update", "fetch", "out", "in", "encode", "decode"};
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
    dt_free(p->index.pos);
    dt_free(p->index.first);
    dt_free(p->index.access);
    dt_free(p);
}

static void *copied(const void *from, size_t n, size_t each, bool *ok)
{
    void *to = dt_alloc(n, each);
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
    if (ok)
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

void dt_program_remove(dt_program *p, int32_t op)
{
    for (size_t i = 0; i < p->n_order; i++)
        if (p->order[i] == op) {
            p->n_order--;
            memmove(p->order + i, p->order + i + 1, (p->n_order - i) * sizeof *p->order);
            p->stale = true;
            return;
        }
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

dt_call dt_op_call(const dt_program *p, const dt_op *op)
{
    return (dt_call){
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
        .workspace_limit = op->node == DT_NONE
                               ? (size_t)DT_LIMIT_ANY
                               : dt_workspace_limit(p->algorithms, op->node, op->form),
    };
}

dt_status dt_op_facts(const dt_program *p, const dt_op *op, dt_facts *f, dt_err *err)
{
    const dt_call c = dt_op_call(p, op);
    return dt_call_facts(&c, op->desc, p->device, f, err);
}

dt_status dt_op_algorithms(const dt_program *p, const dt_op *op, dt_algorithms *a, dt_err *err)
{
    const dt_call c = dt_op_call(p, op);
    return dt_call_algorithms(&c, op->desc, p->device, a, err);
}

dt_status dt_op_choice(const dt_program *p, const dt_op *op, dt_choice *choice, dt_err *err)
{
    const dt_call c = dt_op_call(p, op);
    return dt_call_choice(&c, op->desc, p->device, choice, err);
}
