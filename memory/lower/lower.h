/* From a program to a plan: which tensors take whose bytes, where each lies in the arena in each of
 * its live intervals, in which rows and with which events. Pure: the same program gives the same
 * plan. */
#ifndef DT_MEMORY_LOWER_LOWER_H
#define DT_MEMORY_LOWER_LOWER_H

#include "memory/pools/pool_memo.h"
#include "engine/plan.h"

typedef struct dt_lower_opts {
    const dt_pool_desc *pool;
    const char *policy; /* for the plan's header */
    dt_tier tier;       /* where a move goes that names none; 0: the host */
    bool spill;         /* from the host to the disk, when more than @host_budget were needed */
    uint64_t host_budget;
    uint64_t ahead[DT_TIERS]; /* of homes there: bytes that come before they are needed, and as many
                                 that may still be on their way back behind the ops */
    uint64_t keep_to; /* where the plan would be above it, fewer bytes come ahead; 0: none */
    dt_memo *memo;    /* what was placed and timed before; NULL: nothing is remembered */
    const dt_pool_desc *pool_above; /* where the bound is above @above, this pool is used instead of
                                       @pool: such a plan is of no use, so it need not be placed
                                       well; NULL: always @pool */
    uint64_t above;
    uint64_t enough; /* a peak that is there for another program anyway: very many tensors that a
                        quick pool places below it are left so; 0: none */
} dt_lower_opts;

/* Lower. The program's index is brought up to date; nothing else of it changes. The plan
 * names no budget: the caller compares its peak with one and tells the user. */
dt_status dt_lower(dt_plan **out, dt_program *p, const dt_lower_opts *o, dt_err *err) DT_NODISCARD;

/* The peak of the plan that dt_lower would make with this pool and memo and nothing else, without
 * its rows: of homes in a tier nothing comes ahead, so with some ahead a plan may take more. What
 * tries of a policy are scored by. */
dt_status dt_lower_peak(uint64_t *peak, dt_program *p, const dt_pool_desc *pool, dt_memo *memo,
    dt_err *err) DT_NODISCARD;

/* The same of the plan that it would make with all these options. */
dt_status dti_lower_peak_by(
    uint64_t *peak, dt_program *p, const dt_lower_opts *o, dt_err *err) DT_NODISCARD;

/* What no plan of the program can be below, whatever the pool: the plan's bound, without its
 * addresses and rows, which take most of the time. */
dt_status dti_lower_bound(uint64_t *bound, dt_program *p, dt_err *err) DT_NODISCARD;

#endif
