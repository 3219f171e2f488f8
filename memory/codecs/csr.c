/* Compressed sparse rows as in Gist: the tensor is a matrix of 256 columns, so that a column is one
 * byte. Row ends count within a chunk; a chunk's values come before its columns, which are filled
 * up to whole words with zeros. The values may be small floats. */
#include "engine/base/team.h"
#include "memory/codec.h"
#include "memory/codecs/chunks.h"
#include "memory/codecs/lanes.h"

enum { ROW = 256, CHUNK_ROWS = DT_CHUNK / ROW };

/* How values are kept: as they are, or as one of the small floats. */
typedef struct values {
    bool whole;
    dt_small as;
    size_t per_word;
} values;

/* Where things lie: table of chunks, row ends, chunks. */
typedef struct layout {
    size_t chunks, rows, fixed; /* chunks, bytes before the row ends, bytes before the chunks */
} layout;

static layout layout_of(size_t count)
{
    const size_t chunks = dti_parts(count, DT_CHUNK);
    return (layout){chunks, 8 * chunks, 8 * chunks + 4 * dti_parts(count, ROW)};
}

static size_t words_of(size_t nonzero, const values *v)
{
    return dti_parts(nonzero, v->per_word) + dti_parts(nonzero, 4);
}

static size_t capacity_of(size_t count, double density, const values *v)
{
    if (count > DT_CODEC_MOST)
        return SIZE_MAX;
    const layout at = layout_of(count);
    const size_t nonzero = dti_codec_nonzero(count, density);
    const size_t parts = nonzero < at.chunks ? nonzero : at.chunks; /* each has partial words */
    const size_t partial = v->per_word > 1 ? 2 * parts : parts;
    return at.fixed + 4 * (nonzero / v->per_word + nonzero / 4 + partial);
}

/* What chunks are packed from and to, by the team's threads.
 * @count: values, packed or not
 * @room:  whether row ends and table fit
 * @total: words of all chunks: counted when packing, as they should be when unpacking
 * @bad:   what is unpacked was not packed by this codec */
typedef struct packing {
    const dt_lanes *lanes;
    const values *v;
    layout at;
    const uint8_t *from;
    uint8_t *to;
    size_t count;
    bool room;
    uint64_t *total;
    bool *bad;
} packing;

/* Row ends and the length of a chunk, as far as there is room for them. */
static void encode_rows(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk, n = dti_chunk_count(p->count, i);
    uint8_t mask[DT_CHUNK_MASK];
    const size_t nonzero = p->lanes->scan(p->from + 4 * i * DT_CHUNK, n, mask);
    const size_t words = words_of(nonzero, p->v);
    size_t end = 0;
    for (size_t r = 0; p->room && r * ROW < n; r++) {
        const size_t length = n - r * ROW < ROW ? n - r * ROW : ROW;
        end += p->lanes->count(mask + r * (ROW / 8), dti_parts(length, 32));
        dti_set_word(p->to + p->at.rows, i * CHUNK_ROWS + r, (uint32_t)end);
    }
    if (p->room)
        dti_set_chunk_end(p->to, i, words);
    __atomic_add_fetch(p->total, words, __ATOMIC_RELAXED);
}

/* Columns and values of one chunk. */
static void encode_chunk(const dt_lanes *lanes, const values *v, const uint8_t *from, size_t n,
    const uint8_t *row_end, uint8_t *to)
{
    uint8_t mask[DT_CHUNK_MASK];
    const size_t nonzero = lanes->scan(from, n, mask);
    uint8_t *const column = to + 4 * dti_parts(nonzero, v->per_word);
    for (size_t r = 0; r * ROW < n; r++) {
        const size_t length = n - r * ROW < ROW ? n - r * ROW : ROW;
        const size_t begin = r > 0 ? dti_word(row_end, r - 1) : 0;
        lanes->columns(mask + r * (ROW / 8), length, column + begin, nonzero - begin);
    }
    memset(column + nonzero, 0, (4 - nonzero % 4) % 4);
    if (v->whole) {
        lanes->pack(from, mask, n, to, nonzero);
    } else {
        uint8_t packed[4 * DT_CHUNK];
        lanes->pack(from, mask, n, packed, nonzero);
        lanes->narrow[v->as](packed, nonzero, to);
    }
}

static void encode_task(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    encode_chunk(p->lanes, p->v, p->from + 4 * i * DT_CHUNK, dti_chunk_count(p->count, i),
        p->to + p->at.rows + 4 * i * CHUNK_ROWS,
        p->to + p->at.fixed + 4 * dti_chunk_begin(p->to, i));
}

static bool encode(
    const void *src, size_t count, void *dst, size_t capacity, size_t *used, const values *v)
{
    const layout at = layout_of(count);
    uint64_t total = 0;
    const packing p = {.lanes = dti_lanes_best(),
        .v = v,
        .at = at,
        .from = src,
        .to = dst,
        .count = count,
        .room = at.fixed <= capacity,
        .total = &total};
    dt_team_run((int64_t)at.chunks, encode_rows, &p);
    *used = at.fixed + 4 * (size_t)total;
    if (*used > capacity)
        return false;
    dti_sum_chunks(dst, at.chunks);
    dt_team_run((int64_t)at.chunks, encode_task, &p);
    return true;
}

/* False when a row has more elements than columns, or a column lies past its end. */
static bool decode_rows(
    const uint8_t *value, const uint8_t *column, const uint8_t *row_end, size_t n, uint8_t *to)
{
    size_t k = 0;
    for (size_t r = 0; r * ROW < n; r++) {
        const size_t length = n - r * ROW < ROW ? n - r * ROW : ROW, end = dti_word(row_end, r);
        uint8_t *row = to + 4 * r * ROW;
        memset(row, 0, 4 * length);
        for (; k < end; k++) {
            if (column[k] >= length)
                return false;
            dti_set_word(row, column[k], dti_word(value, k));
        }
    }
    return true;
}

static bool decode_chunk(const dt_lanes *lanes, const values *v, const uint8_t *from,
    uint64_t words, const uint8_t *row_end, size_t n, uint8_t *to)
{
    const size_t rows = dti_parts(n, ROW), nonzero = dti_word(row_end, rows - 1);
    if (words_of(nonzero, v) != words)
        return false;
    for (size_t r = 0, before = 0; r < rows; r++) {
        const size_t length = n - r * ROW < ROW ? n - r * ROW : ROW, end = dti_word(row_end, r);
        if (end < before || end - before > length)
            return false;
        before = end;
    }
    const uint8_t *const column = from + 4 * dti_parts(nonzero, v->per_word);
    if (v->whole)
        return decode_rows(from, column, row_end, n, to);
    uint8_t value[4 * DT_CHUNK];
    lanes->widen[v->as](from, nonzero, value);
    return decode_rows(value, column, row_end, n, to);
}

static void decode_task(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    const uint64_t begin = dti_chunk_begin(p->from, i), end = dti_chunk_end(p->from, i);
    if (begin > end || end > *p->total ||
        !decode_chunk(p->lanes, p->v, p->from + p->at.fixed + 4 * begin, end - begin,
            p->from + p->at.rows + 4 * i * CHUNK_ROWS, dti_chunk_count(p->count, i),
            p->to + 4 * i * DT_CHUNK))
        __atomic_store_n(p->bad, true, __ATOMIC_RELAXED);
}

static dt_status decode(
    const void *src, size_t used, void *dst, size_t count, const values *v, dt_err *err)
{
    const layout at = layout_of(count);
    const uint8_t *const in = src;
    uint64_t total = used >= at.fixed ? (used - at.fixed) / 4 : 0;
    bool bad = used < at.fixed || (used - at.fixed) % 4 != 0 ||
               (at.chunks > 0 ? dti_chunk_end(in, at.chunks - 1) : 0) != total;
    const packing p = {.lanes = dti_lanes_best(),
        .v = v,
        .at = at,
        .from = in,
        .to = dst,
        .count = count,
        .total = &total,
        .bad = &bad};
    if (!bad)
        dt_team_run((int64_t)at.chunks, decode_task, &p);
    if (bad)
        return DT_FAIL(err, DT_E_DATA,
            "%zu bytes are not %zu values packed as sparse rows; they were changed or cut since",
            used, count);
    return DT_OK;
}

#define CSR(codec, keeps_bits, small, per, text)                                                   \
    static const values codec##_values = {keeps_bits, small, per};                                 \
    static size_t codec##_capacity(size_t count, double density)                                   \
    {                                                                                              \
        return capacity_of(count, density, &codec##_values);                                       \
    }                                                                                              \
    static bool codec##_encode(                                                                    \
        const void *src, size_t count, void *dst, size_t capacity, size_t *used)                   \
    {                                                                                              \
        return encode(src, count, dst, capacity, used, &codec##_values);                           \
    }                                                                                              \
    static dt_status codec##_decode(                                                               \
        const void *src, size_t used, void *dst, size_t count, dt_err *err)                        \
    {                                                                                              \
        return decode(src, used, dst, count, &codec##_values, err);                                \
    }                                                                                              \
    const dt_codec dt_codec_##codec = {                                                            \
        .name = #codec,                                                                            \
        .summary = text,                                                                           \
        .exact = keeps_bits,                                                                       \
        .sparse = true,                                                                            \
        .capacity = codec##_capacity,                                                              \
        .encode = codec##_encode,                                                                  \
        .decode = codec##_decode,                                                                  \
    };

CSR(csr, true, DT_SMALLS, 1,
    "sparse rows of 256: the values that are not zero, and a byte each for where")
CSR(csr_fp16, false, DT_SMALL_16, 2, "csr whose values are fp16")
CSR(csr_fp10, false, DT_SMALL_10, 3, "csr whose values are fp10")
CSR(csr_fp8, false, DT_SMALL_8, 4, "csr whose values are fp8")
