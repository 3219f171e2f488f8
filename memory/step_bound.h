/* What no plan of a program takes less than, whatever a policy keeps, makes again, moves or packs
 * without changing a bit, and however it is placed, as long as it stays within the device's bytes.
 */
#ifndef DT_MEMORY_STEP_BOUND_H
#define DT_MEMORY_STEP_BOUND_H

#include "memory/policy.h"

/* Of a program with all kept. @budget: bytes of the device. The ops of the program alone, by the
 * cheapest of what backward may read, from the first one on that reads the input behind its copy;
 * and what must run again or move: at any one moment bytes are within the budget
 * (memory/remat/bound.c), and those away from the device have to leave it and to come back within
 * the step, by the links of the tiers, where they slow the ops beside them; and several moments at
 * once, with what runs and moves between them (memory/remat/moments.h). Order is the program's.
 * Values wait where the lowering's tier says, which where that is the disk leaves out what a
 * policy's own option sends to the host. A budget that an op with all that it touches does not fit
 * (dt_least_room) has no plan, and what is said of it has no meaning. DT_E_NOMEM. */
dt_status dt_step_bound(const dt_program *kept, const dt_pass_env *env, uint64_t budget,
    double *seconds, dt_err *err) DT_NODISCARD;

/**
 * struct dti_step_bounds - seconds that no plan takes less than, by one moment.
 * @still: of plans that move nothing but inputs and keep the program's order
 * @once:  of those in which each op runs once, in whatever order, and backward reads what it reads
 * in the program
 */
typedef struct dti_step_bounds {
    double still, once;
} dti_step_bounds;
/* The same failures. */
dt_status dti_step_bounds_of(const dt_program *kept, const dt_pass_env *env, uint64_t budget,
    dti_step_bounds *out, dt_err *err) DT_NODISCARD;

#endif
