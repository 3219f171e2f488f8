/* AutoSwap (Zhang et al., arXiv:1903.06631, section 4; Apache SINGA): values that are idle over the
 * peak of the load curve are swapped in the order of a score until the load is within a limit.
 *
 *     doa    duration of absence: from one access to the next, less a copy out and one back
 *     aoa    area of absence: doa times bytes; doa divided by bytes where doa is negative
 *     wdoa   load above the limit, summed over the ops of the absence
 *     swdoa  the same of the load that is left by what was picked before, where it is above
 *
 * With a limit the load stays within it and ops wait for copies where they must; without one,
 * nothing waits, and what hides is swapped.
 *
 * Ours differs: a copy back is charged as what it takes, where the published code charges another
 * copy out. When the highest place is within the limit, the next that is above is looked at; the
 * paper has one peak. Scores are not combined, by votes or otherwise. A value is taken to be
 * finished with the op that made it, where the code waits for some ops more. Without a limit, wdoa
 * and swdoa count from no load at all. The input is not copied out, but fetched again. */
#include "memory/gap/planner.h"

typedef struct options {
    int score;
    uint64_t budget, least;
} options;

static const char *const names[] = {"swdoa", "doa", "aoa", "wdoa", NULL};
static dti_gap_score *const scores[] = {
    dti_left_over, dti_absence, dti_absence_area, dti_load_over};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"score",  DT_OPT_ENUM,  AT(score),  "swdoa", 0, 0, names, NULL, "by which values are picked"},
    {"budget", DT_OPT_BYTES, AT(budget), "0",     0, 0, NULL,  NULL, "limit of the load; 0: memory.device_budget. Without one no op waits"},
    {"least",  DT_OPT_BYTES, AT(least),  "1MiB",  0, 0, NULL,  NULL, "bytes of the smallest tensor that is swapped"},
    {NULL,     DT_OPT_I64,   0,          NULL,    0, 0, NULL,  NULL, NULL},
};
/* clang-format on */

static dt_status swap(dti_planner *x, const options *o, dti_idle *i, dt_err *err)
{
    if (x->o.budget == 0 && dti_gaps_wait(&x->gaps, i) > 1e-12) {
        dti_gaps_refuse(&x->gaps, i);
        return DT_OK;
    }
    return dti_planner_offload(x, i, err, "%s %.4g, idle for %.3g ms", names[o->score],
        scores[o->score](&x->gaps, i), 1e3 * (dti_absence(&x->gaps, i) + i->out + i->in));
}

static dt_status choose(dti_planner *x, const void *given, dt_err *err)
{
    const options *o = given;
    while (x->gaps.peak != DT_NONE) {
        dti_idle *i = dti_gaps_best(&x->gaps, scores[o->score]);
        if (i != NULL)
            DT_CHECK(swap(x, o, i, err));
        else
            dti_gaps_give_up(&x->gaps);
    }
    return DT_OK;
}

static dt_status autoswap(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dti_planner_opts with = {
        .budget = o->budget > 0 ? o->budget : env->budgets.device, .least = o->least};
    return dti_planner_run(p, env, &with, choose, err);
}

const dt_policy dt_policy_autoswap = {
    .name = "autoswap",
    .summary = "swap what is idle over the peak, by a score of its absence (AutoSwap, 2019)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = autoswap,
};
