/* PyTorch's caching allocator for CUDA (c10/cuda/CUDACachingAllocator.cpp): requests in multiples
 * of 512 bytes. Those of up to 1 MiB come from segments of 2 MiB, those below 10 MiB from segments
 * of 20 MiB, and larger ones from segments of their own size, rounded up to 2 MiB. The smallest
 * free block that fits is taken, of equals the lowest; small ones are split if 512 bytes or more
 * remain, others if more than 1 MiB does. Neighbours in a segment that are free become one.
 *
 * Where ours differs: there is one stream, no limit on splits, no expandable segments, and no card
 * that is full, so no segment is ever given back. Segments lie one behind the other. */
#include "engine/base/numbers.h"
#include "memory/pools/pool_chunks.h"

enum {
    GRAIN = 512,
    SMALL = 1 << 20,  /* the largest small request */
    LARGE = 10 << 20, /* the smallest with a segment of its own */
    SMALL_SEGMENT = 2 << 20,
    SHARED_SEGMENT = 20 << 20,
    ROUND = 2 << 20
};

static size_t list(uint64_t need)
{
    return need > SMALL;
}

static bool splits(uint64_t block, uint64_t need, size_t at)
{
    const uint64_t remains = block - need;
    return at == 0 ? remains >= GRAIN : remains > SMALL;
}

static uint64_t segment(uint64_t need, uint64_t *state)
{
    uint64_t bytes;
    (void)state;
    if (need < LARGE)
        return need <= SMALL ? SMALL_SEGMENT : SHARED_SEGMENT;
    return dt_round_up(need, ROUND, &bytes) ? bytes : 0;
}

static const dti_chunk_rules rules = {
    .name = "pytorch", .grain = GRAIN, .list = list, .splits = splits, .segment = segment};

DTI_CHUNKS_PLACE_BY(rules)

const dt_pool_desc dt_pool_pytorch = {
    .name = "pytorch",
    .summary = "PyTorch caching allocator: segments of 2 MiB, 20 MiB and their own size",
    .place = place,
    .reserve = reserve,
};
