/* TensorFlow's BFC allocator, best fit with coalescing (bfc_allocator.cc): requests in multiples of
 * 256 bytes; the smallest free chunk that fits, of equals the lowest; it is split if it is at least
 * twice the request, or if 128 MiB or more would be wasted; otherwise the request keeps all of it.
 * Regions begin at 2 MiB and double, until the request fits; nothing is joined across regions.
 *
 * Where ours differs: TensorFlow keeps free chunks in 21 bins, of 256 bytes times powers of two,
 * and looks through them upwards, each in order of size; one list in order of size finds the same.
 * By default it takes the card's whole memory as the first region; these are the regions of
 * allow_growth. No card is full, so nothing is asked for in smaller pieces. */
#include "memory/pools/pool_chunks.h"

enum { FIRST_REGION = 2 << 20, MOST_WASTED = 128 << 20 };

static bool splits(uint64_t chunk, uint64_t need, size_t list)
{
    (void)list;
    return chunk / 2 >= need || chunk - need >= MOST_WASTED;
}

/* *state: bytes of the region that comes next. One that had to grow for its request does not let
 * the next one grow. */
static uint64_t region(uint64_t need, uint64_t *state)
{
    uint64_t bytes = *state > 0 ? *state : FIRST_REGION;
    const bool enough = bytes >= need;
    while (bytes < need) {
        if (bytes > UINT64_MAX / 2)
            return 0;
        bytes *= 2;
    }
    *state = enough && bytes <= UINT64_MAX / 2 ? bytes * 2 : bytes;
    return bytes;
}

static const dti_chunk_rules rules = {
    .name = "bfc", .grain = 256, .splits = splits, .segment = region};

DTI_CHUNKS_PLACE_BY(rules)

const dt_pool_desc dt_pool_bfc = {
    .name = "bfc",
    .summary = "TensorFlow BFC: best fit, chunks split at twice the request, regions that double",
    .place = place,
    .reserve = reserve,
};
