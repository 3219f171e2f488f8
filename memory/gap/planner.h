/* The gap planner, which policies share that choose gaps of a program one by one: it finds the
 * gaps with the seconds that they last and that their fates take, shows them to the policy, and
 * makes what was chosen. Where the plan that comes of it is above the budget, the limit sinks by as
 * much and the policy chooses on.
 *
 * A policy is a score and when to stop, as a function for dti_planner_run:
 *
 *     static dt_status choose(dti_planner *x, const void *opts, dt_err *err)
 *     {
 *         dti_idle *i;
 *         while ((i = dti_gaps_best(&x->gaps, score)) != NULL)
 *             DT_CHECK(dti_planner_offload(x, i, err, "why"));
 *         return DT_OK;
 *     }
 *
 * dti_planner_recompute and dti_gaps_refuse are the other fates that it may give.
 */
#ifndef DT_MEMORY_GAP_PLANNER_H
#define DT_MEMORY_GAP_PLANNER_H

#include "memory/gap/recomputes.h"
#include "memory/gap/rewrite.h"
#include "memory/gap/curve.h"
#include "memory/gap/gaps.h"

/**
 * struct dti_planner_opts - what a policy asks for.
 * @budget:   of the device; 0: none, and no op is to wait for a copy
 * @least:    bytes of a tensor that is looked at
 * @feedback: how often copies back that ops wait for are begun earlier
 * @recompute: what it takes to recompute values is found, as some may be
 */
typedef struct dti_planner_opts {
    uint64_t budget, least;
    int feedback;
    bool recompute;
} dti_planner_opts;

/**
 * struct dti_planner - a program whose gaps are planned.
 * @p:      borrowed; it had @n_tensor tensors and @n_op ops
 * @curve:  of the program as it was
 * @gaps:   of it; the first @n_gap can be chosen, those behind are of copies that were there
 * @recomputes: by number of the gap, what recomputing its tensor costs; none if that is not asked
 * @chosen: of the best plan so far, all gaps as they were chosen
 * @limit @peak @seconds: of the same
 * @real:   by place, the load of the plan tried last; @base: of the program as it was
 * @fruitless: plans tried since the best
 * @room:   bytes that may still go to the host
 * @exchanged: some were offloaded instead of recomputed; @bold: many at a time
 */
typedef struct dti_planner {
    dt_program *p;
    const dt_pass_env *env;
    dti_planner_opts o;
    dti_load_curve curve;
    dti_gaps gaps;
    dti_recomputes recomputes;
    dti_idle *chosen;
    uint64_t limit, peak, room, *real, *base;
    double seconds;
    size_t n_gap, n_tensor, n_op;
    int fruitless;
    bool exchanged, bold;
} dti_planner;

typedef dt_status dti_planner_choose(dti_planner *x, const void *opts, dt_err *err);

/* DT_E_NOMEM. Release with dti_planner_close even after a failure. */
dt_status dti_planner_open(dti_planner *x, dt_program *p, const dt_pass_env *e,
    const dti_planner_opts *o, dt_err *err) DT_NODISCARD;
void dti_planner_close(dti_planner *x);

/* Set a gap's fate, and say why. What the host has no room for is refused instead. To recompute is
 * for planners that were asked what it takes. */
dt_status dti_planner_offload(dti_planner *x, dti_idle *i, dt_err *err, const char *format, ...)
    DT_PRINTF(4, 5) DT_NODISCARD;
dt_status dti_planner_recompute(dti_planner *x, dti_idle *i, dt_err *err, const char *format, ...)
    DT_PRINTF(4, 5) DT_NODISCARD;

/* So many bytes of what is recomputed are offloaded instead, or boldly a quarter of the values,
 * those that save the fewest bytes a second: for when all that is left at some place is needed to
 * recompute others. */
dt_status dti_planner_offload_instead(dti_planner *x, uint64_t bytes, dt_err *err) DT_NODISCARD;

/* Whether the host has room for it, if it is copied there at all. */
bool dti_planner_has_room(const dti_planner *x, const dti_idle *i);

/* Seconds that recomputing its tensor takes, repeated parts included; infinity: it cannot be, or
 * what it takes was not asked. */
double dti_planner_recompute_seconds(const dti_planner *x, const dti_idle *i);

/* All of it for a policy: @choose, which is told the policy's options, chooses from the gaps, and
 * does so again as long as a plan is above the budget and there is more. Where nothing fits and
 * some was offloaded instead of recomputed, all begins anew, boldly; where little is missing, with
 * lower limits; and where that is in vain, without recomputing. A program without backward is left
 * as it is. */
dt_status dti_planner_run(dt_program *p, const dt_pass_env *e, const dti_planner_opts *o,
    dti_planner_choose *choose, dt_err *err) DT_NODISCARD;

#endif
