/* Random numbers of many counters in a row, by instruction set. */
#include "engine/base/draw.h"
#include "engine/base/isa.h"

#include <string.h>

static void draw_plain(uint64_t seed, dt_purpose purpose, uint32_t a, uint64_t b, uint64_t counter,
    uint32_t *u, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const dt_u32x4 r = dt_random(seed, purpose, a, b, counter + (uint64_t)i);
        memcpy(u + 4 * i, r.v, sizeof r.v);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* ZIP_LOW of two vectors takes the even lanes of both, so those hold the first half of the
 * counters. */
#define VEC __m256i
#define WIDTH 4
#define ORDER                                                                                      \
    {                                                                                              \
        0, 2, 1, 3                                                                                 \
    }
#define SPREAD(x) _mm256_set1_epi32((int)(x))
#define SPREAD64(x) _mm256_set1_epi64x((long long)(x))
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define ADD _mm256_add_epi64
#define MUL _mm256_mul_epu32
#define SHIFT_DOWN(v) _mm256_srli_epi64(v, 32)
#define SHIFT_UP(v) _mm256_slli_epi64(v, 32)
#define XOR3(a, b, c) _mm256_xor_si256(_mm256_xor_si256(a, b), c)
#define LOW_OR(low, high) _mm256_blend_epi32(low, high, 0xAA)
#define ZIP_LOW _mm256_unpacklo_epi64
#define ZIP_HIGH _mm256_unpackhi_epi64
#define TARGET __attribute__((target("avx2")))
#define NAME(f) f##_avx2
#include "engine/base/draw_kernel.inc"

#define VEC __m512i
#define WIDTH 8
#define ORDER                                                                                      \
    {                                                                                              \
        0, 4, 1, 5, 2, 6, 3, 7                                                                     \
    }
#define SPREAD(x) _mm512_set1_epi32((int)(x))
#define SPREAD64(x) _mm512_set1_epi64((long long)(x))
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define ADD _mm512_add_epi64
#define MUL _mm512_mul_epu32
#define SHIFT_DOWN(v) _mm512_srli_epi64(v, 32)
#define SHIFT_UP(v) _mm512_slli_epi64(v, 32)
#define XOR3(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0x96)
#define LOW_OR(low, high) _mm512_mask_blend_epi32(0xAAAA, low, high)
#define ZIP_LOW _mm512_unpacklo_epi64
#define ZIP_HIGH _mm512_unpackhi_epi64
#define TARGET __attribute__((target("avx512f")))
#define NAME(f) f##_avx512
#include "engine/base/draw_kernel.inc"
#endif

dt_draw_fn *dt_draw_best(void)
{
#if defined(__x86_64__)
    if (dt_isa_allowed(DT_ISA_AVX512) && __builtin_cpu_supports("avx512f"))
        return draw_avx512;
    if (dt_isa_allowed(DT_ISA_AVX2) && __builtin_cpu_supports("avx2"))
        return draw_avx2;
#endif
    return draw_plain;
}
