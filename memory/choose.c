/* Choosing what backward reads, before anything else happens to a node's values. */
#include <stdio.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"

/* Ops by node, each list in the program's order, and the tensors that have fates. */
static void look(dti_choices *c)
{
    const dt_program *p = c->p;
    for (size_t i = p->n_order; i-- > 0;) {
        const int32_t id = p->order[i];
        const dt_op *op = &p->op[id];
        if (op->node != DT_NONE) {
            c->next[id] = c->first[op->node];
            c->first[op->node] = id + 1;
        }
        if (op->kind == DT_OP_OUT || op->kind == DT_OP_ENCODE)
            c->waits[op->arg[0].tensor] = true;
    }
}

dt_status dti_choices_open(dti_choices *c, dt_program *p, dt_err *err)
{
    *c = (dti_choices){.p = p,
        .n_tensor = p->n_tensor,
        .first = dt_alloc(p->graph->n_node + 1, sizeof *c->first),
        .next = dt_alloc(p->n_op + 1, sizeof *c->next),
        .waits = dt_alloc(p->n_tensor + 1, sizeof *c->waits)};
    if (c->first == NULL || c->next == NULL || c->waits == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the ops of each node");
    look(c);
    return DT_OK;
}

void dti_choices_close(dti_choices *c)
{
    dt_free(c->first);
    dt_free(c->next);
    dt_free(c->waits);
    *c = (dti_choices){0};
}

/* The next op of the list; DT_NONE: there is none. */
static int32_t op_of(int32_t number)
{
    return number > 0 ? number - 1 : DT_NONE;
}

static int32_t forward_op(const dti_choices *c, int32_t node)
{
    int32_t id = op_of(c->first[node]);
    while (id != DT_NONE && c->p->op[id].kind != DT_OP_FORWARD)
        id = op_of(c->next[id]);
    return id;
}

/* Fates already set on what the node's backward reads would be lost. */
static bool untouched(const dti_choices *c, int32_t node, int32_t forward)
{
    const dt_program *p = c->p;
    for (int32_t id = op_of(c->first[node]); id != DT_NONE; id = op_of(c->next[id])) {
        const dt_op *op = &p->op[id];
        if (op->kind == DT_OP_RECOMPUTE || op->n1 - op->n0 != p->n)
            return false;
    }
    for (int k = 0; k < p->op[forward].n_arg; k++) {
        const size_t t = (size_t)p->op[forward].arg[k].tensor;
        if (t < c->n_tensor && c->waits[t])
            return false;
    }
    return true;
}

/* Whether the configuration has set fates of what this forward reads and writes, or some of that is
 * in a group, whose bytes are taken whatever backward reads. */
static bool is_settled(const dt_program *p, int32_t forward)
{
    const dt_op *op = &p->op[forward];
    for (int k = 0; k < op->n_arg; k++) {
        const dt_tensor *t = &p->tensor[op->arg[k].tensor];
        if (t->pin != DT_PIN_NONE || t->group != DT_NONE)
            return true;
    }
    return false;
}

static bool is_saved(int port)
{
    return port < DT_MAX_IN || port == DT_Y || dti_is_stash(port);
}

static void unbind(dt_op *op, bool (*matches)(int port))
{
    int kept = 0;
    for (int i = 0; i < op->n_arg; i++)
        if (!matches(op->arg[i].port))
            op->arg[kept++] = op->arg[i];
    op->n_arg = kept;
}

/* Scratch may differ between alternatives. */
static dt_status rebind_work(dt_program *p, int32_t id, dt_err *err)
{
    dt_facts f;
    DT_CHECK(dt_op_facts(p, &p->op[id], &f, err));
    return dt_op_bind_work(p, &p->op[id], f.work_bytes, err);
}

/* Stashes of the alternative, made by forward. */
static dt_status write_stashes(
    dt_program *p, int32_t node, int32_t forward, dt_ports reads, dt_err *err)
{
    const dt_node *nd = &p->graph->node[node];
    unbind(&p->op[forward], dti_is_stash);
    for (int i = 0; i < nd->info.n_stash; i++) {
        if (!(reads & DT_BIT(DT_S + i)))
            continue;
        const dt_stash_info *s = &nd->info.stash[i];
        const size_t bytes = s->fixed_bytes + s->sample_bytes * (size_t)p->n;
        dt_tensor t = dt_transient(DT_ROLE_STASH, bytes, node);
        t.sample_bytes = s->fixed_bytes == 0 ? s->sample_bytes : 0;
        snprintf(t.name, sizeof t.name, "%s.%.24s", nd->name, s->name);
        int32_t id;
        DT_CHECK(dt_program_tensor(p, &t, &id, err));
        dt_op_bind(&p->op[forward], id, DT_S + i, DT_WRITE);
    }
    return DT_OK;
}

static void read_saved(dt_op *op, const dt_op *forward, dt_ports reads)
{
    unbind(op, is_saved);
    for (int i = 0; i < forward->n_arg; i++) {
        const int port = forward->arg[i].port;
        const bool x = port < DT_MAX_IN && (reads & DT_BIT(DT_X));
        if (x || (is_saved(port) && port >= DT_MAX_IN && (reads & DT_BIT(port))))
            dt_op_bind(op, forward->arg[i].tensor, port, DT_READ);
    }
}

/* The index is left as it was. */
static dt_status choose(dti_choices *c, int32_t node, int alt, int32_t reason, dt_err *err)
{
    dt_program *p = c->p;
    const dt_node *nd = &p->graph->node[node];
    const int32_t forward = forward_op(c, node);
    if (alt < 0 || alt >= nd->desc->n_alt || forward == DT_NONE || p->loss == DT_NONE)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' has no alternative %d", nd->name, alt);
    if (alt == p->alt[node] || nd->frozen || is_settled(p, forward) || !untouched(c, node, forward))
        return DT_OK;
    p->alt[node] = (uint8_t)alt;
    dt_program_rebinds(p, forward);
    const dt_ports reads = nd->desc->alt[alt].reads;
    DT_CHECK(write_stashes(p, node, forward, reads, err));
    DT_CHECK(rebind_work(p, forward, err));
    p->op[forward].reason = reason;
    for (int32_t id = op_of(c->first[node]); id != DT_NONE; id = op_of(c->next[id])) {
        if (p->op[id].kind != DT_OP_BACKWARD || !nd->desc->form[p->op[id].form].saved)
            continue;
        dt_program_rebinds(p, id);
        read_saved(&p->op[id], &p->op[forward], reads);
        p->op[id].reason = reason;
        DT_CHECK(rebind_work(p, id, err));
    }
    return DT_OK;
}

dt_status dti_choices_take(dti_choices *c, int32_t node, int alt, int32_t reason, dt_err *err)
{
    DT_CHECK(choose(c, node, alt, reason, err));
    return dt_program_index(c->p, err);
}

dt_status dti_choose(dt_program *p, int32_t node, int alt, int32_t reason, dt_err *err)
{
    dti_choices c;
    dt_status st = dti_choices_open(&c, p, err);
    if (st == DT_OK)
        st = dti_choices_take(&c, node, alt, reason, err);
    dti_choices_close(&c);
    return st;
}

dt_status dti_choose_each(
    dt_program *p, int (*alternative)(const dt_layer_desc *d), int32_t reason, dt_err *err)
{
    dti_choices c;
    dt_status st = dti_choices_open(&c, p, err);
    for (int32_t i = 0; st == DT_OK && i < (int32_t)p->graph->n_node; i++) {
        const int alt = alternative(p->graph->node[i].desc);
        if (alt >= 0)
            st = choose(&c, i, alt, reason, err);
    }
    dti_choices_close(&c);
    return st == DT_OK ? dt_program_index(p, err) : st;
}

dt_status dti_choose_value_free(dt_program *p, dt_err *err)
{
    return dti_choose_each(p, dt_value_free, 0, err);
}
