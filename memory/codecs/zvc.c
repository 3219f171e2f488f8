/* Zero-value compression: a mask word for 32 elements, and the elements that are not zero. All
 * masks come first, so that the place of each is known. */
#include "engine/base/team.h"
#include "memory/codec.h"
#include "memory/codecs/chunks.h"
#include "memory/codecs/lanes.h"

/* Where things lie: table of chunks, masks, values. */
typedef struct layout {
    size_t chunks, masks, fixed; /* chunks, bytes before the masks, bytes before the values */
} layout;

static layout layout_of(size_t count)
{
    const size_t chunks = dti_parts(count, DT_CHUNK);
    return (layout){chunks, 8 * chunks, 8 * chunks + 4 * dti_parts(count, 32)};
}

static size_t capacity_of(size_t count, double density)
{
    if (count > DT_CODEC_MOST)
        return SIZE_MAX;
    return layout_of(count).fixed + 4 * dti_codec_nonzero(count, density);
}

/* What chunks are packed from and to, by the team's threads.
 * @count: values, packed or not
 * @room:  whether masks and table fit
 * @total: values that are not zero: counted when packing, as they should be when unpacking
 * @bad:   what is unpacked was not packed by this codec */
typedef struct packing {
    const dt_lanes *lanes;
    layout at;
    const uint8_t *from;
    uint8_t *to;
    size_t count;
    bool room;
    uint64_t *total;
    bool *bad;
} packing;

/* The mask and the length of a chunk, as far as there is room for them. */
static void encode_mask(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    uint8_t unkept[DT_CHUNK_MASK];
    uint8_t *mask = p->room ? p->to + p->at.masks + i * DT_CHUNK_MASK : unkept;
    const size_t n = dti_chunk_count(p->count, i);
    const size_t here = p->lanes->scan(p->from + 4 * i * DT_CHUNK, n, mask);
    if (p->room)
        dti_set_chunk_end(p->to, i, here);
    __atomic_add_fetch(p->total, here, __ATOMIC_RELAXED);
}

static void encode_values(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    const uint64_t begin = dti_chunk_begin(p->to, i), end = dti_chunk_end(p->to, i);
    p->lanes->pack(p->from + 4 * i * DT_CHUNK, p->to + p->at.masks + i * DT_CHUNK_MASK,
        dti_chunk_count(p->count, i), p->to + p->at.fixed + 4 * begin, (size_t)(end - begin));
}

static bool encode(const void *src, size_t count, void *dst, size_t capacity, size_t *used)
{
    const layout at = layout_of(count);
    uint64_t total = 0;
    const packing p = {.lanes = dti_lanes_best(),
        .at = at,
        .from = src,
        .to = dst,
        .count = count,
        .room = at.fixed <= capacity,
        .total = &total};
    dt_team_run((int64_t)at.chunks, encode_mask, &p);
    *used = at.fixed + 4 * (size_t)total;
    if (*used > capacity)
        return false;
    dti_sum_chunks(dst, at.chunks);
    dt_team_run((int64_t)at.chunks, encode_values, &p);
    return true;
}

/* False when the mask does not belong to n elements of which @total are not zero. */
static bool fits(const dt_lanes *lanes, const uint8_t *mask, size_t n, uint64_t total)
{
    const uint32_t past = n % 32 != 0 ? ~0u << (n % 32) : 0;
    const size_t words = dti_parts(n, 32);
    return lanes->count(mask, words) == total && (dti_word(mask, words - 1) & past) == 0;
}

static void decode_chunk(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk, n = dti_chunk_count(p->count, i);
    const uint8_t *mask = p->from + p->at.masks + i * DT_CHUNK_MASK;
    const uint64_t begin = dti_chunk_begin(p->from, i), end = dti_chunk_end(p->from, i);
    if (begin > end || end > *p->total || !fits(p->lanes, mask, n, end - begin))
        __atomic_store_n(p->bad, true, __ATOMIC_RELAXED);
    else
        p->lanes->unpack(p->from + p->at.fixed + 4 * begin, (size_t)(end - begin), mask, n,
            p->to + 4 * i * DT_CHUNK);
}

static dt_status decode(const void *src, size_t used, void *dst, size_t count, dt_err *err)
{
    const layout at = layout_of(count);
    const uint8_t *const in = src;
    uint64_t total = used >= at.fixed ? (used - at.fixed) / 4 : 0;
    bool bad = used < at.fixed || (used - at.fixed) % 4 != 0 ||
               (at.chunks > 0 ? dti_chunk_end(in, at.chunks - 1) : 0) != total;
    const packing p = {.lanes = dti_lanes_best(),
        .at = at,
        .from = in,
        .to = dst,
        .count = count,
        .total = &total,
        .bad = &bad};
    if (!bad)
        dt_team_run((int64_t)at.chunks, decode_chunk, &p);
    if (bad)
        return DT_FAIL(err, DT_E_DATA,
            "%zu bytes are not %zu values packed by zvc; they were changed or cut since", used,
            count);
    return DT_OK;
}

const dt_codec dt_codec_zvc = {
    .name = "zvc",
    .summary = "a bit a value, and the values that are not zero",
    .exact = true,
    .sparse = true,
    .capacity = capacity_of,
    .encode = encode,
    .decode = decode,
};
