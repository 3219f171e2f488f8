/* RECOMPUTE: forward again. A recompute reads what is resident at its place, and recomputes what is
 * not, back to something that is. Recomputes touch no state: they run the recompute form, which
 * reads saved statistics.
 *
 * First all recomputes of a request are found, on a fresh index, and who reads what they make; then
 * all are made, and the index is brought up to date once. Programs of thousands of ops see
 * thousands of requests, which share a table of all tensors; each sets right again what it wrote
 * there. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"

enum { UNKNOWN = -1, PENDING = -2, WANTED = -3 };

/* By tensor, of those there are when a request begins. */
struct dti_remade {
    int32_t have;          /* of a root: what holds its value at this place, or one of the above */
    int32_t newest, older; /* of a root its newest version; of a version the one before; DT_NONE */
    int32_t versions;      /* of a root: how many, itself included */
    bool written;          /* have, by the request at hand */
};

/* Who reads one of the values, at its place when they were looked for. */
struct dti_remade_reader {
    int32_t op, pos;
};

typedef dti_remakes request;

static bool grow_tables(request *r)
{
    size_t of_v = r->cap, of_todo = r->cap;
    return dt_grow(&r->v, &of_v, r->n_v, sizeof *r->v) &&
           dt_grow(&r->todo, &of_todo, r->n_v, sizeof *r->todo) &&
           dt_grow(&r->written, &r->cap, r->n_v, sizeof *r->written);
}

/* Tensors that came since the last request; @counted: which made them. */
static dt_status see_new(request *r, bool counted, dt_err *err)
{
    const dt_program *p = r->p;
    for (; r->n_v < p->n_tensor; r->n_v++) {
        if (!grow_tables(r))
            return DT_FAIL(err, DT_E_NOMEM, "no memory to recompute");
        const int32_t t = (int32_t)r->n_v;
        r->v[t] = (struct dti_remade){UNKNOWN, DT_NONE, DT_NONE, 1, false};
        if (p->tensor[t].of == DT_NONE)
            continue;
        struct dti_remade *root = &r->v[dti_root(p, t)];
        r->v[t].older = root->newest;
        root->newest = t;
        root->versions += !counted;
    }
    return DT_OK;
}

static void set_have(request *r, int32_t t, int32_t have)
{
    if (!r->v[t].written)
        r->written[r->n_written++] = t;
    r->v[t].written = true;
    r->v[t].have = have;
}

static void forget(request *r)
{
    for (size_t i = 0; i < r->n_written; i++) {
        r->v[r->written[i]].have = UNKNOWN;
        r->v[r->written[i]].written = false;
    }
    r->n_written = r->n_todo = 0;
    dt_free(r->reader);
    r->reader = NULL;
}

/* A version of the value that lies on the device at this place; recomputes only, when asked. */
static int32_t find_live(const request *r, int32_t root, bool recomputes_only)
{
    for (int32_t t = r->v[root].newest; t != DT_NONE; t = r->v[t].older)
        if (dti_resident(r->p, t, r->pos))
            return t;
    return !recomputes_only && dti_resident(r->p, root, r->pos) ? root : DT_NONE;
}

/* What was made of the value last before this place. */
static int32_t newest_before(const request *r, int32_t root)
{
    for (int32_t t = r->v[root].newest; t != DT_NONE; t = r->v[t].older) {
        int32_t n;
        const dt_access *a = dt_accesses(r->p, t, &n);
        if (n > 0 && dt_pos(r->p, a[0].op) < r->pos)
            return t;
    }
    return root;
}

static bool is_dropped(const request *r, int32_t root)
{
    return r->dropped != NULL &&
           (r->dropped[root] || (r->absent && !dti_resident(r->p, root, r->pos)));
}

static void find_recomputes(request *r, int32_t root);

/* Where the value of a tensor can be read at this place. */
static void find(request *r, int32_t tensor)
{
    const dt_program *p = r->p;
    const int32_t root = dti_root(p, tensor);
    if (r->v[root].have == WANTED)
        find_recomputes(r, root);
    if (p->tensor[root].home != DT_NONE || r->v[root].have != UNKNOWN)
        return;
    const bool dropped = is_dropped(r, root);
    const dt_pin pin = p->tensor[root].pin;
    set_have(r, root, find_live(r, root, dropped && pin == DT_PIN_NONE));
    if (r->v[root].have != DT_NONE)
        return;
    const bool derived = p->tensor[root].role == DT_ROLE_DERIVED;
    if (pin != DT_PIN_KEEP && dti_repeatable(p, root) && (dropped || derived || r->dropped == NULL))
        find_recomputes(r, root);
    else
        set_have(r, root, newest_before(r, root)); /* kept: its life grows to here */
}

/* The producer of @root runs again, after whatever must run again for that: derived weights last,
 * so that they wait for nothing. */
static void find_recomputes(request *r, int32_t root)
{
    const dt_op *op = &r->p->op[dti_producer(r->p, root)];
    dt_form_kind kind;
    const dt_form *f = dti_recompute_form(op, &kind);
    for (int derived = 0; derived < 2; derived++)
        for (int i = 0; i < op->n_arg; i++) {
            const int32_t t = op->arg[i].tensor;
            if (dti_recompute_reads(&op->arg[i], f) &&
                (r->p->tensor[t].role == DT_ROLE_DERIVED) == (derived != 0))
                find(r, t);
        }
    set_have(r, root, PENDING);
    r->todo[r->n_todo++] = root;
}

/* With the primes of a version, by its number from 1 on: "relu1.y'", "relu1.y''", "relu1.y'3". */
static void name_version(char to[DT_TENSOR_NAME_BYTES], const char *name, int32_t version)
{
    if (version <= 2)
        snprintf(to, DT_TENSOR_NAME_BYTES, "%.110s%s", name, version == 1 ? "'" : "''");
    else
        snprintf(to, DT_TENSOR_NAME_BYTES, "%.110s'%d", name, (int)version);
}

/* A new tensor like the root, named with one more prime. */
static dt_status new_version(request *r, int32_t root, int32_t *id, dt_err *err)
{
    dt_program *p = r->p;
    dt_tensor t = p->tensor[root];
    t.of = root;
    name_version(t.name, p->tensor[root].name, r->v[root].versions++);
    return dt_program_tensor(p, &t, id, err);
}

static void bind_reads(const request *r, dt_op *recompute, const dt_op *from, const dt_form *f)
{
    for (int i = 0; i < from->n_arg; i++) {
        if (!dti_recompute_reads(&from->arg[i], f))
            continue;
        const int32_t tensor = from->arg[i].tensor, root = dti_root(r->p, tensor);
        const bool home = r->p->tensor[root].home != DT_NONE;
        dt_op_bind(recompute, home ? tensor : r->v[root].have, from->arg[i].port, DT_READ);
    }
}

/* What it writes: new versions. Stashes nobody asked for stay unbound. */
static dt_status bind_writes(
    request *r, dt_op *recompute, const dt_op *from, const dt_form *f, int32_t wanted, dt_err *err)
{
    dt_program *p = r->p;
    for (int i = 0; i < from->n_arg; i++) {
        const dt_operand *a = &from->arg[i];
        if (dti_recompute_reads(a, f) || a->mode != DT_WRITE ||
            p->tensor[a->tensor].home != DT_NONE || a->port == DT_WORK ||
            (dti_is_stash(a->port) && a->tensor != wanted))
            continue;
        int32_t id;
        DT_CHECK(new_version(r, a->tensor, &id, err));
        dt_op_bind(recompute, id, a->port, DT_WRITE);
        if (a->tensor == wanted)
            set_have(r, wanted, id);
    }
    return DT_OK;
}

/* Run the producer of @root again, as the i-th recompute of the request. */
static dt_status make_recompute(request *r, int32_t root, int32_t producer, size_t i, dt_err *err)
{
    dt_program *p = r->p;
    const dt_op from = p->op[producer]; /* a copy: inserting moves the table */
    dt_form_kind kind;
    const dt_form *f = dti_recompute_form(&from, &kind);
    dt_op recompute = from;
    recompute.kind = from.kind == DT_OP_REORDER ? DT_OP_REORDER : DT_OP_RECOMPUTE;
    recompute.form = kind;
    recompute.recompute_of = producer;
    recompute.reason = r->reason;
    recompute.n_arg = 0;
    recompute.n0 = 0;
    recompute.n1 = p->n;
    if (from.n1 - from.n0 < p->n) /* a split op is repeated whole */
        recompute.flops = from.flops / (double)(from.n1 - from.n0) * (double)p->n;
    bind_reads(r, &recompute, &from, f);
    DT_CHECK(bind_writes(r, &recompute, &from, f, root, err));
    DT_ASSERT(r->v[root].have != PENDING);
    /* With the primes of what it makes, so that names stay unique. */
    name_version(recompute.name, from.name, r->v[root].versions - 1);
    dt_facts facts;
    DT_CHECK(dt_op_facts(p, &recompute, &facts, err));
    DT_CHECK(dt_op_bind_work(p, &recompute, facts.work_bytes, err));
    int32_t id;
    return dt_program_insert(p, &recompute, (size_t)r->pos + i, &id, err);
}

/* What is now copied out of a new version: the copy back brings that back, whatever has been
 * defined between the two; NULL: the op is none such. */
static const int32_t *brought_back(const request *r, const dt_op *op)
{
    const int32_t *out = op->kind == DT_OP_IN ? &r->p->op[op->pair].arg[0].tensor : NULL;
    const int32_t in = op->arg[0].tensor;
    return out != NULL && *out >= (int32_t)r->n_v && in < (int32_t)r->n_v &&
                   dti_root(r->p, *out) == dti_root(r->p, in)
               ? out
               : NULL;
}

/* What it reads of old versions it now reads of new ones. */
static void redirect_op(request *r, int32_t id)
{
    const dt_op *op = &r->p->op[id];
    const int32_t *back = op->n_arg > 0 ? brought_back(r, op) : NULL;
    if (back != NULL) {
        set_have(r, op->arg[0].tensor, *back);
        dt_program_rebind(r->p, id, 0, *back);
        return;
    }
    for (int a = 0; a < op->n_arg; a++) {
        const int32_t from = op->arg[a].tensor;
        if (from >= (int32_t)r->n_v || r->v[from].have < (int32_t)r->n_v)
            continue;
        if (op->arg[a].mode == DT_WRITE)
            set_have(r, from, UNKNOWN);
        else
            dt_program_rebind(r->p, id, a, r->v[from].have);
    }
}

/* Readers behind the recomputes, up to the next definition of the old version, read the new one. */
static void redirect(request *r)
{
    int32_t before = DT_NONE;
    for (size_t i = 0; i < r->n_reader; i++) {
        const int32_t id = r->reader[i].op;
        if (id != before)
            redirect_op(r, id);
        before = id;
    }
}

/* ---- who reads what is made again ---- */

static size_t add_readers(const request *r, int32_t tensor, struct dti_remade_reader *to)
{
    int32_t n;
    size_t found = 0;
    const dt_access *a = dt_accesses(r->p, tensor, &n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t pos = dt_pos(r->p, a[i].op);
        if (pos >= r->pos && to != NULL)
            to[found] = (struct dti_remade_reader){a[i].op, pos};
        found += pos >= r->pos;
    }
    return found;
}

/* Of all versions of all values. @to: NULL: how many there are */
static size_t list_readers(const request *r, struct dti_remade_reader *to)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_todo; i++) {
        n += add_readers(r, r->todo[i], to != NULL ? to + n : NULL);
        for (int32_t t = r->v[r->todo[i]].newest; t != DT_NONE; t = r->v[t].older)
            n += add_readers(r, t, to != NULL ? to + n : NULL);
    }
    return n;
}

static int by_place(const void *a, const void *b)
{
    const struct dti_remade_reader *x = a, *y = b;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

/* While the index is that of the program. */
static dt_status find_readers(request *r, dt_err *err)
{
    r->n_reader = list_readers(r, NULL);
    r->reader = dt_alloc(r->n_reader, sizeof *r->reader);
    if (r->reader == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to recompute");
    (void)list_readers(r, r->reader);
    qsort(r->reader, r->n_reader, sizeof *r->reader, by_place);
    return DT_OK;
}

static dt_status make_recomputes(request *r, dt_err *err)
{
    int32_t *producer =
        dt_alloc(r->n_todo + 1, sizeof *producer); /* the index ends with the first */
    if (producer == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to recompute");
    for (size_t i = 0; i < r->n_todo; i++)
        producer[i] = dti_producer(r->p, r->todo[i]);
    dt_status st = DT_OK;
    for (size_t i = 0; i < r->n_todo && st == DT_OK; i++)
        st = make_recompute(r, r->todo[i], producer[i], i, err);
    dt_free(producer);
    return st;
}

/* What is to be made again, whatever is resident. */
static dt_status want(request *r, const int32_t *version, size_t n, dt_err *err)
{
    const dt_program *p = r->p;
    for (size_t i = 0; i < n; i++) {
        const dt_tensor *t = &p->tensor[version[i]];
        if (t->pin != DT_PIN_NONE)
            continue;
        if (!dti_repeatable(p, version[i]))
            return DT_FAIL(err, DT_E_CONFIG, "'%s' cannot be made again", t->name);
        set_have(r, dti_root(p, version[i]), WANTED);
    }
    for (size_t i = 0; i < n; i++)
        if (r->v[dti_root(p, version[i])].have == WANTED)
            find(r, version[i]);
    return DT_OK;
}

dt_status dti_remakes_open(
    dti_remakes *r, dt_program *p, const bool *dropped, bool absent, dt_err *err)
{
    *r = (dti_remakes){.p = p, .dropped = dropped, .absent = absent};
    return see_new(r, false, err);
}

void dti_remakes_close(dti_remakes *r)
{
    dt_free(r->v);
    dt_free(r->todo);
    dt_free(r->written);
    dt_free(r->reader);
}

static dt_status remake(request *r, const int32_t *version, size_t n, dt_err *err)
{
    const dt_program *p = r->p;
    DT_CHECK(want(r, version, n, err));
    DT_CHECK(find_readers(r, err));
    DT_CHECK(make_recomputes(r, err));
    for (size_t i = 0; i < n; i++)
        if (p->tensor[version[i]].pin == DT_PIN_NONE)
            set_have(r, version[i], r->v[dti_root(p, version[i])].have);
    redirect(r);
    return DT_OK;
}

dt_status dti_remakes_before(
    dti_remakes *r, int32_t before, const int32_t *version, size_t n, int32_t reason, dt_err *err)
{
    DT_CHECK(see_new(r, false, err));
    r->pos = dt_pos(r->p, before);
    r->reason = reason;
    dt_status st = remake(r, version, n, err);
    forget(r);
    if (st == DT_OK)
        st = see_new(r, true, err);
    return st == DT_OK ? dt_program_index(r->p, err) : st;
}

dt_status dti_remakes_pin(dti_remakes *r, int32_t root, dt_pin to, dt_err *err)
{
    DT_CHECK(see_new(r, false, err));
    r->p->tensor[root].pin = to;
    for (int32_t t = r->v[root].newest; t != DT_NONE; t = r->v[t].older)
        r->p->tensor[t].pin = to;
    return DT_OK;
}

dt_status dti_recompute(dt_program *p, const dti_gap *g, const bool *dropped, dt_err *err)
{
    dti_remakes r;
    dt_status st = dti_remakes_open(&r, p, dropped, false, err);
    if (st == DT_OK)
        st = dti_remakes_before(&r, g->to, &g->tensor, 1, g->reason, err);
    dti_remakes_close(&r);
    return st;
}
