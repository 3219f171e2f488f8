/* Where in one block of bytes intervals of time live: the dynamic storage allocation problem. Pure
 * functions from intervals to offsets. */
#ifndef DT_MEMORY_POOL_H
#define DT_MEMORY_POOL_H

#include "engine/error.h"

/* Bytes needed during [lower, upper) in time. align is a power of two; off is the answer. */
typedef struct dt_interval {
    int64_t lower, upper;
    uint64_t bytes, align;
    uint64_t off;
} dt_interval;

/**
 * struct dt_pool_desc - a way to place intervals.
 * @name @summary: as in the INI file and in `dnntrain list pools`
 * @place: fill every off, set *peak to the highest end. Two intervals that share an instant share no byte.
 *         The same input gives the same output. DT_E_NOMEM when the host is out of memory,
 *         DT_E_BUDGET when a sum overflows
 */
typedef struct dt_pool_desc {
    const char *name, *summary;
    dt_status (*place)(dt_interval *v, size_t n, uint64_t *peak, dt_err *err);
} dt_pool_desc;

const dt_pool_desc *const *dt_pool_all(size_t *n);
const dt_pool_desc *dt_pool_find(const char *name);

/* Largest sum of live bytes over time (each rounded up to its align): no placement is lower. */
uint64_t dt_pool_lower_bound(const dt_interval *v, size_t n);

#endif
