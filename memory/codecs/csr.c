/* Compressed sparse rows as in Gist (Jain et al., ISCA 2018): the tensor is a matrix of 256
 * columns, so that a column is one byte. The values may be small floats.
 *
 * Ours differs: theirs is one matrix; here it is cut into chunks of whole rows, which are packed
 * side by side. Row ends count within a chunk; a chunk's values come before its columns, which are
 * filled up to whole words with zeros. The paper does not say what bounds the packed values; here
 * their room is fixed before a run, and a step that needs more is run again unpacked. CSWAP's CSR
 * (Chen et al., CLUSTER 2021) has four bytes a column; here its codec is this one, with one. */
#include "memory/codecs/sparse.h"

enum { ROW = 256 };

/* How values are kept: as they are, or as one of the small floats. */
typedef struct values {
    bool whole;
    dti_small as;
    size_t per_word;
} values;

static size_t words_of(size_t nonzero, const values *v)
{
    return dti_parts(nonzero, v->per_word) + dti_parts(nonzero, 4);
}

static size_t row_length(size_t n, size_t row)
{
    return n - row * ROW < ROW ? n - row * ROW : ROW;
}

static size_t measure(const dti_chunk *c, const uint8_t *from, uint8_t *row_end)
{
    uint8_t mask[DTI_CHUNK_MASK];
    const size_t nonzero = c->lanes->scan(from, c->n, mask);
    size_t end = 0;
    for (size_t r = 0; row_end != NULL && r * ROW < c->n; r++) {
        end += c->lanes->count(mask + r * (ROW / 8), dti_parts(row_length(c->n, r), 32));
        dti_set_word(row_end, r, (uint32_t)end);
    }
    return words_of(nonzero, c->how);
}

/* Columns and values. */
static void pack(const dti_chunk *c, const uint8_t *from, const uint8_t *row_end, uint8_t *to)
{
    const values *v = c->how;
    uint8_t mask[DTI_CHUNK_MASK];
    const size_t nonzero = c->lanes->scan(from, c->n, mask);
    uint8_t *const column = to + 4 * dti_parts(nonzero, v->per_word);
    for (size_t r = 0; r * ROW < c->n; r++) {
        const size_t begin = r > 0 ? dti_word(row_end, r - 1) : 0;
        c->lanes->columns(
            mask + r * (ROW / 8), row_length(c->n, r), column + begin, nonzero - begin);
    }
    memset(column + nonzero, 0, (4 - nonzero % 4) % 4);
    if (v->whole) {
        c->lanes->pack(from, mask, c->n, to, nonzero);
    } else {
        uint8_t packed[4 * DTI_CHUNK];
        c->lanes->pack(from, mask, c->n, packed, nonzero);
        c->lanes->narrow[v->as](packed, nonzero, to);
    }
}

/* False when a row has more elements than columns, or a column lies past its end. */
static bool decode_rows(
    const uint8_t *value, const uint8_t *column, const uint8_t *row_end, size_t n, uint8_t *to)
{
    size_t k = 0;
    for (size_t r = 0; r * ROW < n; r++) {
        const size_t length = row_length(n, r), end = dti_word(row_end, r);
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

static bool unpack(const dti_chunk *c, const uint8_t *from, const uint8_t *row_end, uint8_t *to)
{
    const values *v = c->how;
    const size_t rows = dti_parts(c->n, ROW), nonzero = dti_word(row_end, rows - 1);
    if (words_of(nonzero, v) != c->words)
        return false;
    for (size_t r = 0, before = 0; r < rows; r++) {
        const size_t end = dti_word(row_end, r);
        if (end < before || end - before > row_length(c->n, r))
            return false;
        before = end;
    }
    const uint8_t *const column = from + 4 * dti_parts(nonzero, v->per_word);
    if (v->whole)
        return decode_rows(from, column, row_end, c->n, to);
    uint8_t value[4 * DTI_CHUNK];
    c->lanes->widen[v->as](from, nonzero, value);
    return decode_rows(value, column, row_end, c->n, to);
}

static size_t capacity_of(const dti_sparse *s, size_t count, double density)
{
    const values *v = s->how;
    if (count > DT_CODEC_MOST)
        return SIZE_MAX;
    const size_t nonzero = dti_codec_nonzero(count, density), chunks = dti_parts(count, DTI_CHUNK);
    const size_t parts = nonzero < chunks ? nonzero : chunks; /* each has partial words */
    const size_t partial = v->per_word > 1 ? 2 * parts : parts;
    return dti_sparse_fixed(s, count) + 4 * (nonzero / v->per_word + nonzero / 4 + partial);
}

#define CSR(codec, keeps_bits, small, per, text)                                                   \
    static const values codec##_values = {keeps_bits, small, per};                                 \
    static const dti_sparse codec##_sparse = {                                                     \
        "as sparse rows", &codec##_values, ROW, measure, pack, unpack};                            \
    static size_t codec##_capacity(size_t count, double density)                                   \
    {                                                                                              \
        return capacity_of(&codec##_sparse, count, density);                                       \
    }                                                                                              \
    DT_SPARSE_CODEC(codec)                                                                         \
    const dt_codec dt_codec_##codec = {                                                            \
        .name = #codec,                                                                            \
        .summary = text,                                                                           \
        .exact = keeps_bits,                                                                       \
        .sparse = true,                                                                            \
        .capacity = codec##_capacity,                                                              \
        .encode = codec##_encode,                                                                  \
        .decode = codec##_decode,                                                                  \
    };

CSR(csr, true, DTI_SMALLS, 1,
    "sparse rows of 256: the values that are not zero, and a byte each for where")
CSR(csr_fp16, false, DTI_SMALL_16, 2, "csr whose values are fp16")
CSR(csr_fp10, false, DTI_SMALL_10, 3, "csr whose values are fp10")
CSR(csr_fp8, false, DTI_SMALL_8, 4, "csr whose values are fp8")
