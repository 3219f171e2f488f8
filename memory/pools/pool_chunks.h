/* Inside pools: an allocator at run time, told by its rules. It holds segments; each is cut into
 * chunks, taken or free, and of two neighbours in a segment at most one is free. A request takes a
 * free chunk, which may be split, or a new segment. Segments are never given back. */
#ifndef DT_MEMORY_POOLS_POOL_CHUNKS_H
#define DT_MEMORY_POOLS_POOL_CHUNKS_H

#include "memory/pools/pool.h"

enum { DTI_CHUNK_LISTS = 2 };

/**
 * struct dti_chunk_rules - what one allocator does differently from another
 * @name: the pool's, for errors
 * @grain: a request takes its bytes rounded up to a multiple of this, a power of two
 * @lowest: of the free chunks that fit the lowest is taken; otherwise the smallest, of equals the
 * lowest
 * @list: which free list, 0 or 1, and kind of segments serves a request; NULL: there is one
 * @splits: whether a chunk is cut to a smaller request; NULL: always
 * @segment: bytes of a new segment for a request; *state is the allocator's memory, 0 at first;
 *           0: there is none so large. NULL: one segment, which never ends
 */
typedef struct dti_chunk_rules {
    const char *name;
    uint64_t grain;
    bool lowest;
    size_t (*list)(uint64_t need);
    bool (*splits)(uint64_t chunk, uint64_t need, size_t list);
    uint64_t (*segment)(uint64_t need, uint64_t *state);
} dti_chunk_rules;

/* As dt_pool_desc's reserve. An interval aligned to more than the grain is moved up inside its
 * chunk, and what lies below it stays free, as none of these allocators knows of alignments. */
dt_status dti_chunks_place(const dti_chunk_rules *rules, dt_interval *v, size_t n, uint64_t *peak,
    uint64_t *reserved, dt_err *err) DT_NODISCARD;

/* The functions reserve and place of a pool with such rules. */
#define DTI_CHUNKS_PLACE_BY(rules)                                                                 \
    static dt_status reserve(                                                                      \
        dt_interval *v, size_t n, uint64_t *peak, uint64_t *reserved, dt_err *err)                 \
    {                                                                                              \
        return dti_chunks_place(&(rules), v, n, peak, reserved, err);                              \
    }                                                                                              \
    static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)                  \
    {                                                                                              \
        uint64_t reserved;                                                                         \
        return reserve(v, n, peak, &reserved, err);                                                \
    }

#endif
