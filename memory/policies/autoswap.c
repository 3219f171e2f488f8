/* AutoSwap (Zhang et al., arXiv:1903.06631, section 4; Apache SINGA): values that are idle over the
 * peak of the load curve are swapped in the order of a score until the load is within a limit.
 *
 *     doa    duration of absence: from one access to the next, less a copy out and one back
 *     aoa    area of absence: doa times bytes; doa divided by bytes where doa is negative
 *     wdoa   load above the limit, summed over the ops of the absence
 *     swdoa  the same of the load that is left by what was picked before, where it is above
 *
 *     combined  the four weighted and summed, each as a share of the most that it is of any gap
 *     search    combined by the weights of which the plan is the best
 *
 * With a limit the load stays within it and ops wait for copies where they must; without one,
 * nothing waits, and what hides is swapped.
 *
 * Ours differs: a copy back is charged as what it takes, where the published code charges another
 * copy out. When the highest place is within the limit, the next that is above is looked at; the
 * paper has one peak. A value is taken to be finished with the op that made it, where the code
 * waits for some ops more. Without a limit, wdoa and swdoa count from no load at all. wdoa is above
 * the limit that was asked for, also where a lower one is tried as addresses leave holes. The input
 * is not copied out, but fetched again.
 *
 * The paper finds the weights of its combination by Bayesian optimization, which proposes each next
 * set by a model of those tried; its release adds up ranks instead. Here a set is drawn without
 * looking at the ones before: each score alone, all alike, and then evenly from all weights whose
 * sum is one. Sets are counted and drawn from a seed, a set's worth is that of its real plan,
 * simulated, and each score alone is among them, so that none of the four is ahead of the search.
 */
#include <math.h>

#include "engine/base/philox.h"
#include "memory/gap/planner.h"

enum { SWDOA, DOA, AOA, WDOA, COMBINED, SEARCH, ALIKE = COMBINED };

/* @weight: in the order of dti_gaps_weigh */
typedef struct options {
    int score;
    uint64_t budget, least;
    double weight[DTI_GAP_SCORES];
    int64_t samples, seed;
} options;

static const char *const names[] = {[SWDOA] = "swdoa",
    [DOA] = "doa",
    [AOA] = "aoa",
    [WDOA] = "wdoa",
    [COMBINED] = "combined",
    [SEARCH] = "search",
    NULL};
static dti_gap_score *const scores[] = {[SWDOA] = dti_left_over,
    [DOA] = dti_absence,
    [AOA] = dti_absence_area,
    [WDOA] = dti_load_over,
    [COMBINED] = dti_weighted};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"score",   DT_OPT_ENUM,  AT(score),     "swdoa", 0, 0,     names, NULL, "score by which values are picked for swapping; combined: all four, weighted by w_doa to w_swdoa; search: combined, with the weights that make the best plan"},
    {"budget",  DT_OPT_BYTES, AT(budget),    "0",     0, 0,     NULL,  NULL, "limit for the bytes in use; 0: memory.device_budget. Without a budget only swaps that no op waits for are made"},
    {"least",   DT_OPT_BYTES, AT(least),     "1MiB",  0, 0,     NULL,  NULL, "bytes of the smallest tensor that is swapped"},
    {"w_doa",   DT_OPT_F64,   AT(weight[0]), "1",     0, 1e6,   NULL,  NULL, "with score = combined: weight of the duration of absence"},
    {"w_aoa",   DT_OPT_F64,   AT(weight[1]), "1",     0, 1e6,   NULL,  NULL, "with score = combined: weight of the area of absence, its duration times bytes"},
    {"w_wdoa",  DT_OPT_F64,   AT(weight[2]), "1",     0, 1e6,   NULL,  NULL, "with score = combined: weight of the load above the limit during the absence"},
    {"w_swdoa", DT_OPT_F64,   AT(weight[3]), "1",     0, 1e6,   NULL,  NULL, "with score = combined: weight of the load above the limit that earlier picks leave"},
    {"samples", DT_OPT_I64,   AT(samples),   "16",    5, 10000, NULL,  NULL, "with score = search: number of weight sets to plan: each score alone, all equal, the rest random"},
    {"seed",    DT_OPT_I64,   AT(seed),      "1",     0, 1e15,  NULL,  NULL, "with score = search: seed of the random weight sets"},
    {NULL,      DT_OPT_I64,   0,             NULL,    0, 0,     NULL,  NULL, NULL},
};
/* clang-format on */

static dt_status swap(dti_planner *x, const options *o, dti_idle *i, dt_err *err)
{
    if (x->o.budget == 0 && dti_gaps_refuse_late(&x->gaps, i, 1e-12))
        return DT_OK;
    return dti_planner_offload(x, i, err, "%s %.4g, idle for %.3g ms", names[o->score],
        scores[o->score](&x->gaps, i), 1e3 * (dti_absence(&x->gaps, i) + i->out + i->in));
}

static dt_status choose(dti_planner *x, const void *given, dt_err *err)
{
    const options *o = given;
    dti_gaps_weigh(&x->gaps, o->weight);
    while (x->gaps.peak != DT_NONE) {
        dti_idle *i = dti_gaps_best(&x->gaps, scores[o->score]);
        if (i != NULL)
            DT_CHECK(swap(x, o, i, err));
        else
            dti_gaps_give_up(&x->gaps);
    }
    return DT_OK;
}

static dt_status pick(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dti_planner_opts with = {.budget = dti_pass_budget(env, o->budget), .least = o->least};
    return dti_planner_run(p, env, &with, choose, err);
}

/* ---- the search ---- */

/* Even over all weights whose sum is one: exponential draws, divided by their sum. */
static void draw(int64_t sample, options *o)
{
    const dt_u32x4 ctr = {.v = {(uint32_t)sample}};
    const dt_u32x4 r = dt_philox(ctr, (uint32_t)o->seed, (uint32_t)((uint64_t)o->seed >> 32));
    double sum = 0;
    for (int k = 0; k < DTI_GAP_SCORES; k++)
        sum += o->weight[k] = -log(((double)r.v[k] + 0.5) * 0x1p-32);
    for (int k = 0; k < DTI_GAP_SCORES; k++)
        o->weight[k] /= sum;
}

/* The options of so manyth set. */
static options set(const options *given, int64_t sample)
{
    options o = *given;
    o.score = sample < COMBINED ? (int)sample : COMBINED;
    for (int k = 0; k < DTI_GAP_SCORES; k++)
        o.weight[k] = 1.0 / DTI_GAP_SCORES;
    if (sample > ALIKE)
        draw(sample, &o);
    return o;
}

static dt_status pick_in(void *env, dt_program *copy, dt_err *err)
{
    return pick(copy, env, err);
}

/* The fastest that fits; without a budget, where none takes longer, that of the fewest bytes, and
 * of equals there the fastest: samples of weights often come to the same swaps. */
static bool better(const dti_pass_cost *a, const dti_pass_cost *b, uint64_t budget)
{
    if (budget == 0 || a->device > budget || b->device > budget)
        return a->device < b->device || (a->device == b->device && a->seconds < b->seconds);
    return a->seconds < b->seconds;
}

static dt_status search(dt_program *p, const dt_pass_env *env, options *found, dt_err *err)
{
    const options *given = env->opts;
    dti_pass_cost least = {0};
    dt_pass_env e = *env;
    for (int64_t n = 0; n < given->samples; n++) {
        dti_pass_cost cost = {0};
        const options o = set(given, n);
        e.opts = &o;
        DT_CHECK(dti_pass_cost_if(&e, p, pick_in, &e, &cost, err));
        if (n > 0 && !better(&cost, &least, dti_pass_budget(env, o.budget)))
            continue;
        least = cost;
        *found = o;
    }
    return DT_OK;
}

/* One of them has to count. */
static dt_status check_weights(const options *o, dt_err *err)
{
    bool any = o->score != COMBINED;
    for (int k = 0; k < DTI_GAP_SCORES; k++)
        any = any || o->weight[k] > 0;
    return any ? DT_OK
               : DT_FAIL(err, DT_E_CONFIG,
                     "[policy.autoswap] score = combined: w_doa, w_aoa, w_wdoa and w_swdoa are all "
                     "0, so that all values score alike; give one of them a weight");
}

static dt_status autoswap(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    options found = *o;
    dt_pass_env e = *env;
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(check_weights(o, err));
    if (o->score == SEARCH)
        DT_CHECK(search(p, env, &found, err));
    e.opts = &found;
    return pick(p, &e, err);
}

static const dti_only_with only_with[] = {
    {"w_doa", "score", "combined"},
    {"w_aoa", "score", "combined"},
    {"w_wdoa", "score", "combined"},
    {"w_swdoa", "score", "combined"},
    {"samples", "score", "search"},
    {"seed", "score", "search"},
    {NULL, NULL, NULL},
};

const dt_policy dt_policy_autoswap = {
    .name = "autoswap",
    .summary = "swap what is idle over the peak, by a score of its absence (AutoSwap, 2019)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .only_with = only_with,
    .pass = autoswap,
};
