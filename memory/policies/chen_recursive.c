/* Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174, section 4.4: cut
 * the network at k values and treat each of the k + 1 parts in the same way when backward comes to
 * it. What is kept at any time is g(n) = k + g(n / (k + 1)) = k log_{k+1}(n); for k = 1 that is
 * log2(n) values, for O(n log n) of forward.
 *
 * Ours differs from the paper where forward ends: the last part of each level is not run again for
 * its own cuts, they are kept on the way. Split points are values that alone cross, also where
 * chen_sqrt by itself cuts elsewhere as well (DTI_CHEN_AUTO). Parts of k + 3 split points or fewer
 * are run again whole: cutting them would save two values at most. */
#include "engine/base/alloc.h"
#include "memory/policies/chen.h"
#include "memory/policy.h"

typedef struct options {
    int64_t cuts;
} options;

enum { MOST_CUTS = 64 };

static const dt_opt opts[] = {
    {"cuts", DT_OPT_I64, offsetof(options, cuts), "1", 1, MOST_CUTS, NULL, NULL,
        "values kept at each level; more cuts keep more and repeat less"},
    {NULL, DT_OPT_I64, 0, NULL, 0, 0, NULL, NULL, NULL},
};

/* Tables by value, but for value_of. */
typedef struct walk {
    dti_chen c;
    size_t cuts;
    int32_t *now;      /* the version that backward reads, as things stand */
    int32_t *wanted;   /* room for a request */
    int32_t *value_of; /* by tensor: its value, or DT_NONE */
    dti_remakes remakes;
} walk;

/* Places of the cuts in values [lo, hi): how many, 0 when the part is not cut any more. */
static size_t cut(const walk *w, size_t lo, size_t hi, size_t at[MOST_CUTS])
{
    size_t splits = 0, seen = 0, n = 0;
    for (size_t i = lo; i < hi; i++)
        splits += w->c.value[i].split;
    if (splits <= w->cuts + 3)
        return 0;
    for (size_t i = lo; i < hi && n < w->cuts; i++)
        if (w->c.value[i].split && seen++ == (n + 1) * splits / (w->cuts + 1))
            at[n++] = i;
    return n;
}

/* The parts that forward goes through last are cut on the way; all before them is dropped. */
static void drop(walk *w)
{
    size_t at[MOST_CUTS], n;
    for (size_t lo = 0; (n = cut(w, lo, w->c.n, at)) > 0; lo = at[n - 1] + 1) {
        for (size_t i = lo; i < at[n - 1]; i++)
            w->c.dropped[w->c.value[i].tensor] = true;
        for (size_t k = 0; k < n; k++)
            w->c.dropped[w->c.value[at[k]].tensor] = false;
    }
}

/* The first op of backward that reads a version; DT_NONE when none does. */
static int32_t reader(const dt_program *p, int32_t tensor)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++)
        if (p->op[a[i].op].kind == DT_OP_BACKWARD)
            return a[i].op;
    return DT_NONE;
}

static int32_t first_reader(const walk *w, size_t lo, size_t hi)
{
    const dt_program *p = w->c.p;
    int32_t first = DT_NONE;
    for (size_t i = lo; i < hi; i++) {
        const int32_t op = reader(p, w->now[i]);
        if (op != DT_NONE && (first == DT_NONE || dt_pos(p, op) < dt_pos(p, first)))
            first = op;
    }
    return first;
}

/* Make values [lo, hi) again before an op, as far as backward reads them and forward dropped them.
 */
static dt_status replay(walk *w, size_t lo, size_t hi, int32_t before, dt_err *err)
{
    dt_program *p = w->c.p;
    const size_t had = p->n_tensor;
    size_t n = 0;
    for (size_t i = lo; i < hi; i++)
        if (w->c.dropped[w->c.value[i].tensor] && reader(p, w->now[i]) != DT_NONE)
            w->wanted[n++] = w->now[i];
    if (n == 0)
        return DT_OK;
    int32_t reason;
    DT_CHECK(
        dt_reasons_add(&p->reasons, &reason, err, "%s: part from %.32s to %.32s, %zu kept a level",
            p->policy, p->graph->node[p->op[w->c.value[lo].op].node].name,
            p->graph->node[p->op[w->c.value[hi - 1].op].node].name, w->cuts));
    DT_CHECK(dti_remakes_before(&w->remakes, before, w->wanted, n, reason, err));
    for (size_t t = had; t < p->n_tensor; t++) {
        const int32_t of = p->tensor[t].of;
        if (of != DT_NONE && w->value_of[of] != DT_NONE)
            w->now[w->value_of[of]] = (int32_t)t;
    }
    return DT_OK;
}

static dt_status visit(walk *w, size_t lo, size_t hi, dt_err *err)
{
    size_t at[MOST_CUTS];
    const int32_t before = first_reader(w, lo, hi);
    if (before == DT_NONE)
        return DT_OK;
    const size_t n = cut(w, lo, hi, at);
    if (n == 0)
        return replay(w, lo, hi, before, err);
    DT_CHECK(replay(w, lo, at[n - 1] + 1, before, err));
    DT_CHECK(visit(w, at[n - 1] + 1, hi, err));
    for (size_t k = n; k-- > 0;)
        DT_CHECK(visit(w, k == 0 ? lo : at[k - 1] + 1, at[k], err));
    return DT_OK;
}

/* As visit, for a part that forward has just gone through and cut. */
static dt_status visit_last(walk *w, size_t lo, dt_err *err)
{
    size_t at[MOST_CUTS];
    const size_t n = cut(w, lo, w->c.n, at);
    if (n == 0)
        return DT_OK;
    DT_CHECK(visit_last(w, at[n - 1] + 1, err));
    for (size_t k = n; k-- > 0;)
        DT_CHECK(visit(w, k == 0 ? lo : at[k - 1] + 1, at[k], err));
    return DT_OK;
}

static dt_status open_walk(walk *w, dt_program *p, size_t cuts, dt_err *err)
{
    *w = (walk){.cuts = cuts};
    DT_CHECK(dti_chen_open(&w->c, p, err));
    w->now = dt_alloc(w->c.n + 1, sizeof *w->now);
    w->wanted = dt_alloc(w->c.n + 1, sizeof *w->wanted);
    w->value_of = dt_alloc(w->c.n_tensor + 1, sizeof *w->value_of);
    if (w->now == NULL || w->wanted == NULL || w->value_of == NULL)
        return dti_pass_no_memory(err);
    for (size_t t = 0; t < w->c.n_tensor; t++)
        w->value_of[t] = DT_NONE;
    for (size_t i = 0; i < w->c.n; i++) {
        w->now[i] = w->c.value[i].tensor;
        w->value_of[w->now[i]] = (int32_t)i;
    }
    return DT_OK;
}

static dt_status chen_recursive(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    walk w;
    dt_status st = open_walk(&w, p, (size_t)((const options *)env->opts)->cuts, err);
    if (st == DT_OK && w.c.n > 0) {
        drop(&w);
        st = dti_remakes_open(&w.remakes, p, w.c.dropped, false, err);
        if (st == DT_OK)
            st = visit_last(&w, 0, err);
        dti_remakes_close(&w.remakes);
    }
    dti_chen_close(&w.c);
    dt_free(w.now);
    dt_free(w.wanted);
    dt_free(w.value_of);
    return st;
}

const dt_policy dt_policy_chen_recursive = {
    .name = "chen_recursive",
    .summary = "keep k values a level, run parts again and again: log(n) memory (Chen 2016)",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = chen_recursive,
};
