/* What a plan's memory is used for, instant by instant: the live bytes before each op and copy, and
 * what is alive where the peak is. Pure: reads the plan, trusts it to be verified. */
#ifndef DT_MEMORY_USAGE_H
#define DT_MEMORY_USAGE_H

#include "engine/plan.h"

/* An instant: a COMPUTE or copy row, and the bytes alive while it runs. A tensor that takes
 * another's bytes counts once, as what it becomes. Persistent tensors are always alive. */
typedef struct dt_instant {
    int32_t row;
    uint64_t bytes;
} dt_instant;

/**
 * struct dt_usage - the use of memory.
 * @instant: all of them, in order
 * @peak:    where the peak is: of the instants at which a tensor that ends at the plan's peak is
 * alive, the first with the most live bytes; n_instant in a plan that does nothing
 * @bytes:   by role, alive there
 * @unused:  the plan's peak less all of them: holes, padding, and what a slot reserves beyond its
 * tensor
 * @live:    the tensors alive there, largest first
 */
typedef struct dt_usage {
    size_t n_instant, peak, n_live;
    dt_instant *instant;
    int32_t *live;
    uint64_t bytes[DT_ROLE_COUNT], unused;
} dt_usage;

/* Fill @out; release it with dt_usage_deinit, even after a failure. DT_E_NOMEM. */
dt_status dt_plan_usage(const dt_plan *p, dt_usage *out, dt_err *err) DT_NODISCARD;
void dt_usage_deinit(dt_usage *u);

#endif
