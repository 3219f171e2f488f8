/* OFFLOAD: a copy out after the gap begins and one back before it ends; inputs are fetched again
 * instead. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"

static dt_op copy_op(const dt_program *p, dt_op_kind kind, const dti_gap *g, int mode)
{
    dt_op op = {.kind = kind,
        .node = DT_NONE,
        .pair = DT_NONE,
        .release_after = DT_NONE,
        .recompute_of = DT_NONE,
        .reason = g->reason,
        .n1 = p->n};
    snprintf(
        op.name, sizeof op.name, "%s.%.100s", dt_op_kind_name(kind), p->tensor[g->tensor].name);
    dt_op_bind(&op, g->tensor, DT_X, mode);
    return op;
}

/* What the slot holds. */
static dt_status pack(
    const dt_program *p, dt_op *out, const dt_tensor *t, const dti_offload_opt *o, dt_err *err)
{
    out->tier = o->tier;
    out->stored = t->bytes;
    if (o->codec == NULL || (!o->codec->exact && p->graph->dtype != DT_F32))
        return DT_OK;
    if (o->codec->drawn.encode != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "'%s': '%s' packs what stays on the device only", t->name,
            o->codec->name);
    const size_t least = dt_packed_least(o->codec, t->bytes / sizeof(uint32_t), 1);
    const bool small = t->bytes <= dt_packed_bytes(o->codec, 0, 0);
    if (dt_packs(t) && (small || (o->most > 0 && o->most < least)))
        return DT_OK;
    out->codec = o->codec;
    out->count = (int64_t)(t->bytes / sizeof(uint32_t));
    out->stored = dt_packed_bytes(o->codec, (size_t)out->count, o->density);
    if (o->most > 0 && out->stored > o->most)
        out->stored = o->most;
    if (!dt_packs(t) || out->stored > SIZE_MAX - DT_ALIGN)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is no array of whole words, which '%s' packs",
            t->name, o->codec->name);
    return DT_OK;
}

static dt_status check(
    const dt_program *p, const dti_gap *g, int32_t release, int32_t before, dt_err *err)
{
    const dt_tensor *t = &p->tensor[g->tensor];
    if (t->home != DT_NONE)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is persistent; it has no gap to move", t->name);
    if (dt_pos(p, release) < g->from_pos || dt_pos(p, before) <= dt_pos(p, release) ||
        dt_pos(p, before) > g->to_pos)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' cannot leave after %s and be back before %s",
            t->name, p->op[release].name, p->op[before].name);
    return DT_OK;
}

static dt_status put(dti_offloads *all, const dt_op *op, int32_t at, bool behind, dt_err *err)
{
    if (!dt_grow(&all->put, &all->cap, all->n, sizeof *all->put))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for ops");
    all->put[all->n++] = (dti_copy_put){*op, at, behind};
    return DT_OK;
}

/* The copy back comes first, and of a pair says how far behind it in the list the copy out is. */
dt_status dti_offloads_add(
    dti_offloads *all, dt_program *p, const dti_gap *g, const dti_offload_opt *o, dt_err *err)
{
    const dti_offload_opt none = {.release_after = DT_NONE, .fetch_before = DT_NONE};
    if (o == NULL)
        o = &none;
    const dt_tensor *t = &p->tensor[g->tensor];
    if (t->pin != DT_PIN_NONE)
        return DT_OK;
    const int32_t release = o->release_after == DT_NONE ? g->from : o->release_after;
    const int32_t before = o->fetch_before == DT_NONE ? g->to : o->fetch_before;
    DT_CHECK(check(p, g, release, before, err));
    const bool input = t->role == DT_ROLE_INPUT;
    dt_op back = copy_op(p, input ? DT_OP_FETCH : DT_OP_IN, g, DT_WRITE);
    back.join_before = o->join_before;
    if (input) {
        back.arg[0].port = p->op[dti_producer(p, g->tensor)].arg[0].port;
        return put(all, &back, before, false, err);
    }
    dt_op away = copy_op(p, DT_OP_OUT, g, DT_READ);
    away.release_after = o->release_after;
    DT_CHECK(pack(p, &away, t, o, err));
    back.tier = away.tier;
    back.codec = away.codec;
    back.stored = away.stored;
    back.count = away.count;
    back.pair = 1;
    DT_CHECK(put(all, &back, before, false, err));
    return put(all, &away, p->order[g->from_pos], true, err);
}

/* By op: the first and the last of those before it, and those behind it, the last of the list
 * first, as a later one comes next to its op. By place in the list: the next of the same. */
typedef struct neighbours {
    int32_t *before, *last, *behind, *next;
} neighbours;

static void find_neighbours(const dti_offloads *all, const neighbours *x)
{
    for (size_t k = 0; k < all->n; k++) {
        const dti_copy_put *c = &all->put[k];
        const int32_t number = (int32_t)k + 1; /* 0: there is none */
        if (c->behind) {
            x->next[k] = x->behind[c->at];
            x->behind[c->at] = number;
            continue;
        }
        if (x->before[c->at] == 0)
            x->before[c->at] = number;
        else
            x->next[x->last[c->at] - 1] = number;
        x->last[c->at] = number;
    }
}

static size_t place_all(
    const neighbours *x, int32_t number, int32_t first_op, int32_t *to, size_t n)
{
    for (; number != 0; number = x->next[number - 1])
        to[n++] = first_op + number - 1;
    return n;
}

/* @to: the order with them */
static dt_status put_in(
    const dti_offloads *all, dt_program *p, const neighbours *x, int32_t *to, dt_err *err)
{
    const size_t had = p->n_order;
    const int32_t first_op = (int32_t)p->n_op;
    size_t n = 0;
    find_neighbours(all, x);
    for (size_t i = 0; i < had; i++) {
        const int32_t id = p->order[i];
        n = place_all(x, x->before[id], first_op, to, n);
        to[n++] = id;
        n = place_all(x, x->behind[id], first_op, to, n);
    }
    for (size_t k = 0; k < all->n; k++) {
        int32_t id;
        dt_op op = all->put[k].op;
        if (op.kind == DT_OP_IN)
            op.pair += first_op + (int32_t)k;
        DT_CHECK(dt_program_insert(p, &op, p->n_order, &id, err));
    }
    DT_ASSERT(n == p->n_order);
    memcpy(p->order, to, n * sizeof *to);
    p->changed_from = 0;
    return dt_program_index(p, err);
}

static dt_status put_all_in(const dti_offloads *all, dt_program *p, dt_err *err)
{
    neighbours x = {dt_alloc(p->n_op, sizeof *x.before), dt_alloc(p->n_op, sizeof *x.last),
        dt_alloc(p->n_op, sizeof *x.behind), dt_alloc(all->n, sizeof *x.next)};
    int32_t *to = dt_alloc(p->n_order + all->n, sizeof *to);
    const bool ok =
        x.before != NULL && x.last != NULL && x.behind != NULL && x.next != NULL && to != NULL;
    const dt_status st =
        ok ? put_in(all, p, &x, to, err) : DT_FAIL(err, DT_E_NOMEM, "no memory to move values");
    dt_free(x.before);
    dt_free(x.last);
    dt_free(x.behind);
    dt_free(x.next);
    dt_free(to);
    return st;
}

dt_status dti_offloads_end(dti_offloads *all, dt_program *p, dt_status st, dt_err *err)
{
    if (st == DT_OK && all->n > 0)
        st = put_all_in(all, p, err);
    dt_free(all->put);
    *all = (dti_offloads){0};
    return st;
}

dt_status dti_offload(dt_program *p, const dti_gap *g, const dti_offload_opt *o, dt_err *err)
{
    dti_offloads one = {0};
    return dti_offloads_end(&one, p, dti_offloads_add(&one, p, g, o, err), err);
}

dt_status dti_fetch_again(dt_program *p, dt_err *err)
{
    const size_t n = p->n_tensor;
    dti_gap g;
    for (size_t t = 0; t < n; t++) {
        if (p->tensor[t].role != DT_ROLE_INPUT || !dti_gap_crossing(p, (int32_t)t, &g))
            continue;
        DT_CHECK(dt_reasons_add(
            &p->reasons, &g.reason, err, "%s: the input waits in the decoded batch", p->policy));
        DT_CHECK(dti_offload(p, &g, NULL, err));
    }
    return DT_OK;
}
