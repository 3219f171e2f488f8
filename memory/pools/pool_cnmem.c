/* NVIDIA's CnMem (github.com/NVIDIA/cnmem), the pool under vDNN, vDNN++ and SINGA: requests in
 * multiples of 512 bytes, the smallest free block that fits, of equals the lowest, taken from its
 * lower end; neighbours that are free become one.
 *
 * Where ours differs: the pool is as large as it has to be, so its rest, the largest free block, is
 * what is taken last. CnMem is given a size, half of the card by default, and asks the driver for
 * a block of its own when that is full. There is one stream. */
#include "memory/pools/pool_chunks.h"

static const dti_chunk_rules rules = {.name = "cnmem", .grain = 512};

DTI_CHUNKS_PLACE_BY(rules)

const dt_pool_desc dt_pool_cnmem = {
    .name = "cnmem",
    .summary = "NVIDIA CnMem: best fit in one block, multiples of 512 bytes",
    .place = place,
    .reserve = reserve,
};
