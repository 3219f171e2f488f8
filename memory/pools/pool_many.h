/* Inside pools: placing tens of thousands of intervals and more. */
#ifndef DT_MEMORY_POOLS_POOL_MANY_H
#define DT_MEMORY_POOLS_POOL_MANY_H

#include "memory/pools/pool.h"

/* v is placed and *peak its peak: place it lower if that can be; @once: by one order alone, in a
 * small part of the time. False when memory runs out, with both as they were. */
bool dti_pool_many(dt_interval *v, size_t n, bool once, uint64_t *peak);

#endif
