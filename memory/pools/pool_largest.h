/* Inside pools: intervals placed one by one, the largest first, of equals the earlier born. */
#ifndef DT_MEMORY_POOLS_POOL_LARGEST_H
#define DT_MEMORY_POOLS_POOL_LARGEST_H

#include "memory/pools/pool_shelf.h"

/* Where x goes beside what stands on the shelf, a multiple of its align; false when it would end
 * beyond 2^64. */
typedef bool dti_largest_choose(
    void *self, const dti_shelf *s, const dt_interval *x, uint64_t *off);

/* As dt_pool_desc's place; name: the pool's, for errors. */
dt_status dti_largest_first(const char *name, dt_interval *v, size_t n, dti_largest_choose *choose,
    void *self, uint64_t *peak, dt_err *err) DT_NODISCARD;

#endif
