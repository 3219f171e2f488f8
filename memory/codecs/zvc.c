/* Zero-value compression (cDMA: Rhu et al., HPCA 2018): a mask word for 32 elements, and
 * the elements that are not zero. Theirs puts each mask before its elements; here all masks come
 * first, so that the place of each is known. */
#include "memory/codecs/sparse.h"

static size_t measure(const dti_chunk *c, const uint8_t *from, uint8_t *mask)
{
    uint8_t unkept[DTI_CHUNK_MASK];
    return c->lanes->scan(from, c->n, mask != NULL ? mask : unkept);
}

static void pack(const dti_chunk *c, const uint8_t *from, const uint8_t *mask, uint8_t *to)
{
    c->lanes->pack(from, mask, c->n, to, c->words);
}

/* False when the mask does not belong to n elements of which so many are not zero. */
static bool unpack(const dti_chunk *c, const uint8_t *from, const uint8_t *mask, uint8_t *to)
{
    const uint32_t past = c->n % 32 != 0 ? ~0u << (c->n % 32) : 0;
    const size_t words = dti_parts(c->n, 32);
    if (c->lanes->count(mask, words) != c->words || (dti_word(mask, words - 1) & past) != 0)
        return false;
    c->lanes->unpack(from, c->words, mask, c->n, to);
    return true;
}

static const dti_sparse zvc_sparse = {
    .packed = "by zvc", .each = 32, .measure = measure, .pack = pack, .unpack = unpack};

static size_t capacity_of(size_t count, double density)
{
    if (count > DT_CODEC_MOST)
        return SIZE_MAX;
    return dti_sparse_fixed(&zvc_sparse, count) + 4 * dti_codec_nonzero(count, density);
}

DT_SPARSE_CODEC(zvc)

const dt_codec dt_codec_zvc = {
    .name = "zvc",
    .summary = "a bit a value, and the values that are not zero",
    .exact = true,
    .sparse = true,
    .capacity = capacity_of,
    .encode = zvc_encode,
    .decode = zvc_decode,
};
