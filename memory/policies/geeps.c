/* GeePS (Cui et al., EuroSys 2016, section 4): a server of parameters that holds a program's data
 * in the host's memory and stages it on the device. A step is the same sequence of accesses every
 * time, so it is known when each value is needed: what the next operation reads is copied in, and
 * what the last one has left is copied out, while one computes. For that the pool of staged values
 * is double-buffered: it holds what two operations in a row take. The rest of the device is for
 * values that are pinned.
 *
 * Ours differs:
 * - What GeePS moves its program lists. Here all that forward leaves for backward is listed, of the
 *   layers that `move` names; `pin` names those that stay.
 * - Where there is a budget, what fits beside the staged values is pinned as well, what backward
 *   needs first before others. A real plan says what fits.
 * - The pool of staged values has no bytes of its own: they are taken and given back where a buffer
 *   would be, so that the plan places all together.
 * - Parameters, whose versions the server keeps on several machines, are none of values: homes in
 *   [memory.layers] and the policy zero_infinity move them. The input is fetched again. */
#include "engine/base/alloc.h"
#include "memory/policies/globs.h"
#include "memory/policy.h"

enum { ROUNDS = 8 };

typedef struct options {
    const char *move, *pin;
    uint64_t budget;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"move",   DT_OPT_STR,   AT(move),   "*", 0, 0, NULL, NULL, "layers whose values are staged: globs over their names, separated by commas"},
    {"pin",    DT_OPT_STR,   AT(pin),    "",  0, 0, NULL, NULL, "layers whose values stay, even if move names them: globs over their names, separated by commas"},
    {"budget", DT_OPT_BYTES, AT(budget), "0", 0, 0, NULL, NULL, "most device memory to use; 0: memory.device_budget. Without a budget only what pin names is pinned"},
    {NULL,     DT_OPT_I64,   0,          NULL, 0, 0, NULL, NULL, NULL},
};
/* clang-format on */

/* @gap: of n values, in the order of production, with what fits @pinned. */
typedef struct geeps {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    size_t n;
    dti_gap *gap;
    bool *pinned;
} geeps;

static bool listed(const geeps *x, int32_t tensor, dti_gap *g)
{
    const dt_tensor *t = &x->p->tensor[tensor];
    const dt_node *layer = t->node != DT_NONE ? &x->p->graph->node[t->node] : NULL;
    return t->role != DT_ROLE_INPUT && dti_may_free(t, 0) &&
           dti_globs_match(x->o->move, layer) != 0 && dti_globs_match(x->o->pin, layer) == 0 &&
           dti_gap_crossing(x->p, tensor, g);
}

static dt_status find_values(geeps *x, dt_err *err)
{
    const dt_program *p = x->p;
    x->gap = dt_alloc(p->n_tensor + 1, sizeof *x->gap);
    x->pinned = dt_alloc(p->n_tensor + 1, sizeof *x->pinned);
    if (x->gap == NULL || x->pinned == NULL)
        return dti_pass_no_memory(err);
    for (int32_t k = 0; k < dt_pos(p, p->loss); k++) {
        const dt_op *op = &p->op[p->order[k]];
        for (int a = 0; a < op->n_arg; a++)
            if (dti_producer(p, op->arg[a].tensor) == p->order[k] &&
                listed(x, op->arg[a].tensor, &x->gap[x->n]))
                x->n++;
    }
    return DT_OK;
}

/* ---- staging ---- */

/* The next op that computes, behind a place or before it. */
static int32_t neighbour(const dt_program *p, int32_t pos, int32_t step)
{
    do
        pos += step;
    while (pos >= 0 && (size_t)pos < p->n_order && p->op[p->order[pos]].desc == NULL);
    return pos;
}

/* Out while the op behind its last reader runs, and back while the one before its next does; @says
 * why. */
static dt_status stage(
    const geeps *x, dt_program *q, const dti_gap *from, bool says, dti_offloads *all, dt_err *err)
{
    const int32_t out = neighbour(x->p, from->from_pos, 1), in = neighbour(x->p, from->to_pos, -1);
    dti_gap g = dti_gap_now(q, *from);
    if (in <= out + 1)
        return DT_OK;
    const dti_offload_opt o = {.release_after = x->p->order[out], .fetch_before = x->p->order[in]};
    if (says)
        DT_CHECK(dt_reasons_add(&q->reasons, &g.reason, err,
            "%s: staged, out beside %.40s and back beside %.40s", q->policy,
            q->op[o.release_after].name, q->op[o.fetch_before].name));
    return dti_offloads_add(all, q, &g, &o, err);
}

static dt_status rewrite(const geeps *x, dt_program *q, bool says, dt_err *err)
{
    dti_offloads all = {0};
    dt_status st = DT_OK;
    for (size_t i = 0; i < x->n && st == DT_OK; i++)
        if (!x->pinned[i])
            st = stage(x, q, &x->gap[i], says, &all, err);
    return dti_offloads_end(&all, q, st, err);
}

static dt_status try(void *self, dt_program *copy, dt_err *err)
{
    return rewrite(self, copy, false, err);
}

/* ---- what is pinned ---- */

/* Values of so many bytes or fewer, from the last one made on. */
static void pin(geeps *x, uint64_t bytes)
{
    for (size_t i = x->n; i-- > 0;) {
        const uint64_t own = x->p->tensor[x->gap[i].tensor].bytes;
        x->pinned[i] = own <= bytes;
        bytes -= x->pinned[i] ? own : 0;
    }
}

/* Between what surely fits, and what did not. */
static dt_status pin_what_fits(geeps *x, uint64_t budget, dt_err *err)
{
    uint64_t low = 0, high = 0;
    bool fits;
    DT_CHECK(dti_pass_fits_if(x->env, x->p, try, x, budget - 1, &fits, err));
    if (!fits)
        return DT_OK;
    for (size_t i = 0; i < x->n; i++)
        high += x->p->tensor[x->gap[i].tensor].bytes;
    uint64_t bytes = high;
    for (int round = 0; round < ROUNDS && low < high; round++) {
        pin(x, bytes);
        DT_CHECK(dti_pass_fits_if(x->env, x->p, try, x, budget, &fits, err));
        if (fits)
            low = bytes;
        else
            high = bytes;
        bytes = low + (high - low) / 2;
    }
    pin(x, low);
    return DT_OK;
}

/* Places are those of the program as it came, which rewriting it moves. */
static dt_status pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    geeps x = {.p = p, .env = env, .o = env->opts};
    const uint64_t budget = dti_pass_budget(env, x.o->budget);
    dt_program *as_it_came = NULL;
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dti_globs_check(x.o->move, p->graph, "geeps", "move", err));
    DT_CHECK(dti_globs_check(x.o->pin, p->graph, "geeps", "pin", err));
    dt_status st = dt_program_index(p, err);
    if (st == DT_OK)
        st = dti_fetch_again(p, err);
    if (st == DT_OK)
        st = find_values(&x, err);
    if (st == DT_OK && budget > 0)
        st = pin_what_fits(&x, budget, err);
    if (st == DT_OK)
        st = dt_program_copy(&as_it_came, p, err);
    if (st == DT_OK) {
        x.p = as_it_came;
        st = rewrite(&x, p, true, err);
    }
    dt_program_destroy(as_it_came);
    dt_free(x.gap);
    dt_free(x.pinned);
    return st;
}

const dt_policy dt_policy_geeps = {
    .name = "geeps",
    .summary = "values staged beside the ops before and after them, the rest pinned (GeePS 2016)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = pass,
};
