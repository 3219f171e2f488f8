/* Words of two values of bf16, as vdpbf16ps multiplies them: sums of a pair's products, in fp32. */
#ifndef DT_LAYERS_BLOCKED_PAIRS_H
#define DT_LAYERS_BLOCKED_PAIRS_H

#include "engine/base/compiler.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define DT_PAIRS __attribute__((target("avx512f,avx512bw,avx512bf16")))

/* 32 values in their order, rounded. */
DT_PAIRS static inline __m512i dti_pairs_rounded(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Of two rows the words of a column each: the first row's value low, the second's high. */
DT_PAIRS static inline __m512i dti_pairs_of(__m512 first, __m512 second)
{
    static const _Alignas(64) uint16_t order[32] = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
        7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_load_si512(order), dti_pairs_rounded(first, second));
}

/* The same of rows of bf16, of 32 columns: words of the first 16, and of the last. */
DT_PAIRS static inline void dti_pairs_join(__m512i first, __m512i second, __m512i words[2])
{
    static const _Alignas(64) uint16_t low[32] = {0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38,
        7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    static const _Alignas(64) uint16_t high[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
        22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
    words[0] = _mm512_permutex2var_epi16(first, _mm512_load_si512(low), second);
    words[1] = _mm512_permutex2var_epi16(first, _mm512_load_si512(high), second);
}

/* 16 rows of 16 words become columns: what one factor of a product wants transposed. */
DT_PAIRS static inline void dti_pairs_transpose(__m512i v[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int k = 0; k < 4; k++) {
        const __m512i a = _mm512_shuffle_i32x4(v[k], v[4 + k], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(v[8 + k], v[12 + k], 0x88);
        const __m512i c = _mm512_shuffle_i32x4(v[k], v[4 + k], 0xDD);
        const __m512i d = _mm512_shuffle_i32x4(v[8 + k], v[12 + k], 0xDD);
        t[k] = _mm512_shuffle_i32x4(a, b, 0x88);
        t[4 + k] = _mm512_shuffle_i32x4(c, d, 0x88);
        t[8 + k] = _mm512_shuffle_i32x4(a, b, 0xDD);
        t[12 + k] = _mm512_shuffle_i32x4(c, d, 0xDD);
    }
    for (int i = 0; i < 16; i++)
        v[i] = t[i];
}
#endif

#endif
