/* What the codecs' kernels share. Packed bytes have their number before them, as dt_pack writes it.
 * No atomic operation: bytes depend on nothing but the values. */
#ifndef DT_MEMORY_CODECS_KERNEL_CUH
#define DT_MEMORY_CODECS_KERNEL_CUH

#include "engine/cuda/cuda.cuh"

#ifndef DT_CUDA_HOST
#define DT_CUDA_CODEC(name) extern "C" const dt_cuda_codec dt_cuda_codec_##name
#define DT_POPULATION(m) ((uint32_t)__popc(m))
#define DT_WARP_MEETS() __syncwarp()
#else
#define DT_POPULATION(m) ((uint32_t)__builtin_popcount(m))
#define DT_WARP_MEETS() ((void)__ballot_sync(0xFFFFFFFFu, 1))
#endif

#define DT_KERNEL(name, type) DT_KERNEL_OF(TEAM, name, type)

DT_C_HEADERS
#include "memory/codecs/chunks.h"
DT_C_HEADERS_END

/* TEAM: threads of a block, each of which has one word of the chunk's mask. */
enum { TEAM = 512, WARP = 32, WARPS = TEAM / WARP, WORDS = DTI_CHUNK / 32, HEADER = 8 };
#define OVERFLOWN UINT64_MAX

typedef struct codec_grid {
    unsigned x, y;
} codec_grid;

/**
 * struct packed - packed bytes, as kernels find them.
 * @at:       behind the header; @capacity: bytes there
 * @fixed:    bytes before what depends on the data
 * @overflow: becomes 1 when an encoder does not fit
 * @damaged:  becomes 1 when a decoder finds what no encoder wrote
 */
typedef struct packed {
    uint64_t *header;
    uint8_t *at;
    uint64_t count, chunks, fixed, capacity;
    int *overflow, *damaged;
} packed;

static inline dt_status packed_of(
    packed *p, const void *bytes, size_t room, size_t count, size_t fixed, dt_err *err)
{
    if ((uintptr_t)bytes % HEADER != 0 || room < HEADER || count > DT_CODEC_MOST)
        return DT_FAIL(err, DT_E_INTERNAL, "packed bytes begin at an odd address, or have no room");
    memset(p, 0, sizeof *p);
    p->header = (uint64_t *)(uintptr_t)bytes;
    p->at = (uint8_t *)(uintptr_t)bytes + HEADER;
    p->count = count;
    p->chunks = dti_parts(count, DTI_CHUNK);
    p->fixed = fixed;
    p->capacity = room - HEADER;
    return DT_OK;
}

/* One thing said by many threads. */
DT_DEVICE void say(int *flag)
{
    *(volatile int *)flag = 1;
}

/* There is not even room for what has a fixed place. */
DT_KERNEL(refuse_packed, packed)
{
    if (threadIdx.x == 0) {
        *given.header = OVERFLOWN;
        say(given.overflow);
    }
}

DT_DEVICE void put_zeros(uint32_t *dst, uint64_t n)
{
    for (uint64_t e = threadIdx.x; e < n; e += TEAM)
        dst[e] = 0;
}

static inline codec_grid one_block(void)
{
    const codec_grid g = {1, 1};
    return g;
}

/* For @items of which a block does @each at a time; beyond some blocks each does several times. */
static inline codec_grid blocks_for(uint64_t items, uint64_t each)
{
    const uint64_t most = 1 << 16, blocks = (items + each - 1) / each;
    codec_grid g = {1, 1};
    if (blocks > 0)
        g.x = (unsigned)(blocks < most ? blocks : most);
    return g;
}

static inline codec_grid a_block_each(uint64_t chunks)
{
    const codec_grid g = {(unsigned)chunks, 1};
    return g;
}

#endif
