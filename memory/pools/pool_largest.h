/* Inside pools: intervals placed one by one, the largest first. */
#ifndef DT_MEMORY_POOLS_POOL_LARGEST_H
#define DT_MEMORY_POOLS_POOL_LARGEST_H

#include "memory/pools/pool_shelf.h"

/* Where x goes beside what stands on the shelf, a multiple of its align; false when it would end
 * beyond 2^64. */
typedef bool dti_largest_choose(
    void *self, const dti_shelf *s, const dt_interval *x, uint64_t *off);

/* Which of those of one size goes first: the earlier born, and of these the earlier listed, or the
 * earlier listed alone. */
typedef enum dti_largest_equals { DTI_EARLIER_BORN, DTI_EARLIER_LISTED } dti_largest_equals;

/* As dt_pool_desc's place; name: the pool's, for errors. */
dt_status dti_largest_first(const char *name, dt_interval *v, size_t n, dti_largest_equals equals,
    dti_largest_choose *choose, void *self, uint64_t *peak, dt_err *err) DT_NODISCARD;

#endif
