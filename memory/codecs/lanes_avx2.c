/* AVX2: eight elements at once. There is no instruction that compresses, so bytes are first told
 * where to go by BMI2: a mask bit becomes a byte of ones, which picks bytes of 0 to 7. */
#include "memory/codecs/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "memory/codecs/small_loops.h"

#define AVX2 __attribute__((target("avx2,bmi2,popcnt")))

enum { LANES = 8 };

static const uint64_t ones = 0x0101010101010101u, places = 0x0706050403020100u;

AVX2 static size_t scan(const uint8_t *src, size_t n, uint8_t *mask)
{
    const __m256i zero = _mm256_setzero_si256();
    size_t total = 0, e = 0;
    for (; e + 32 <= n; e += 32) {
        uint32_t m = 0;
        for (unsigned k = 0; k < 4; k++) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + 4 * e) + k);
            const __m256 none = _mm256_castsi256_ps(_mm256_cmpeq_epi32(v, zero));
            m |= (uint32_t)_mm256_movemask_ps(none) << (LANES * k);
        }
        dti_set_word(mask, e / 32, ~m);
        total += dti_bits(~m);
    }
    return total + (e < n ? dt_lanes_plain.scan(src + 4 * e, n - e, mask + e / 8) : 0);
}

/* The lanes that the first n of eight name. */
AVX2 static __m256i first(size_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

AVX2 static __m256i lanes_of(uint64_t bytes)
{
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

AVX2 static __m256i load(const uint8_t *at, size_t n)
{
    if (n >= LANES)
        return _mm256_loadu_si256((const __m256i *)(const void *)at);
    return _mm256_maskload_epi32((const int *)(const void *)at, first(n));
}

AVX2 static void store(uint8_t *at, size_t n, __m256i v)
{
    if (n >= LANES)
        _mm256_storeu_si256((__m256i *)(void *)at, v);
    else
        _mm256_maskstore_epi32((int *)(void *)at, first(n), v);
}

AVX2 static size_t count(const uint8_t *mask, size_t words)
{
    size_t total = 0;
    for (size_t i = 0; i < words; i++)
        total += dti_bits(dti_word(mask, i));
    return total;
}

AVX2 static void pack(const uint8_t *src, const uint8_t *mask, size_t n, uint8_t *to, size_t total)
{
    for (size_t e = 0; e < n; e += LANES) {
        const uint64_t set = _pdep_u64(mask[e / LANES], ones) * 0xFF;
        const size_t here = dti_bits(mask[e / LANES]);
        const __m256i from = lanes_of(_pext_u64(places, set));
        store(to, total, _mm256_permutevar8x32_epi32(load(src + 4 * e, n - e), from));
        to += 4 * here;
        total -= here;
    }
}

AVX2 static void unpack(
    const uint8_t *from, size_t total, const uint8_t *mask, size_t n, uint8_t *to)
{
    for (size_t e = 0; e < n; e += LANES) {
        const uint64_t set = _pdep_u64(mask[e / LANES], ones) * 0xFF;
        const size_t here = dti_bits(mask[e / LANES]);
        const __m256i v =
            _mm256_permutevar8x32_epi32(load(from, total), lanes_of(_pdep_u64(places, set)));
        const __m256i on = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)set));
        store(to + 4 * e, n - e, _mm256_and_si256(v, on));
        from += 4 * here;
        total -= here;
    }
}

AVX2 static void columns(const uint8_t *mask, size_t n, uint8_t *to, size_t room)
{
    for (size_t e = 0; e < n; e += LANES) {
        const uint64_t set = _pdep_u64(mask[e / LANES], ones) * 0xFF;
        const uint64_t bytes = _pext_u64(places + e * ones, set);
        const size_t here = dti_bits(mask[e / LANES]);
        memcpy(to, &bytes, room >= LANES ? LANES : here);
        to += here;
        room -= here;
    }
}

DT_SMALL_LOOPS(AVX2)

const dti_lanes dt_lanes_avx2 = {
    .name = "avx2",
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
