/* Zero-value compression: a mask word for 32 elements, and the elements that are not zero. All
 * masks come first, so that the place of each is known. */
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

/* Masks and the length of each chunk, as far as there is room for them. Returns what is not zero.
 */
static size_t encode_masks(
    const dt_lanes *lanes, const uint8_t *from, size_t count, uint8_t *to, bool room)
{
    const layout at = layout_of(count);
    size_t total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total) if (at.chunks > 1)
    for (size_t i = 0; i < at.chunks; i++) {
        uint8_t unkept[DT_CHUNK_MASK];
        uint8_t *mask = room ? to + at.masks + i * DT_CHUNK_MASK : unkept;
        const size_t n = dti_chunk_count(count, i);
        const size_t here = lanes->scan(from + 4 * i * DT_CHUNK, n, mask);
        if (room)
            dti_set_chunk_end(to, i, here);
        total += here;
    }
    return total;
}

static bool encode(const void *src, size_t count, void *dst, size_t capacity, size_t *used)
{
    const dt_lanes *lanes = dti_lanes_best();
    const layout at = layout_of(count);
    const uint8_t *const from = src;
    uint8_t *const out = dst;
    *used = at.fixed + 4 * encode_masks(lanes, from, count, out, at.fixed <= capacity);
    if (*used > capacity)
        return false;
    dti_sum_chunks(out, at.chunks);
#pragma omp parallel for schedule(static) if (at.chunks > 1)
    for (size_t i = 0; i < at.chunks; i++) {
        const uint64_t begin = dti_chunk_begin(out, i), end = dti_chunk_end(out, i);
        lanes->pack(from + 4 * i * DT_CHUNK, out + at.masks + i * DT_CHUNK_MASK,
            dti_chunk_count(count, i), out + at.fixed + 4 * begin, (size_t)(end - begin));
    }
    return true;
}

/* False when the mask does not belong to n elements of which @total are not zero. */
static bool fits(const dt_lanes *lanes, const uint8_t *mask, size_t n, uint64_t total)
{
    const uint32_t past = n % 32 != 0 ? ~0u << (n % 32) : 0;
    const size_t words = dti_parts(n, 32);
    return lanes->count(mask, words) == total && (dti_word(mask, words - 1) & past) == 0;
}

static dt_status decode(const void *src, size_t used, void *dst, size_t count, dt_err *err)
{
    const dt_lanes *lanes = dti_lanes_best();
    const layout at = layout_of(count);
    const uint8_t *const in = src;
    const uint64_t total = used >= at.fixed ? (used - at.fixed) / 4 : 0;
    bool bad = used < at.fixed || (used - at.fixed) % 4 != 0 ||
               (at.chunks > 0 ? dti_chunk_end(in, at.chunks - 1) : 0) != total;
    if (!bad) {
#pragma omp parallel for schedule(static) reduction(|| : bad) if (at.chunks > 1)
        for (size_t i = 0; i < at.chunks; i++) {
            const size_t n = dti_chunk_count(count, i);
            const uint8_t *mask = in + at.masks + i * DT_CHUNK_MASK;
            const uint64_t begin = dti_chunk_begin(in, i), end = dti_chunk_end(in, i);
            if (begin > end || end > total || !fits(lanes, mask, n, end - begin))
                bad = true;
            else
                lanes->unpack(in + at.fixed + 4 * begin, (size_t)(end - begin), mask, n,
                    (uint8_t *)dst + 4 * i * DT_CHUNK);
        }
    }
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
