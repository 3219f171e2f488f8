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

/* @to: where the packed chunks end so far, @total bytes behind the table's begin; @first: the next
 * chunk; @beyond: bytes of those that do not fit */
typedef struct packing {
    const uint8_t *from;
    uint8_t *table, *to;
    size_t count, first, total, *beyond;
} packing;

/* Packs a chunk, or copies one that would be no shorter. Returns its bytes. */
static size_t encode_chunk(const packing *p, size_t i, uint8_t *to)
{
    const size_t bytes = 4 * dti_chunk_count(p->count, i);
    const uint8_t *const from = p->from + i * CHUNK_BYTES;
    const int n = LZ4_compress_default((const char *)from, (char *)to, (int)bytes, (int)bytes - 1);
    if (n > 0)
        return (size_t)n;
    memcpy(to, from, bytes);
    return bytes;
}

/* Each at a place as large as a chunk is unpacked; the table says its bytes. */
static void pack_task(const void *of, int64_t i)
{
    const packing *p = of;
    const size_t chunk = p->first + (size_t)i;
    dti_set_chunk_end(p->table, chunk, encode_chunk(p, chunk, p->to + (size_t)i * CHUNK_BYTES));
}

/* The next chunk is packed; @at is where it stands, if not at its place. */
static void close_up(packing *p, const uint8_t *at, size_t n)
{
    memmove(p->to, at, n);
    p->to += n;
    p->total += n;
    dti_set_chunk_end(p->table, p->first++, p->total - fixed_of(p->count));
}

static void pack_many(packing *p, size_t n)
{
    const uint8_t *const at = p->to;
    dt_team_run((int64_t)n, pack_task, p);
    for (size_t i = 0; i < n; i++)
        close_up(p, at + i * CHUNK_BYTES, dti_chunk_end(p->table, p->first));
}

/* Where there is less room than a chunk is unpacked; false: the next does not fit. */
static bool pack_one(packing *p, size_t capacity)
{
    uint8_t block[CHUNK_BYTES];
    const size_t n = encode_chunk(p, p->first, block);
    if (p->total > capacity || n > capacity - p->total)
        return false;
    close_up(p, block, n);
    return true;
}

/* Of chunks that do not fit no more is asked than how many bytes they take. */
static void measure_task(const void *of, int64_t i)
{
    const packing *p = of;
    uint8_t block[CHUNK_BYTES];
    const size_t n = encode_chunk(p, p->first + (size_t)i, block);
    (void)__atomic_fetch_add(p->beyond, n, __ATOMIC_RELAXED);
}

/* As many chunks at once as have room unpacked where packed ones end, then as many as have room
 * behind those: what is left of the room halves, so it takes few turns. */
static bool encode(const void *src, size_t count, void *dst, size_t capacity, size_t *used)
{
    const size_t chunks = dti_parts(count, DTI_CHUNK), fixed = fixed_of(count);
    size_t beyond = 0;
    packing p = {.from = src, .table = dst, .count = count, .total = fixed, .beyond = &beyond};
    p.to = fixed <= capacity ? p.table + fixed : NULL;
    for (size_t room; p.first < chunks && p.total <= capacity &&
                      (room = (capacity - p.total) / CHUNK_BYTES) > 0;)
        pack_many(&p, room < chunks - p.first ? room : chunks - p.first);
    while (p.first < chunks && pack_one(&p, capacity))
        ;
    dt_team_run((int64_t)(chunks - p.first), measure_task, &p);
    *used = p.total + beyond;
    return *used <= capacity;
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
    .summary = "LZ4: repeated bytes become (distance, length) (liblz4)",
    .exact = true,
    .sparse = true,
    .capacity = capacity_of,
    .encode = encode,
    .decode = decode,
};
