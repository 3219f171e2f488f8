/* Run lengths: of each run of zeros, and of the values behind it, a byte each, and the values
 * themselves. Runs end with rows of 128, so that a byte holds any length and where they begin is
 * told by the mask alone. A chunk's runs come before its values, filled up to whole words with
 * zeros; how many runs it has stands behind the table. */
#include "memory/codec.h"
#include "memory/codecs/chunks.h"
#include "memory/codecs/lanes.h"

enum { ROW = 128, ROW_WORDS = ROW / 32 };

/* Where things lie: table of chunks, their runs, chunks. */
typedef struct layout {
    size_t chunks, runs, fixed; /* chunks, bytes before their runs, bytes before the chunks */
} layout;

static layout layout_of(size_t count)
{
    const size_t chunks = dti_parts(count, DT_CHUNK);
    return (layout){chunks, 8 * chunks, 12 * chunks};
}

/* A run of zeros begins with a row, or behind a value; of those there are no more than zeros, nor
 * than values. */
static size_t capacity_of(size_t count, double density)
{
    if (count > DT_CODEC_MOST)
        return SIZE_MAX;
    const layout at = layout_of(count);
    const size_t nonzero = dti_codec_nonzero(count, density), zeros = count - nonzero;
    const size_t runs = dti_parts(count, ROW) + (zeros < nonzero ? zeros : nonzero);
    return at.fixed + 4 * (nonzero + (runs + at.chunks) / 2);
}

/* The bits of mask word w at whose elements a run begins. */
static uint32_t begins(const uint8_t *mask, size_t w, size_t n)
{
    const uint32_t m = dti_word(mask, w), before = w > 0 ? dti_word(mask, w - 1) >> 31 : 0;
    const uint32_t there = n - 32 * w < 32 ? ~(~0u << (n - 32 * w)) : ~0u;
    return ((~m & (m << 1 | before)) | (w % ROW_WORDS == 0)) & there;
}

static size_t count_runs(const uint8_t *mask, size_t n)
{
    size_t total = 0;
    for (size_t w = 0; w * 32 < n; w++)
        total += dti_bits(begins(mask, w, n));
    return total;
}

/* Runs and the length of each chunk, as far as there is room for them. Returns the words of all
 * chunks. */
static size_t encode_lengths(
    const dt_lanes *lanes, const uint8_t *from, size_t count, uint8_t *to, bool room)
{
    const layout at = layout_of(count);
    size_t total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total) if (at.chunks > 1)
    for (size_t i = 0; i < at.chunks; i++) {
        uint8_t mask[DT_CHUNK_MASK];
        const size_t n = dti_chunk_count(count, i);
        const size_t nonzero = lanes->scan(from + 4 * i * DT_CHUNK, n, mask);
        const size_t runs = count_runs(mask, n), words = dti_parts(runs, 2) + nonzero;
        if (room) {
            dti_set_chunk_end(to, i, words);
            dti_set_word(to + at.runs, i, (uint32_t)runs);
        }
        total += words;
    }
    return total;
}

/* A run and the values behind it, from one begin to the next. Returns where the next one goes. */
static uint8_t *put_run(uint8_t *to, size_t elements, size_t values)
{
    to[0] = (uint8_t)(elements - values);
    to[1] = (uint8_t)values;
    return to + 2;
}

static uint8_t *put_runs(const uint8_t *mask, size_t n, uint8_t *to)
{
    size_t begin = 0, first = 0, seen = 0; /* a run's element, and the values before it and now */
    for (size_t w = 0; w * 32 < n; w++) {
        const uint32_t m = dti_word(mask, w);
        for (uint32_t b = begins(mask, w, n); b != 0; b &= b - 1) {
            const uint32_t bit = b & (0u - b);
            const size_t e = 32 * w + (size_t)__builtin_ctz(b), k = seen + dti_bits(m & (bit - 1));
            if (e > 0)
                to = put_run(to, e - begin, k - first);
            begin = e;
            first = k;
        }
        seen += dti_bits(m);
    }
    return put_run(to, n - begin, seen - first);
}

static void encode_chunk(
    const dt_lanes *lanes, const uint8_t *from, size_t n, size_t runs, uint8_t *to)
{
    uint8_t mask[DT_CHUNK_MASK];
    const size_t nonzero = lanes->scan(from, n, mask);
    uint8_t *const end = put_runs(mask, n, to);
    memset(end, 0, 2 * (runs % 2));
    lanes->pack(from, mask, n, to + 4 * dti_parts(runs, 2), nonzero);
}

static bool encode(const void *src, size_t count, void *dst, size_t capacity, size_t *used)
{
    const dt_lanes *lanes = dti_lanes_best();
    const layout at = layout_of(count);
    const uint8_t *const from = src;
    uint8_t *const out = dst;
    *used = at.fixed + 4 * encode_lengths(lanes, from, count, out, at.fixed <= capacity);
    if (*used > capacity)
        return false;
    dti_sum_chunks(out, at.chunks);
#pragma omp parallel for schedule(static) if (at.chunks > 1)
    for (size_t i = 0; i < at.chunks; i++)
        encode_chunk(lanes, from + 4 * i * DT_CHUNK, dti_chunk_count(count, i),
            dti_word(out + at.runs, i), out + at.fixed + 4 * dti_chunk_begin(out, i));
    return true;
}

static void set_bits(uint8_t *mask, size_t from, size_t to)
{
    for (size_t e = from; e < to;) {
        const size_t low = e % 32, most = 32 - low, n = to - e < most ? to - e : most;
        const uint32_t bits = n < 32 ? ~(~0u << n) : ~0u;
        dti_set_word(mask, e / 32, dti_word(mask, e / 32) | bits << low);
        e += n;
    }
}

/* The mask that runs tell; false when they are not of n elements with so many values. */
static bool read_runs(const uint8_t *from, size_t runs, size_t n, uint64_t values, uint8_t *mask)
{
    size_t e = 0, seen = 0;
    memset(mask, 0, DT_CHUNK_MASK);
    for (size_t i = 0; i < runs; i++) {
        const size_t begin = e + from[2 * i], end = begin + from[2 * i + 1];
        if (end > n)
            return false;
        set_bits(mask, begin, end);
        seen += end - begin;
        e = end;
    }
    return e == n && seen == values;
}

static bool decode_chunk(
    const dt_lanes *lanes, const uint8_t *from, uint64_t words, size_t runs, size_t n, uint8_t *to)
{
    uint8_t mask[DT_CHUNK_MASK];
    const size_t before = dti_parts(runs, 2);
    if (runs > DT_CHUNK || before > words || !read_runs(from, runs, n, words - before, mask))
        return false;
    lanes->unpack(from + 4 * before, (size_t)words - before, mask, n, to);
    return true;
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
            const uint64_t begin = dti_chunk_begin(in, i), end = dti_chunk_end(in, i);
            if (begin > end || end > total ||
                !decode_chunk(lanes, in + at.fixed + 4 * begin, end - begin,
                    dti_word(in + at.runs, i), dti_chunk_count(count, i),
                    (uint8_t *)dst + 4 * i * DT_CHUNK))
                bad = true;
        }
    }
    if (bad)
        return DT_FAIL(err, DT_E_DATA,
            "%zu bytes are not %zu values packed by rle; they were changed or cut since", used,
            count);
    return DT_OK;
}

const dt_codec dt_codec_rle = {
    .name = "rle",
    .summary = "the lengths of runs of zeros and of values, and the values",
    .exact = true,
    .sparse = true,
    .capacity = capacity_of,
    .encode = encode,
    .decode = decode,
};
