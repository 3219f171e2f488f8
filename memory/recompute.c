/* RECOMPUTE: forward again. A clone reads what is resident at its place, and clones what is not,
 * back to something that is. Clones touch no state: they run the clone form, which reads saved
 * statistics. */
#include <stdio.h>
#include <string.h>

#include "memory/pass.h"

typedef struct request {
    dt_program *p;
    const bool *dropped;
    int32_t before; /* clones go right before this op */
    size_t first;   /* ops from this number on are clones made for this request */
} request;

static dt_status ensure(request *r, int32_t tensor, int32_t *have, dt_err *err);

/* A version of the value that lies on the device at this place; clones only, when asked. What this
 * request has made already is there to be read again, though nothing reads it yet. */
static int32_t find_live(const request *r, int32_t root, bool clones_only)
{
    const dt_program *p = r->p;
    for (size_t t = p->n_tensor; t-- > 0;) {
        const int32_t id = (int32_t)t;
        if ((clones_only && id == root) || dt_root(p, id) != root)
            continue;
        const int32_t made_by = dt_producer(p, id);
        if (dt_resident(p, id, dt_pos(p, r->before)) ||
            (made_by != DT_NONE && (size_t)made_by >= r->first))
            return id;
    }
    return DT_NONE;
}

/* A new tensor like the root, named with one more prime. */
static dt_status new_version(dt_program *p, int32_t root, int32_t *id, dt_err *err)
{
    int versions = 0;
    for (size_t t = 0; t < p->n_tensor; t++)
        if (dt_root(p, (int32_t)t) == root)
            versions++;
    dt_tensor t = p->tensor[root];
    t.of = root;
    const char *primes = versions == 1 ? "'" : versions == 2 ? "''" : "'";
    if (versions <= 2)
        snprintf(t.name, sizeof t.name, "%.110s%s", p->tensor[root].name, primes);
    else
        snprintf(t.name, sizeof t.name, "%.110s'%d", p->tensor[root].name, versions);
    return dt_program_tensor(p, &t, id, err);
}

/* Readers after place pos, up to the next definition of the old version, read the new one. A copy
 * back of what is now copied out of the new version is no new definition: it brings the new version
 * back. */
static void redirect(dt_program *p, int32_t from, int32_t to, int32_t pos)
{
    p->stale = true;
    for (size_t i = (size_t)pos + 1; i < p->n_order; i++) {
        dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++) {
            if (op->arg[a].tensor != from)
                continue;
            const bool back = op->kind == DT_OP_IN && p->op[op->pair].arg[0].tensor == to;
            if (op->arg[a].mode == DT_WRITE && !back)
                return;
            op->arg[a].tensor = to;
        }
    }
}

static bool clone_reads(const dt_operand *a, const dt_form *f)
{
    return a->mode == DT_READ || (f->reads & DT_BIT(a->port)) != 0;
}

/* What the clone reads; earlier clones may be needed for that. */
static dt_status bind_reads(
    request *r, dt_op *clone, const dt_op *from, const dt_form *f, dt_err *err)
{
    for (int i = 0; i < from->n_arg; i++) {
        int32_t have;
        if (!clone_reads(&from->arg[i], f))
            continue;
        DT_CHECK(ensure(r, from->arg[i].tensor, &have, err));
        dt_op_bind(clone, have, from->arg[i].port, DT_READ);
    }
    return DT_OK;
}

/* What it writes: new versions. Stashes nobody asked for stay unbound. */
static dt_status bind_writes(dt_program *p, dt_op *clone, const dt_op *from, const dt_form *f,
    int32_t wanted, int32_t *made, dt_err *err)
{
    for (int i = 0; i < from->n_arg; i++) {
        const dt_operand *a = &from->arg[i];
        const bool stash = a->port >= DT_S && a->port < DT_S + DT_MAX_STASH;
        if (clone_reads(a, f) || a->mode != DT_WRITE || p->tensor[a->tensor].home != DT_NONE ||
            a->port == DT_WORK || (stash && a->tensor != wanted))
            continue;
        int32_t id;
        DT_CHECK(new_version(p, a->tensor, &id, err));
        dt_op_bind(clone, id, a->port, DT_WRITE);
        if (a->tensor == wanted)
            *made = id;
    }
    return DT_OK;
}

/* Run the producer of @root again before r->before; *made is the new version. */
static dt_status clone_producer(request *r, int32_t root, int32_t *made, dt_err *err)
{
    dt_program *p = r->p;
    const int32_t id = dt_producer(p, root);
    const dt_op from = p->op[id]; /* a copy: inserting moves the table */
    dt_form_kind kind;
    const dt_form *f = dt_clone_form(&from, &kind);
    dt_op clone = from;
    clone.kind = from.kind == DT_OP_REORDER ? DT_OP_REORDER : DT_OP_CLONE;
    clone.form = kind;
    clone.clone_of = id;
    clone.n_arg = 0;
    clone.n0 = 0;
    clone.n1 = p->n;
    if (from.n1 - from.n0 < p->n) /* a split op is repeated whole */
        clone.flops = from.flops / (double)(from.n1 - from.n0) * (double)p->n;
    DT_CHECK(bind_reads(r, &clone, &from, f, err));
    *made = DT_NONE;
    DT_CHECK(bind_writes(p, &clone, &from, f, root, made, err));
    DT_ASSERT(*made != DT_NONE);
    /* Named by what it makes, so that names stay unique: "relu1.f" and the primes of "relu1.y'". */
    const char *primes = strrchr(p->tensor[*made].name, '\'');
    const size_t base = strlen(p->tensor[root].name);
    primes = primes != NULL ? p->tensor[*made].name + base : "'";
    snprintf(clone.name, sizeof clone.name, "%.110s%s", from.name, primes);
    dt_facts facts;
    DT_CHECK(dt_op_facts(p, &clone, &facts, err));
    DT_CHECK(dt_op_bind_work(p, &clone, facts.work_bytes, err));
    DT_CHECK(dt_program_index(p, err));
    int32_t at;
    DT_CHECK(dt_program_insert(p, &clone, (size_t)dt_pos(p, r->before), &at, err));
    DT_CHECK(dt_program_index(p, err));
    redirect(p, root, *made, dt_pos(p, at));
    return dt_program_index(p, err);
}

/* Where the value of a tensor can be read right before r->before. */
static dt_status ensure(request *r, int32_t tensor, int32_t *have, dt_err *err)
{
    dt_program *p = r->p;
    const int32_t root = dt_root(p, tensor);
    *have = tensor;
    if (p->tensor[root].home != DT_NONE)
        return DT_OK;
    const bool through = r->dropped != NULL && r->dropped[root];
    const int32_t live = find_live(r, root, through);
    if (live != DT_NONE) {
        *have = live;
        return DT_OK;
    }
    const bool derived = p->tensor[root].role == DT_ROLE_DERIVED;
    if (dt_repeatable(p, root) && (through || derived || r->dropped == NULL))
        return clone_producer(r, root, have, err);
    *have = root; /* kept: its life grows to here */
    return DT_OK;
}

dt_status dt_recompute(dt_program *p, const dt_gap *g, const bool *dropped, dt_err *err)
{
    const dt_tensor *t = &p->tensor[g->tensor];
    if (!dt_repeatable(p, g->tensor))
        return DT_FAIL(err, DT_E_CONFIG, "'%s' cannot be made again", t->name);
    request r = {p, dropped, g->to, p->n_op};
    int32_t made;
    const int32_t version = g->tensor, root = dt_root(p, version);
    DT_CHECK(clone_producer(&r, root, &made, err));
    if (version != root)
        redirect(p, version, made, dt_pos(p, g->to) - 1);
    return dt_program_index(p, err);
}
