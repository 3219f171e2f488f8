/* Run lengths, one of the four codecs of CSWAP (Chen et al., CLUSTER 2021) and of those
 * that cDMA compares (Rhu et al., HPCA 2018), in a layout of our own: of each run of zeros, and of
 * the values behind it, a byte each, and the values themselves. Runs end with rows of 128, so that
 * a byte holds any length and where they begin is told by the mask alone. A chunk's runs come
 * before its values, filled up to whole words with zeros; how many runs it has stands behind the
 * table. */
#include "memory/codecs/sparse.h"

enum { ROW = 128, ROW_WORDS = ROW / 32 };

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

static size_t measure(const dti_chunk *c, const uint8_t *from, uint8_t *head)
{
    uint8_t mask[DTI_CHUNK_MASK];
    const size_t nonzero = c->lanes->scan(from, c->n, mask), runs = count_runs(mask, c->n);
    if (head != NULL)
        dti_set_word(head, 0, (uint32_t)runs);
    return dti_parts(runs, 2) + nonzero;
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

static void pack(const dti_chunk *c, const uint8_t *from, const uint8_t *head, uint8_t *to)
{
    uint8_t mask[DTI_CHUNK_MASK];
    const size_t runs = dti_word(head, 0), nonzero = c->lanes->scan(from, c->n, mask);
    uint8_t *const end = put_runs(mask, c->n, to);
    memset(end, 0, 2 * (runs % 2));
    c->lanes->pack(from, mask, c->n, to + 4 * dti_parts(runs, 2), nonzero);
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
    memset(mask, 0, DTI_CHUNK_MASK);
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

static bool unpack(const dti_chunk *c, const uint8_t *from, const uint8_t *head, uint8_t *to)
{
    uint8_t mask[DTI_CHUNK_MASK];
    const size_t runs = dti_word(head, 0), before = dti_parts(runs, 2);
    if (runs > DTI_CHUNK || before > c->words ||
        !read_runs(from, runs, c->n, c->words - before, mask))
        return false;
    c->lanes->unpack(from + 4 * before, c->words - before, mask, c->n, to);
    return true;
}

static const dti_sparse rle_sparse = {
    .packed = "by rle", .each = DTI_CHUNK, .measure = measure, .pack = pack, .unpack = unpack};

/* A run of zeros begins with a row, or behind a value; of those there are no more than zeros, nor
 * than values. */
static size_t capacity_of(size_t count, double density)
{
    if (count > DT_CODEC_MOST)
        return SIZE_MAX;
    const size_t nonzero = dti_codec_nonzero(count, density), zeros = count - nonzero;
    const size_t runs = dti_parts(count, ROW) + (zeros < nonzero ? zeros : nonzero);
    const size_t words = nonzero + (runs + dti_parts(count, DTI_CHUNK)) / 2;
    return dti_sparse_fixed(&rle_sparse, count) + 4 * words;
}

DT_SPARSE_CODEC(rle)

const dt_codec dt_codec_rle = {
    .name = "rle",
    .summary = "the lengths of runs of zeros and of values, and the values",
    .exact = true,
    .sparse = true,
    .capacity = capacity_of,
    .encode = rle_encode,
    .decode = rle_decode,
};
