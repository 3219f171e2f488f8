/* LZ4's blocks (Collet, 2011; one of CSWAP's codecs, Chen et al., CLUSTER 2021), by liblz4.
 *
 * Ours differs: a tensor is cut into chunks, a block each, which are packed side by side; no match
 * reaches into the chunk before. A chunk that would be no shorter is kept as it is. The table holds
 * where each ends, in bytes. CSWAP runs LZ4 on the card; here a match is looked for among the bytes
 * before it, one after another, so a card's threads have no part in it: there are no kernels. */
#include "engine/base/team.h"
#include "memory/codec.h"
#include "memory/codecs/chunks.h"

#include <lz4.h>

enum { CHUNK_BYTES = 4 * DTI_CHUNK, TAIL = 32 };

static size_t fixed_of(size_t count)
{
    return 8 * dti_parts(count, DTI_CHUNK);
}

/* A run of zeros costs a token, an offset and at most another byte; a block ends with up to twelve
 * bytes that are no match. LZ4 promises none of this: where it misses runs, or values are many and
 * few alike, a block takes more, which encode says. */
static size_t capacity_of(size_t count, double density)
{
    if (count > DT_CODEC_MOST)
        return SIZE_MAX;
    const size_t chunks = dti_parts(count, DTI_CHUNK);
    const size_t nonzero = dti_codec_nonzero(count, density), zeros = count - nonzero;
    const size_t runs = zeros < nonzero ? zeros : nonzero;
    const size_t guess = 4 * nonzero + 4 * runs + 4 * count / 255 + TAIL * chunks;
    return fixed_of(count) + (guess < 4 * count ? guess : 4 * count);
}

/* Bytes of a chunk, and in @block its packed ones if they are fewer than its own. */
static size_t encode_chunk(const uint8_t *from, size_t bytes, char *block)
{
    const int n = LZ4_compress_default((const char *)from, block, (int)bytes, (int)bytes - 1);
    return n > 0 ? (size_t)n : bytes;
}

/* Chunks are packed side by side, and put down one after another: each waits for the one before it,
 * which tasks of a team may not, so OpenMP's threads do this. */
static bool encode(const void *src, size_t count, void *dst, size_t capacity, size_t *used)
{
    const uint8_t *const from = src;
    const size_t chunks = dti_parts(count, DTI_CHUNK), fixed = fixed_of(count);
    uint8_t *const out = dst;
    size_t total = fixed;
    dt_team_rest();
#pragma omp parallel for schedule(static, 1) ordered if (chunks > 1)
    for (size_t i = 0; i < chunks; i++) {
        char block[CHUNK_BYTES];
        const size_t bytes = 4 * dti_chunk_count(count, i);
        const uint8_t *const chunk = from + i * CHUNK_BYTES;
        const size_t n = encode_chunk(chunk, bytes, block);
#pragma omp ordered
        {
            if (total <= capacity && n <= capacity - total) {
                memcpy(out + total, n < bytes ? (const void *)block : chunk, n);
                dti_set_chunk_end(out, i, total + n - fixed);
            }
            total += n;
        }
    }
    *used = total;
    return total <= capacity;
}

static bool decode_chunk(const uint8_t *from, uint64_t n, uint8_t *to, size_t bytes)
{
    if (n > bytes)
        return false;
    if (n == bytes) {
        memcpy(to, from, bytes);
        return true;
    }
    return LZ4_decompress_safe((const char *)from, (char *)to, (int)n, (int)bytes) == (int)bytes;
}

/* @total: bytes of all packed chunks; *bad becomes true where they cannot be what was packed. */
typedef struct unpacking {
    const uint8_t *from;
    uint8_t *to;
    size_t count, fixed;
    uint64_t total;
    bool *bad;
} unpacking;

static void unpack_task(const void *of, int64_t chunk)
{
    const unpacking *u = of;
    const size_t i = (size_t)chunk;
    const uint64_t begin = dti_chunk_begin(u->from, i), end = dti_chunk_end(u->from, i);
    if (begin > end || end > u->total ||
        !decode_chunk(u->from + u->fixed + begin, end - begin, u->to + i * CHUNK_BYTES,
            4 * dti_chunk_count(u->count, i)))
        __atomic_store_n(u->bad, true, __ATOMIC_RELAXED);
}

static dt_status decode(const void *src, size_t used, void *dst, size_t count, dt_err *err)
{
    const size_t chunks = dti_parts(count, DTI_CHUNK), fixed = fixed_of(count);
    const uint64_t total = used >= fixed ? used - fixed : 0;
    bool bad = used < fixed || (chunks > 0 ? dti_chunk_end(src, chunks - 1) : 0) != total;
    const unpacking u = {src, dst, count, fixed, total, &bad};
    if (!bad)
        dt_team_run((int64_t)chunks, unpack_task, &u);
    if (bad)
        return DT_FAIL(err, DT_E_DATA,
            "%zu bytes are not %zu values packed by lz4; they were changed or cut since", used,
            count);
    return DT_OK;
}

const dt_codec dt_codec_lz4 = {
    .name = "lz4",
    .summary = "LZ4: bytes that were there before by where and how many (liblz4)",
    .exact = true,
    .sparse = true,
    .capacity = capacity_of,
    .encode = encode,
    .decode = decode,
};
