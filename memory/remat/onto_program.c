/* From a sequence of runs back to a program. Runs between the first runs of two ops are one
 * request: recomputes right before the second. What they read is the newest version of each value,
 * as in the sequence, and who reads a value behind them reads the version that they made. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"
#include "memory/remat/of_program.h"

/**
 * struct onto - a program being rewritten.
 * @now:     by op of the graph, the version of its value that is read as things stand
 * @asked:   by op of the graph, whether it is to run again before the next first run
 * @ran:     by op of the graph
 * @dropped: by tensor of the program as it came: made again with what took its bytes
 */
typedef struct onto {
    dt_program *p;
    const dt_remat_program *r;
    size_t n_tensor;
    int32_t *now, *version;
    uint32_t *op_of; /* by tensor of the program as it came: the op whose value it is */
    bool *asked, *ran, *dropped;
    size_t n_asked;
    int32_t reason;
} onto;

void dti_remat_only(
    dt_remat_program *r, const dt_program *p, const int32_t *tensor, size_t n_tensor)
{
    for (uint32_t v = 0; v < r->graph.n_op; v++) {
        const bool fetch = r->op[v] != DT_NONE && p->op[r->op[v]].kind == DT_OP_FETCH;
        bool allowed = fetch;
        for (size_t i = 0; i < n_tensor; i++)
            allowed = allowed || tensor[i] == r->tensor[v];
        r->once[v] = r->once[v] != 0 || !allowed;
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

static dt_status run_again(onto *o, int32_t before, dt_err *err)
{
    const size_t had = o->p->n_tensor;
    size_t n = 0;
    for (uint32_t v = 0; v < o->r->graph.n_op && o->n_asked > 0; v++)
        if (o->asked[v]) {
            o->version[n++] = o->now[v];
            o->asked[v] = false;
            o->n_asked--;
        }
    if (n == 0)
        return DT_OK;
    DT_CHECK(dti_recompute_before(o->p, before, o->version, n, o->dropped, o->reason, err));
    see_new(o, had);
    return DT_OK;
}

/* An input that runs again is fetched again, which is a pass of its own. */
static bool recomputes(const onto *o, uint32_t v)
{
    const int32_t t = o->r->tensor[v];
    return o->r->once[v] == 0 && t != DT_NONE && dti_repeatable(o->p, t);
}

static dt_status walk(onto *o, const dt_remat_sequence *runs, dt_err *err)
{
    for (size_t i = 0; i < runs->n; i++) {
        const uint32_t v = runs->op[i];
        if (o->ran[v] && recomputes(o, v) && !o->asked[v]) {
            o->asked[v] = true;
            o->n_asked++;
        }
        if (!o->ran[v] && o->r->op[v] != DT_NONE)
            DT_CHECK(run_again(o, o->r->op[v], err));
        o->ran[v] = true;
    }
    return DT_OK;
}

static dt_status onto_open(onto *o, dt_err *err)
{
    const uint32_t n = o->r->graph.n_op;
    o->now = dt_alloc(n + 1, sizeof *o->now);
    o->version = dt_alloc(n + 1, sizeof *o->version);
    o->op_of = dt_alloc(o->n_tensor + 1, sizeof *o->op_of);
    o->asked = dt_alloc(n + 1, sizeof *o->asked);
    o->ran = dt_alloc(n + 1, sizeof *o->ran);
    o->dropped = dt_alloc(o->n_tensor + 1, sizeof *o->dropped);
    if (o->now == NULL || o->version == NULL || o->op_of == NULL || o->asked == NULL ||
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

dt_status dti_remat_onto(dt_program *p, const dt_remat_program *r, const dt_remat_sequence *runs,
    int32_t reason, dt_err *err)
{
    onto o = {.p = p, .r = r, .n_tensor = p->n_tensor, .reason = reason};
    dt_status st = dt_program_index(p, err);
    if (st == DT_OK)
        st = onto_open(&o, err);
    if (st == DT_OK)
        st = walk(&o, runs, err);
    dt_free(o.now);
    dt_free(o.version);
    dt_free(o.op_of);
    dt_free(o.asked);
    dt_free(o.ran);
    dt_free(o.dropped);
    return st;
}
