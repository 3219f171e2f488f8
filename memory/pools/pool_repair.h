/* Of a placement that ends a little too high, one that does not. */
#ifndef DT_MEMORY_POOLS_POOL_REPAIR_H
#define DT_MEMORY_POOLS_POOL_REPAIR_H

#include "memory/pools/pool.h"

/**
 * dti_pool_repair() - change a placement so that nothing ends above a goal.
 * @v @n:  intervals that have bytes, fewer than 2^32
 * @hard:  of each how hard it is to place, above 0: what makes way is what is easiest. What has
 * made way again and again is harder afterwards, so that the next repair begins with what this one
 * has learned
 * @goal:  not below the need of any interval; one above 2^63 is not reached
 * @steps: looks at an interval that may be used; what is left of them
 * @off:   where they lie, nothing overlapping; changed only if the goal is reached, *done
 *
 * False: no memory, and nothing has changed.
 */
bool dti_pool_repair(const dt_interval *v, size_t n, double *hard, uint64_t goal, int64_t *steps,
    uint64_t *off, bool *done);

#endif
