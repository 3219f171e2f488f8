/* Where in one block of bytes intervals of time live: the dynamic storage allocation problem. Pure
 * functions from intervals to offsets. */
#ifndef DT_MEMORY_POOLS_POOL_H
#define DT_MEMORY_POOLS_POOL_H

#include "engine/base/error.h"
#include "engine/base/numbers.h"

/* Bytes needed during [lower, upper) in time, lower < upper. align is a power of two; off is the
 * answer, a multiple of align. The interval takes its bytes rounded up to align. One of zero bytes
 * gets off 0, whatever its other members hold, and is in nobody's way. id is the caller's: no pool
 * reads it. */
typedef struct dt_interval {
    int64_t lower, upper;
    uint64_t bytes, align;
    uint64_t off;
    int64_t id;
} dt_interval;

/* What a search for a placement may take, and what it took. */
typedef struct dt_pool_effort {
    uint64_t max_nodes; /* 0: the pool's own limit */
    uint64_t nodes;     /* partial placements looked at */
    bool optimal;       /* no placement has a lower peak */
} dt_pool_effort;

/**
 * struct dt_pool_desc - a way to place intervals.
 * @name @summary: as in the INI file and in `dnntrain list pools`
 * @place: fill every off, set *peak to the highest end. Two intervals that share an instant share
 * no byte. The same input gives the same output. DT_E_NOMEM when the host is out of memory,
 *         DT_E_BUDGET when a sum overflows, DT_E_INTERNAL when an interval is empty in time or its
 *         align is no power of two; then offs and *peak mean nothing
 * @search: the same with a limit of the caller's; NULL where the pool does not search
 * @reserve: the same, and in *reserved the bytes that an allocator of this kind would hold, which
 *           are the peak or more; NULL where that is the peak
 * @tries: what stands for this pool where many placements are compared and one is used: faster, and
 *         never lower; NULL: the pool itself
 * @quick: what stands for this pool where very many intervals are placed and its peak is no higher
 *         than what is taken anyway; NULL: the pool itself, as who names one gets it
 */
typedef struct dt_pool_desc {
    const char *name, *summary;
    dt_status (*place)(dt_interval *v, size_t n, uint64_t *peak, dt_err *err);
    dt_status (*search)(
        dt_interval *v, size_t n, dt_pool_effort *effort, uint64_t *peak, dt_err *err);
    dt_status (*reserve)(dt_interval *v, size_t n, uint64_t *peak, uint64_t *reserved, dt_err *err);
    const struct dt_pool_desc *tries, *quick;
} dt_pool_desc;

/* memory/pools/pools.def holds a line a pool. */
const dt_pool_desc *const *dt_pool_all(size_t *n);
const dt_pool_desc *dt_pool_find(const char *name); /* NULL if unknown */
const dt_pool_desc *dti_pool_quick(void); /* the fastest, for plans whose peak counts little */
const char *const *dt_pool_names(void);   /* NULL-terminated, for dt_unknown */

/* Largest sum of live bytes over time (each rounded up to its align): no placement is lower.
 * UINT64_MAX when that sum overflows. */
uint64_t dt_pool_lower_bound(const dt_interval *v, size_t n);

/* For pools: DT_E_INTERNAL or DT_E_BUDGET when an interval is not as described above or cannot be
 * rounded up. */
dt_status dti_pool_check(const dt_interval *v, size_t n, dt_err *err) DT_NODISCARD;

/* An interval of a number of the pool's comes or goes. */
typedef struct dti_event {
    int64_t at;
    size_t who;
    bool comes;
} dti_event;

/* Sort them by time; at equal times those that go come first, then those of lower numbers. */
void dti_events_sort(dti_event *e, size_t n);

/* Those of all intervals that have bytes, sorted, *m of them, two for each; the caller frees. NULL
 * when memory runs out. */
dti_event *dti_pool_events(const dt_interval *v, size_t n, size_t *m) DT_NODISCARD;

/* What a checked interval takes. */
static inline uint64_t dti_interval_need(const dt_interval *v)
{
    uint64_t need;
    (void)dt_round_up(v->bytes, v->align, &need);
    return need;
}

/* A number below @n, drawn by xorshift (Marsaglia, 2003), whose state begins as DTI_POOL_RANDOM. */
#define DTI_POOL_RANDOM UINT64_C(88172645463325252)
static inline uint64_t dti_pool_draw(uint64_t *state, uint64_t n)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 11) % n;
}

/* How long it lives. */
static inline uint64_t dti_interval_length(const dt_interval *v)
{
    return (uint64_t)v->upper - (uint64_t)v->lower;
}

#endif
