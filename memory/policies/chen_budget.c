/* Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174, algorithm 3 and
 * appendix A: walk over forward adding up bytes, keep the next split point whenever the sum exceeds
 * B, and look for the B whose plan takes the fewest bytes: six values around sqrt(x y), where x and
 * y are the kept bytes and the largest segment of the plan for B = 0.
 *
 * Ours differs from the paper in three things. Each plan is scored by its real peak, from lowering
 * with the run's pool, since y leaves out the last segment, workspaces and gradients. The search
 * goes on from those six up to the plan that keeps everything, so the one found is never worse than
 * that. And the paper has no plan between the one found and one that recomputes nothing: with a
 * budget, ours goes from the one found up a ladder, on which a rung keeps all that the rung below
 * keeps and a share more of the dropped bytes, what is dearest to make again first, with what is
 * made on the way to it, and takes the highest that fits. So a larger budget never recomputes more,
 * and a lower one never has a higher peak. Split points are those of chen_sqrt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policies/chen.h"
#include "memory/policy.h"

typedef struct options {
    const char *segment;
    uint64_t budget;
    int cuts;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"segment", DT_OPT_STR,   AT(segment), "auto", 0, 0, NULL, NULL, "B of the paper's algorithm 3: bytes after which the next cut follows; auto: searched for"},
    {"budget",  DT_OPT_BYTES, AT(budget),  "0",    0, 0, NULL, NULL, "with segment = auto, recompute as little as fits in this; 0: memory.device_budget. Without a budget, or if nothing fits: the lowest peak"},
    {"cuts",    DT_OPT_ENUM,  AT(cuts),    "auto", 0, 0, dti_chen_cuts_names, NULL, "where the network may be cut, as in chen_sqrt"},
    {NULL,      DT_OPT_I64,   0,           NULL,   0, 0, NULL, NULL, NULL},
};
static const dt_opt segment_bytes =
    {"segment", DT_OPT_BYTES, 0,           NULL,   0, 0, NULL, NULL, NULL};
/* clang-format on */

enum { GRID = 6, COARSE = 5 };
enum { RUNGS = 32, RUNGS_OF_MANY = 6, MANY_OPS = 5000 };

/* A plan.
 * @cuts:  points or linear
 * @share: of the bytes that the cuts drop, this is kept after all
 * @none:  nothing is dropped */
typedef struct rung {
    dti_chen_cuts cuts;
    uint64_t segment;
    double share;
    bool none;
    uint64_t peak;
} rung;

typedef struct search {
    dt_program *p;
    const dt_pass_env *env;
    uint64_t budget;
    double *takes; /* by op, seconds; those of all pieces by the first */
    rung best;
} search;

/* Algorithm 3 on a program. */
static dt_status cut(dti_chen *c, uint64_t segment, dti_chen_sums *s, dt_err *err)
{
    uint64_t *bytes = dt_alloc(c->n + 1, sizeof *bytes);
    bool *split = dt_alloc(c->n + 1, sizeof *split), *keep = dt_alloc(c->n + 1, sizeof *keep);
    dt_status st = DT_OK;
    if (bytes == NULL || split == NULL || keep == NULL) {
        st = dti_pass_no_memory(err);
    } else {
        for (size_t i = 0; i < c->n; i++) {
            bytes[i] = c->p->tensor[c->value[i].tensor].bytes;
            split[i] = c->value[i].split;
        }
        *s = dti_chen_plan(bytes, split, c->n, segment, keep);
        st = dti_chen_keep(c, keep, err);
    }
    dt_free(bytes);
    dt_free(split);
    dt_free(keep);
    return st;
}

/* ---- what is kept after all ---- */

/* @gain: seconds a byte, for what runs again to make it */
typedef struct candidate {
    int32_t tensor;
    uint64_t bytes;
    double gain;
} candidate;

static int dearest_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->gain < y->gain || x->gain > y->gain)
        return x->gain > y->gain ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

/* By tensor: values that are dropped and backward does not read have a number, by which those that
 * were come by are told; others have NOT_ON_WAY. */
enum { NOT_ON_WAY = -1 };

static void mark_way(const dti_chen *c, int32_t *way)
{
    for (size_t t = 0; t < c->n_tensor; t++)
        way[t] = NOT_ON_WAY;
    for (size_t i = 0; i < c->n; i++)
        if (c->dropped[c->value[i].tensor] && !c->value[i].read_back)
            way[c->value[i].tensor] = 0;
}

/* Seconds of an op, and of what is made on the way to what it reads, each once a @number. */
static double again(
    const dti_chen *c, const double *takes, int32_t op, int32_t *way, int32_t number)
{
    const dt_op *o = &c->p->op[op];
    double seconds = takes[op];
    for (int a = 0; a < o->n_arg; a++) {
        const int32_t t = o->arg[a].tensor;
        if (o->arg[a].mode != DT_READ || way[t] == NOT_ON_WAY || way[t] == number)
            continue;
        way[t] = number;
        seconds += again(c, takes, dti_producer(c->p, t), way, number);
    }
    return seconds;
}

/* @takes: seconds of each op. Values that backward does not read are made on the way to one that it
 * does: they stay dropped, and keeping that one saves making them. */
static size_t find_candidates(
    const dti_chen *c, const double *takes, int32_t *way, candidate *v, uint64_t *all)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        const dti_chen_value *x = &c->value[i];
        const uint64_t bytes = c->p->tensor[x->tensor].bytes;
        if (!c->dropped[x->tensor] || !x->read_back || bytes == 0)
            continue;
        v[n++] = (candidate){
            x->tensor, bytes, again(c, takes, x->op, way, (int32_t)i + 1) / (double)bytes};
        *all += bytes;
    }
    return n;
}

static dt_status keep_share(dti_chen *c, double share, const double *takes, dt_err *err)
{
    uint64_t all = 0, kept = 0;
    candidate *v = dt_alloc(c->n + 1, sizeof *v);
    int32_t *way = dt_alloc(c->n_tensor + 1, sizeof *way);
    const bool ok = v != NULL && way != NULL;
    if (ok) {
        mark_way(c, way);
        const size_t n = find_candidates(c, takes, way, v, &all);
        qsort(v, n, sizeof *v, dearest_first);
        for (size_t i = 0; i < n; i++) {
            kept += v[i].bytes;
            if ((double)kept > share * (double)all)
                break;
            c->dropped[v[i].tensor] = false;
        }
    }
    dt_free(v);
    dt_free(way);
    return ok ? DT_OK : dti_pass_no_memory(err);
}

static dt_status rewrite(dt_program *p, const double *takes, const rung *r, dt_err *err)
{
    dti_chen c;
    dti_chen_sums s;
    if (r->none)
        return DT_OK;
    dt_status st = dti_chen_open(&c, p, err);
    if (st == DT_OK) {
        (void)dti_chen_cut(&c, r->cuts);
        st = cut(&c, r->segment, &s, err);
    }
    if (st == DT_OK)
        st = keep_share(&c, r->share, takes, err);
    if (st == DT_OK)
        st = dti_chen_rewrite(&c, err);
    dti_chen_close(&c);
    return st;
}

/* ---- the search ---- */

/* sqrt(x y) of the plan for B = 0; and which cuts those asked for come to. */
static dt_status first_guess(dt_program *p, dti_chen_cuts *cuts, double *segment, dt_err *err)
{
    dti_chen c;
    dti_chen_sums s = {0, 0};
    dt_status st = dti_chen_open(&c, p, err);
    if (st == DT_OK) {
        *cuts = dti_chen_cut(&c, *cuts) ? DTI_CHEN_LINEAR : DTI_CHEN_POINTS;
        st = cut(&c, 0, &s, err);
    }
    *segment = sqrt((double)s.kept * (double)s.segment);
    dti_chen_close(&c);
    return st;
}

/* Whether the rung's peak is at most this. */
static dt_status try_rung(const search *x, rung *r, uint64_t most, bool *fits, dt_err *err)
{
    dt_program *q = NULL;
    dt_status st = dt_program_copy(&q, x->p, err);
    if (st == DT_OK)
        st = rewrite(q, x->takes, r, err);
    if (st == DT_OK)
        st = dti_pass_peak_within(x->env, q, most, &r->peak, err);
    *fits = st == DT_OK && r->peak <= most;
    dt_program_destroy(q);
    return st;
}

static dt_status try_segments(search *x, dti_chen_cuts cuts, dt_err *err)
{
    double middle;
    DT_CHECK(first_guess(x->p, &cuts, &middle, err));
    for (int i = 0; i < GRID + COARSE; i++) {
        const double factor = i < GRID ? exp2((double)i / (GRID - 1) - 0.5) : exp2(i - GRID + 1);
        const double bytes = middle * factor;
        rung r = {.cuts = cuts, .segment = bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX};
        bool lower;
        DT_CHECK(try_rung(x, &r, x->best.peak - 1, &lower, err));
        if (lower)
            x->best = r;
    }
    return DT_OK;
}

/* From the rung below the one that keeps everything down to the lowest. What keeps more may still
 * have a lower peak than that by a little, and is passed over, so that more budget never takes
 * less. */
static dt_status climb_down(search *x, dt_err *err)
{
    const int n = x->p->n_op < MANY_OPS ? RUNGS : RUNGS_OF_MANY;
    const uint64_t least = x->best.peak;
    for (int k = n - 1; k > 0; k--) {
        rung r = x->best;
        bool fits;
        r.share = (double)k / n;
        DT_CHECK(try_rung(x, &r, x->budget, &fits, err));
        if (fits && r.peak >= least) {
            x->best = r;
            return DT_OK;
        }
    }
    return DT_OK;
}

static dt_status find(search *x, dti_chen_cuts cuts, dt_err *err)
{
    bool fits;
    const rung none = {.none = true};
    x->best = none;
    DT_CHECK(try_rung(x, &x->best, UINT64_MAX, &fits, err));
    if (x->best.peak <= x->budget)
        return DT_OK;
    DT_CHECK(try_segments(x, cuts, err));
    return x->best.peak < x->budget ? climb_down(x, err) : DT_OK;
}

/* A value that is made in pieces is known by the first of them, which stands for all. */
static dt_status find_seconds(search *x, dt_err *err)
{
    const dt_program *p = x->p;
    DT_CHECK(dti_pass_op_seconds(x->env, x->p, x->takes, err));
    for (size_t i = 0; i < p->n_order; i++) {
        const int32_t id = p->order[i];
        const int32_t y =
            p->op[id].kind == DT_OP_FORWARD ? dt_op_tensor(&p->op[id], DT_Y) : DT_NONE;
        const int32_t first = y != DT_NONE ? dti_producer(p, y) : DT_NONE;
        if (first != DT_NONE && first != id)
            x->takes[first] += x->takes[id];
    }
    return DT_OK;
}

static dt_status by_options(search *x, const options *o, dt_err *err)
{
    rung fixed = {.cuts = (dti_chen_cuts)o->cuts};
    DT_CHECK(find_seconds(x, err));
    if (strcmp(o->segment, "auto") == 0) {
        DT_CHECK(find(x, (dti_chen_cuts)o->cuts, err));
        return rewrite(x->p, x->takes, &x->best, err);
    }
    DT_TRY(err, dt_opt_read(&segment_bytes, o->segment, &fixed.segment, err),
        "[policy.chen_budget] segment = %s (or auto)", o->segment);
    return rewrite(x->p, x->takes, &fixed, err);
}

static dt_status chen_budget(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    if (p->loss == DT_NONE)
        return DT_OK;
    search x = {.p = p,
        .env = env,
        .budget = dti_pass_budget(env, o->budget),
        .takes = dt_alloc(p->n_op + 1, sizeof *x.takes)};
    const dt_status st = x.takes != NULL ? by_options(&x, o, err) : dti_pass_no_memory(err);
    dt_free(x.takes);
    return st;
}

static const dti_only_with only_with[] = {
    {"budget", "segment", "auto"},
    {NULL, NULL, NULL},
};

const dt_policy dt_policy_chen_budget = {
    .name = "chen_budget",
    .summary = "cut where a segment's bytes exceed a budget; search for the best (Chen 2016)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .only_with = only_with,
    .pass = chen_budget,
};
