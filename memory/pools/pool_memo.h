/* Placements that were asked for before. */
#ifndef DT_MEMORY_POOLS_POOL_MEMO_H
#define DT_MEMORY_POOLS_POOL_MEMO_H

#include "memory/memo.h"
#include "memory/pools/pool.h"

/* pool->place of the same, or what that gave for such intervals before: offsets and *peak are those
 * of pool->place, and so are failures. @m: NULL: nothing is known, and nothing kept. */
dt_status dti_pool_memo_place(dt_memo *m, const dt_pool_desc *pool, dt_interval *v, size_t n,
    uint64_t *peak, dt_err *err) DT_NODISCARD;

#endif
