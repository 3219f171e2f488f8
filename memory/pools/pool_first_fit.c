/* First fit (Knuth, The Art of Computer Programming, volume 1, 2.5) in blocks of 1 KiB, as the pool
 * of SuperNeurons (Wang and others, PPoPP 2018, section 3.2): in time order, each request into the
 * lowest hole that it fits into.
 *
 * Where ours differs: the pool is as large as it has to be; theirs is given a size. */
#include "memory/pools/pool_chunks.h"

static const dti_chunk_rules rules = {.name = "first_fit", .grain = 1024, .lowest = true};

DTI_CHUNKS_PLACE_BY(rules)

const dt_pool_desc dt_pool_first_fit = {
    .name = "first_fit",
    .summary =
        "in time order, each into the lowest hole, blocks of 1 KiB: the pool of SuperNeurons",
    .place = place,
    .reserve = reserve,
};
