/* Capuchin (Peng et al., ASPLOS 2020): swap what is idle for so long that its copies hide, and
 * where that is not enough, swap or recompute, whichever takes less.
 *
 * Algorithm 1: of the values alive at the peak, those with the longest free time (from one access
 * to the next, less a copy out and one back) are swapped as long as no op waits for it. Then, while
 * bytes are still to be saved, the value with the highest MSPS, bytes for a second of recomputing
 * it, is looked at: it is swapped if that makes ops wait for less than recomputing it takes,
 * and recomputed otherwise. Algorithm 2 (memory/gap/recomputes.h) keeps MSPS up to date. At last,
 * copies back that ops still wait for begin earlier by a twentieth of what they take, several times
 * over: the feedback of the paper, on simulated steps.
 *
 * Ours differs:
 * - It is planned before the run by the table of costs. The paper measures a first iteration, which
 *   swaps on demand. What steps then take may correct it (every): the run plans anew by these times
 *   behind an epoch, within the bytes that it has reserved. That is off unless asked for: times
 *   differ from run to run, so that plans would as well, and the one that `plan` shows would not be
 *   the run's; and parameters are set aside meanwhile, which takes as much memory more.
 * - The bytes to be saved are those of the load curve above memory.device_budget, at its highest
 *   place, then at the next that is too high: the paper has one peak window.
 * - A swap is held against its place in the queue of copies, all others included; a later choice
 *   may shift an earlier one, as long as nothing that is to be away at a peak is late for it.
 * - Without a budget whatever hides is swapped, and nothing is recomputed.
 * - What cannot be recomputed for lack of sources that are there is swapped in the end, and what
 *   the host has no room for is recomputed, also where a swap would take less.
 * - What a recomputation makes on its way and a later one is to make stays from then on: the paper
 *   keeps it so (collective recomputation) as long as memory lasts.
 * - The input is not copied out, but fetched again. */
#include <math.h>

#include "memory/gap/planner.h"

typedef struct options {
    uint64_t budget, least;
    int64_t feedback, every;
    bool recompute;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"budget",    DT_OPT_BYTES, AT(budget),    "0",    0, 0,  NULL, NULL, "most device memory to use; 0: memory.device_budget. Without a budget every swap that hides is made"},
    {"least",     DT_OPT_BYTES, AT(least),     "2MiB", 0, 0,  NULL, NULL, "bytes of the smallest tensor that is considered"},
    {"recompute", DT_OPT_BOOL,  AT(recompute), "on",   0, 0,  NULL, NULL, "recompute values where that is faster than swapping them"},
    {"feedback",  DT_OPT_I64,   AT(feedback),  "10",   0, 50, NULL, NULL, "how many times copies back that ops wait for are started earlier"},
    {"every",     DT_OPT_I64,   AT(every),     "0",    0, 1e6, NULL, "epochs", "epochs after which the step is planned anew by the measured times of its ops and copies; 0: never"},
    {NULL,        DT_OPT_I64,   0,             NULL,   0, 0,  NULL, NULL, NULL},
};
/* clang-format on */

static const double ms = 1e3, rounding = 1e-12;

static dt_status swap_if_it_hides(dti_planner *x, dti_idle *i, dt_err *err)
{
    if (dti_gaps_refuse_late(&x->gaps, i, rounding))
        return DT_OK;
    return dti_planner_offload(x, i, err,
        "idle for %.3g ms; copies of %.3g ms out and %.3g ms back hide",
        ms * (dti_absence(&x->gaps, i) + i->out + i->in), ms * i->out, ms * i->in);
}

/* At the highest peak; without a budget at all places in turn. */
static dt_status swap_what_hides(dti_planner *x, dt_err *err)
{
    while (x->gaps.peak != DT_NONE) {
        dti_idle *i = dti_gaps_best(&x->gaps, dti_absence);
        if (i != NULL)
            DT_CHECK(swap_if_it_hides(x, i, err));
        else if (x->o.budget > 0)
            break;
        else
            dti_gaps_give_up(&x->gaps);
    }
    return DT_OK;
}

/* The best to be recomputed; of the others the one that is idle for longest. */
static dti_idle *candidate(dti_planner *x)
{
    dti_idle *best = dti_gaps_best(&x->gaps, dti_absence);
    double most = 0;
    for (size_t n = 0; n < x->recomputes.n; n++) {
        const double s = dti_recomputes_score(&x->recomputes, n);
        if (s > most && dti_gaps_is_over(&x->gaps, &x->gaps.idle[n])) {
            best = &x->gaps.idle[n];
            most = s;
        }
    }
    return best;
}

static dt_status swap_or_recompute(dti_planner *x, dti_idle *i, dt_err *err)
{
    const double again = dti_planner_recompute_seconds(x, i);
    const double wait = dti_gaps_wait(&x->gaps, i);
    const double idle = dti_absence(&x->gaps, i) + i->out + i->in;
    if (isinf(again))
        return dti_planner_offload(
            x, i, err, "idle for %.3g ms; ops wait %.3g ms for it", ms * idle, ms * wait);
    if (!dti_planner_has_room(x, i))
        return dti_planner_recompute(
            x, i, err, "%.3g ms to recompute it, the host has no room for a swap", ms * again);
    if (wait < again)
        return dti_planner_offload(x, i, err,
            "idle for %.3g ms; ops wait %.3g ms for it, recomputing it takes %.3g ms", ms * idle,
            ms * wait, ms * again);
    return dti_planner_recompute(x, i, err,
        "%.3g ms to recompute it, ops would wait %.3g ms for a swap", ms * again, ms * wait);
}

/* At a peak without a candidate all that is left is needed, for one to recompute others. */
static dt_status save_the_rest(dti_planner *x, dt_err *err)
{
    uint64_t hopeless = 0;
    dti_gaps_forgive(&x->gaps);
    while (x->gaps.peak != DT_NONE) {
        dti_idle *i = candidate(x);
        if (i != NULL) {
            DT_CHECK(swap_or_recompute(x, i, err));
            continue;
        }
        const uint64_t over = x->gaps.left[x->gaps.peak] - x->gaps.limit;
        hopeless = over > hopeless ? over : hopeless;
        dti_gaps_give_up(&x->gaps);
    }
    return hopeless > 0 ? dti_planner_offload_instead(x, hopeless, err) : DT_OK;
}

static dt_status choose(dti_planner *x, const void *given, dt_err *err)
{
    (void)given;
    DT_CHECK(swap_what_hides(x, err));
    return x->o.budget > 0 ? save_the_rest(x, err) : DT_OK;
}

static dt_status capuchin(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dti_planner_opts with = {.budget = dti_pass_budget(env, o->budget),
        .least = o->least,
        .feedback = (int)o->feedback,
        .recompute = o->recompute};
    return dti_planner_run(p, env, &with, choose, err);
}

static int64_t replan(const void *given)
{
    const options *o = given;
    return o->every;
}

const dt_policy dt_policy_capuchin = {
    .name = "capuchin",
    .summary = "swap what hides, then swap or recompute, whichever is faster (Capuchin, 2020)",
    .exact = true,
    .by_budget = true,
    .timed = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = capuchin,
    .replan = replan,
};
