/* AVX-512: sixteen elements at once, and instructions that compress and expand. */
#include "memory/codecs/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "memory/codecs/small_loops.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi2,popcnt")))

AVX512 static size_t scan(const uint8_t *src, size_t n, uint8_t *mask)
{
    size_t total = 0, e = 0;
    for (; e + 32 <= n; e += 32) {
        const __m512i a = _mm512_loadu_si512(src + 4 * e), b = _mm512_loadu_si512(src + 4 * e + 64);
        const uint32_t low = _mm512_test_epi32_mask(a, a), high = _mm512_test_epi32_mask(b, b);
        dti_set_word(mask, e / 32, low | high << 16);
        total += dti_bits(low | high << 16);
    }
    return total + (e < n ? dt_lanes_plain.scan(src + 4 * e, n - e, mask + e / 8) : 0);
}

AVX512 static size_t count(const uint8_t *mask, size_t words)
{
    size_t total = 0;
    for (size_t i = 0; i < words; i++)
        total += dti_bits(dti_word(mask, i));
    return total;
}

/* Whole vectors are stored while there is room behind them, which is faster than to store a part.
 */
AVX512 static void pack(
    const uint8_t *src, const uint8_t *mask, size_t n, uint8_t *to, size_t total)
{
    const uint8_t *const end = to + 4 * total;
    for (size_t e = 0; e < n; e += 16) {
        const __mmask16 m = (__mmask16)(dti_word(mask, e / 32) >> (e % 32));
        const __m512i v = _mm512_maskz_loadu_epi32(m, src + 4 * e);
        if (end - to >= 64)
            _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(m, v));
        else
            _mm512_mask_compressstoreu_epi32(to, m, v);
        to += 4 * dti_bits(m);
    }
}

AVX512 static void unpack(
    const uint8_t *from, size_t total, const uint8_t *mask, size_t n, uint8_t *to)
{
    const uint8_t *const end = from + 4 * total;
    for (size_t e = 0; e < n; e += 16) {
        const __mmask16 m = (__mmask16)(dti_word(mask, e / 32) >> (e % 32));
        const __m512i v = end - from >= 64 ? _mm512_maskz_expand_epi32(m, _mm512_loadu_si512(from))
                                           : _mm512_maskz_expandloadu_epi32(m, from);
        if (n - e >= 16)
            _mm512_storeu_si512(to + 4 * e, v);
        else
            _mm512_mask_storeu_epi32(to + 4 * e, (__mmask16)((1u << (n - e)) - 1), v);
        from += 4 * dti_bits(m);
    }
}

AVX512 static void columns(const uint8_t *mask, size_t n, uint8_t *to, size_t room)
{
    const uint8_t *const end = to + room;
    __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (size_t e = 0; e < n; e += 16) {
        const __mmask16 m = (__mmask16)(dti_word(mask, e / 32) >> (e % 32));
        const __m128i c = _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32(m, place));
        const size_t here = dti_bits(m);
        if (end - to >= 16)
            _mm_storeu_si128((__m128i *)(void *)to, c);
        else
            _mm_mask_storeu_epi8(to, (__mmask16)((1u << here) - 1), c);
        to += here;
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
    }
}

DT_SMALL_LOOPS(AVX512)

const dti_lanes dt_lanes_avx512 = {
    .name = "avx512",
    .scan = scan,
    .count = count,
    .pack = pack,
    .unpack = unpack,
    .columns = columns,
    .narrow = {narrow16, narrow10, narrow8},
    .widen = {widen16, widen10, widen8},
};
#else
typedef int dt_not_empty;
#endif
