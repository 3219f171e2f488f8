/* What a program comes to: the bytes it takes, and what saving memory costs it. Policies that
 * search, ladders and suggestions compare programs by this and nothing else. */
#ifndef DT_MEMORY_SCORE_H
#define DT_MEMORY_SCORE_H

#include "engine/plan.h"
#include "engine/program/program.h"
#include "memory/lower/lower.h"
#include "memory/time/costs.h"

/**
 * struct dt_score - one program, or those of a step together.
 * @device: peak
 * @out @in:  bytes moved; in counts inputs that are fetched
 * @to_disk:  of out
 * @packed:   bytes of the values that are packed
 * @recomputes @recompute_flops: ops that run forward again
 * @flops:    of forward and backward
 * @limited_flops: of all ops whose algorithm the workspace limits
 */
typedef struct dt_score {
    uint64_t device, out, in, to_disk, packed;
    int64_t recomputes;
    double recompute_flops, flops, limited_flops;
} dt_score;

/* Of a program and its plan. */
dt_score dt_score_plan(const dt_program *p, const dt_plan *plan);

/* Add a program that runs so many times a step: peaks are the larger ones, all else is summed. */
void dt_score_add(dt_score *to, const dt_score *s, int64_t times);

/* What saving memory costs, by the roof and links of a machine, nothing being hidden: for an order
 * of plans, found without simulating them. @costs: NULL: the default ones. */
double dt_score_seconds(const dt_score *s, const dt_costs *costs);

/* Of a program that has no plan: device is the peak of the plan that this pool would give it, or,
 * without a pool, what no plan of the program can be below, which is found faster. Host, disk and
 * what is moved come with a plan, and are 0. @memo: what was placed before, or NULL. */
dt_status dti_score_program(dt_score *out, dt_program *p, const dt_pool_desc *pool, dt_memo *memo,
    dt_err *err) DT_NODISCARD;

#endif
