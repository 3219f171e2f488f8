/* Small floats: two of 16 bits, three of 10 or four of 8 in a word. memory/codecs/small_bits.h
 * says how they are rounded. */
#include "memory/codecs/lanes.h"

#include "engine/base/team.h"
#include "memory/codec.h"
#include "memory/codecs/chunks.h"

enum { CHUNK = 3 << 13 }; /* elements; fills words of two, three and four */

typedef struct kind {
    dti_small as;
    size_t per_word;
} kind;

static size_t capacity_of(size_t count, const kind *k)
{
    return count > DT_CODEC_MOST ? SIZE_MAX : 4 * dti_parts(count, k->per_word);
}

static size_t here(size_t count, size_t i)
{
    return count - i * CHUNK < CHUNK ? count - i * CHUNK : CHUNK;
}

/* What is packed from and to, chunks by the team's threads. */
typedef struct packing {
    const dti_lanes *lanes;
    const kind *k;
    const uint8_t *from;
    uint8_t *to;
    size_t count; /* values */
} packing;

static void narrow_chunk(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    p->lanes->narrow[p->k->as](
        p->from + 4 * i * CHUNK, here(p->count, i), p->to + 4 * i * (CHUNK / p->k->per_word));
}

static void widen_chunk(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    p->lanes->widen[p->k->as](
        p->from + 4 * i * (CHUNK / p->k->per_word), here(p->count, i), p->to + 4 * i * CHUNK);
}

static bool encode(
    const void *src, size_t count, void *dst, size_t capacity, size_t *used, const kind *k)
{
    const packing p = {dti_lanes_best(), k, src, dst, count};
    *used = 4 * dti_parts(count, k->per_word);
    if (*used > capacity)
        return false;
    dt_team_run((int64_t)dti_parts(count, CHUNK), narrow_chunk, &p);
    return true;
}

static dt_status decode(
    const void *src, size_t used, void *dst, size_t count, const kind *k, dt_err *err)
{
    const packing p = {dti_lanes_best(), k, src, dst, count};
    const size_t need = 4 * dti_parts(count, k->per_word);
    if (used != need)
        return DT_FAIL(err, DT_E_DATA,
            "%zu bytes are not %zu values packed as small floats, which take %zu", used, count,
            need);
    dt_team_run((int64_t)dti_parts(count, CHUNK), widen_chunk, &p);
    return DT_OK;
}

#define SMALL(size, per, text)                                                                     \
    static const kind fp##size = {DTI_SMALL_##size, per};                                          \
    static size_t fp##size##_capacity(size_t count, double density)                                \
    {                                                                                              \
        (void)density;                                                                             \
        return capacity_of(count, &fp##size);                                                      \
    }                                                                                              \
    static bool fp##size##_encode(                                                                 \
        const void *src, size_t count, void *dst, size_t capacity, size_t *used)                   \
    {                                                                                              \
        return encode(src, count, dst, capacity, used, &fp##size);                                 \
    }                                                                                              \
    static dt_status fp##size##_decode(                                                            \
        const void *src, size_t used, void *dst, size_t count, dt_err *err)                        \
    {                                                                                              \
        return decode(src, used, dst, count, &fp##size, err);                                      \
    }                                                                                              \
    const dt_codec dt_codec_fp##size = {                                                           \
        .name = "fp" #size,                                                                        \
        .summary = text,                                                                           \
        .capacity = fp##size##_capacity,                                                           \
        .encode = fp##size##_encode,                                                               \
        .decode = fp##size##_decode,                                                               \
    };

SMALL(16, 2, "two floats a word: 5 bits of exponent, 10 of mantissa, up to 65504")
SMALL(10, 3, "three floats a word: 5 bits of exponent, 4 of mantissa, up to 63488")
SMALL(8, 4, "four floats a word: 4 bits of exponent, 3 of mantissa, up to 240")
