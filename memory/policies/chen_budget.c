/* Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174, algorithm 3 and
 * appendix A: walk over forward adding up bytes, keep the next split point whenever the sum exceeds
 * B, and look for the B whose plan takes the fewest bytes: six values around sqrt(x y), where x and
 * y are the kept bytes and the largest segment of the plan for B = 0.
 *
 * Ours differs from the paper in three things. Each plan is scored by its real peak, from lowering
 * with the run's pool, since y leaves out the last segment, workspaces and gradients. The ladder of
 * plans goes on from those six up to the one that keeps everything, so a plan is never worse than
 * that. And with a budget the fastest of the ladder that fits is taken: a lower budget then never
 * gives a higher peak. Split points are those of chen_sqrt. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policies/chen.h"
#include "memory/policy.h"

typedef struct options {
    const char *segment;
    uint64_t budget;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"segment", DT_OPT_STR,   AT(segment), "auto", 0, 0, NULL, NULL, "B of algorithm 3: a cut follows whenever so many bytes were made; auto searches"},
    {"budget",  DT_OPT_BYTES, AT(budget),  "0",    0, 0, NULL, NULL, "with segment = auto: take the fastest plan that fits; 0: memory.device_budget. Without one, or when none fits: the smallest"},
    {NULL,      DT_OPT_I64,   0,           NULL,   0, 0, NULL, NULL, NULL},
};
static const dt_opt segment_bytes =
    {"segment", DT_OPT_BYTES, 0,           NULL,   0, 0, NULL, NULL, NULL};
/* clang-format on */

enum { GRID = 6, COARSE = 5 };

/* A plan of the ladder. */
typedef struct rung {
    uint64_t segment, peak;
    double flops; /* of what runs again */
} rung;

/* Algorithm 3 on a program. */
static dt_status cut(dt_chen *c, uint64_t segment, dt_chen_sums *s, dt_err *err)
{
    uint64_t *bytes = dt_alloc(c->n + 1, sizeof *bytes);
    bool *split = dt_alloc(c->n + 1, sizeof *split), *keep = dt_alloc(c->n + 1, sizeof *keep);
    dt_status st = DT_OK;
    if (bytes == NULL || split == NULL || keep == NULL) {
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for a policy");
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

static dt_status rewrite(dt_program *p, uint64_t segment, dt_err *err)
{
    dt_chen c;
    dt_chen_sums s;
    dt_status st = dti_chen_open(&c, p, err);
    if (st == DT_OK)
        st = cut(&c, segment, &s, err);
    if (st == DT_OK)
        st = dti_chen_rewrite(&c, err);
    dti_chen_close(&c);
    return st;
}

/* sqrt(x y) of the plan for B = 0. */
static dt_status first_guess(dt_program *p, double *segment, dt_err *err)
{
    dt_chen c;
    dt_chen_sums s = {0, 0};
    dt_status st = dti_chen_open(&c, p, err);
    if (st == DT_OK)
        st = cut(&c, 0, &s, err);
    *segment = sqrt((double)s.kept * (double)s.segment);
    dti_chen_close(&c);
    return st;
}

static bool better(const rung *a, const rung *b, uint64_t budget)
{
    const bool a_fits = a->peak <= budget, b_fits = b->peak <= budget;
    if (a_fits != b_fits)
        return a_fits;
    if (a_fits && (a->flops < b->flops || a->flops > b->flops))
        return a->flops < b->flops;
    return a->peak < b->peak;
}

/* Whether it is better than the best so far (NULL: there is none). One whose lower bound would not
 * be is not placed: its peak is no lower. */
static dt_status try_segment(const dt_program *p, const dt_pass_env *env, rung *r, const rung *best,
    uint64_t budget, bool *is, dt_err *err)
{
    dt_program *q = NULL;
    dt_score s = {0};
    dt_status st = dt_program_copy(&q, p, err);
    if (st == DT_OK)
        st = rewrite(q, r->segment, err);
    if (st == DT_OK)
        st = dti_pass_score(env, q, false, &s, err);
    r->peak = s.device;
    r->flops = s.clone_flops;
    *is = best == NULL || better(r, best, budget);
    if (st == DT_OK && *is) {
        st = dti_pass_score(env, q, true, &s, err);
        r->peak = s.device;
        *is = best == NULL || better(r, best, budget);
    }
    dt_program_destroy(q);
    return st;
}

static dt_status search(
    dt_program *p, const dt_pass_env *env, uint64_t budget, uint64_t *segment, dt_err *err)
{
    double middle;
    bool is_better;
    DT_CHECK(first_guess(p, &middle, err));
    rung best = {.segment = UINT64_MAX}; /* keeps everything */
    DT_CHECK(try_segment(p, env, &best, NULL, budget, &is_better, err));
    for (int i = 0; i < GRID + COARSE; i++) {
        const double factor = i < GRID ? exp2((double)i / (GRID - 1) - 0.5) : exp2(i - GRID + 1);
        const double bytes = middle * factor;
        rung r = {.segment = bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX};
        DT_CHECK(try_segment(p, env, &r, &best, budget, &is_better, err));
        if (is_better)
            best = r;
    }
    *segment = best.segment;
    return DT_OK;
}

static dt_status chen_budget(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    uint64_t segment = 0;
    if (p->loss == DT_NONE)
        return DT_OK;
    if (strcmp(o->segment, "auto") == 0)
        DT_CHECK(search(p, env, o->budget > 0 ? o->budget : env->budgets.device, &segment, err));
    else
        DT_TRY(err, dt_opt_read(&segment_bytes, o->segment, &segment, err),
            "[policy.chen_budget] segment = %s (or auto)", o->segment);
    return rewrite(p, segment, err);
}

const dt_policy dt_policy_chen_budget = {
    .name = "chen_budget",
    .summary = "cut where a segment's bytes exceed a budget; search for the best (Chen 2016)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = chen_budget,
};
