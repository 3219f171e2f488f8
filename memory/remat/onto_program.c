/* From a sequence of runs back to a program. Runs between the first runs of two ops are one
 * request: recomputes right before the second. What they read is the newest version of each value,
 * as in the sequence, and who reads a value behind them reads the version that they made.
 *
 * The program's order stays. A sequence that has first runs in another order runs an op again
 * before the same op, if that comes behind its first run in the program, else not. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"
#include "memory/remat/of_program.h"

/* That an op runs again, before another. */
typedef struct repeat {
    uint32_t before, op;
} repeat;

/**
 * struct onto - a program being rewritten.
 * @now:     by op of the graph, the version of its value that is read as things stand
 * @op_of:   by tensor of the program as it came: the op whose value it is
 * @dropped: by tensor of the program as it came: made again with what took its bytes
 */
typedef struct onto {
    dt_program *p;
    const dti_remat_program *r;
    size_t n_tensor, n_repeat;
    int32_t *now, *version;
    uint32_t *op_of;
    repeat *repeat;
    bool *ran, *dropped;
    dti_remakes remakes;
} onto;

void dti_remat_only(dti_remat_program *r, const dt_program *p, const bool *allowed)
{
    for (uint32_t v = 0; v < r->graph.n_op; v++) {
        const bool fetch = r->op[v] != DT_NONE && p->op[r->op[v]].kind == DT_OP_FETCH;
        const bool may = fetch || (r->tensor[v] != DT_NONE && allowed[r->tensor[v]]);
        r->once[v] = r->once[v] != 0 || !may;
    }
}

/* Copies and new versions are of roots; the newest is read from here on. */
static void see_new(onto *o, size_t had)
{
    for (size_t t = had; t < o->p->n_tensor; t++) {
        const int32_t of = o->p->tensor[t].of;
        if (of != DT_NONE && (size_t)of < o->n_tensor && o->op_of[of] != UINT32_MAX)
            o->now[o->op_of[of]] = (int32_t)t;
    }
}

/* An input that runs again is fetched again, which is a pass of its own. */
static bool recomputes(const onto *o, uint32_t v)
{
    const int32_t t = o->r->tensor[v];
    return o->r->once[v] == 0 && t != DT_NONE && dti_repeatable(o->p, t);
}

static int in_order(const void *a, const void *b)
{
    const repeat *x = a, *y = b;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Further runs are asked for until the next first run of an op of the program. */
static void find_repeats(onto *o, const dt_remat_sequence *runs)
{
    size_t open = 0;
    for (size_t i = 0; i < runs->n; i++) {
        const uint32_t v = runs->op[i];
        if (o->ran[v] && recomputes(o, v))
            o->repeat[o->n_repeat++] = (repeat){0, v};
        if (o->ran[v] || o->r->op[v] == DT_NONE) {
            o->ran[v] = true;
            continue;
        }
        o->ran[v] = true;
        size_t kept = open;
        for (size_t k = open; k < o->n_repeat; k++)
            if (o->repeat[k].op < v)
                o->repeat[kept++] = (repeat){v, o->repeat[k].op};
        open = o->n_repeat = kept;
    }
    o->n_repeat = open; /* none behind the last */
    qsort(o->repeat, o->n_repeat, sizeof *o->repeat, in_order);
}

static dt_status walk(onto *o, const dt_remat_sequence *runs, dt_err *err)
{
    find_repeats(o, runs);
    for (size_t i = 0; i < o->n_repeat;) {
        const uint32_t before = o->repeat[i].before;
        const size_t had = o->p->n_tensor;
        size_t n = 0;
        for (; i < o->n_repeat && o->repeat[i].before == before; i++)
            if (n == 0 || o->repeat[i].op != o->repeat[i - 1].op)
                o->version[n++] = o->now[o->repeat[i].op];
        DT_CHECK(dti_remakes_before(&o->remakes, o->r->op[before], o->version, n, 0, err));
        see_new(o, had);
    }
    return DT_OK;
}

static dt_status onto_open(onto *o, size_t n_run, dt_err *err)
{
    const uint32_t n = o->r->graph.n_op;
    o->now = dt_alloc(n + 1, sizeof *o->now);
    o->version = dt_alloc(n + 1, sizeof *o->version);
    o->op_of = dt_alloc(o->n_tensor + 1, sizeof *o->op_of);
    o->repeat = dt_alloc(n_run + 1, sizeof *o->repeat);
    o->ran = dt_alloc(n + 1, sizeof *o->ran);
    o->dropped = dt_alloc(o->n_tensor + 1, sizeof *o->dropped);
    if (o->now == NULL || o->version == NULL || o->op_of == NULL || o->repeat == NULL ||
        o->ran == NULL || o->dropped == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to make values again");
    memset(o->op_of, 0xff, o->n_tensor * sizeof *o->op_of);
    for (uint32_t v = 0; v < n; v++) {
        o->now[v] = o->r->tensor[v];
        if (o->now[v] != DT_NONE)
            o->op_of[o->now[v]] = v;
    }
    for (size_t t = 0; t < o->n_tensor; t++) {
        const uint32_t v = o->r->op_of[t];
        o->dropped[t] = v != UINT32_MAX && o->r->tensor[v] != (int32_t)t && recomputes(o, v) &&
                        dti_repeatable(o->p, (int32_t)t);
    }
    return DT_OK;
}

dt_status dti_remat_onto(
    dt_program *p, const dti_remat_program *r, const dt_remat_sequence *runs, dt_err *err)
{
    onto o = {.p = p, .r = r, .n_tensor = p->n_tensor};
    dt_status st = dt_program_index(p, err);
    if (st == DT_OK)
        st = onto_open(&o, runs->n, err);
    if (st == DT_OK)
        st = dti_remakes_open(&o.remakes, p, o.dropped, false, err);
    if (st == DT_OK)
        st = walk(&o, runs, err);
    dti_remakes_close(&o.remakes);
    dt_free(o.now);
    dt_free(o.version);
    dt_free(o.op_of);
    dt_free(o.repeat);
    dt_free(o.ran);
    dt_free(o.dropped);
    return st;
}
