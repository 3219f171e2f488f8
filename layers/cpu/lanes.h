/* Vectors of floats for kernels that are written once and compiled for several instruction sets, by
 * layers/cpu/lanes.inc. What is written to bf16 was computed by a thread that flushes denormals
 * (see engine/base/cpu.h), as the processor's own rounding does, so all sets give the same bits. */
#ifndef DT_LAYERS_CPU_LANES_H
#define DT_LAYERS_CPU_LANES_H

#include "engine/base/isa.h"
#include "layers/value.h"

/* Four at a time, as every compiler of ours can without any instruction set. */
typedef float dt_four __attribute__((vector_size(16)));
typedef int32_t dt_four_bits __attribute__((vector_size(16)));

DT_INLINE dt_four dti_four_read(const void *p, dt_dtype t)
{
    dt_four v;
    if (t == DT_BF16)
        v = (dt_four){dti_load(p, 0, t), dti_load(p, 1, t), dti_load(p, 2, t), dti_load(p, 3, t)};
    else
        memcpy(&v, p, sizeof v);
    return v;
}

DT_INLINE void dti_four_write(void *p, dt_dtype t, dt_four v)
{
    if (t != DT_BF16)
        memcpy(p, &v, sizeof v);
    else
        for (int i = 0; i < 4; i++)
            dti_store(p, i, t, v[i]);
}

DT_INLINE dt_four dti_four_pick(dt_four_bits test, dt_four yes, dt_four no)
{
    return (dt_four)(((dt_four_bits)yes & test) | ((dt_four_bits)no & ~test));
}

/* The best of the sets that kernels are compiled for; the first has no instruction set. */
enum { DTI_LANES_PLAIN, DTI_LANES_AVX2, DTI_LANES_AVX512, DTI_LANES_BF16, DTI_LANES };
static inline int dti_lane_set(void)
{
#if defined(__x86_64__)
    if (dt_isa_allowed(DT_ISA_AVX512_BF16) && __builtin_cpu_supports("avx512bf16"))
        return DTI_LANES_BF16;
    if (dt_isa_allowed(DT_ISA_AVX512) && __builtin_cpu_supports("avx512f"))
        return DTI_LANES_AVX512;
    if (dt_isa_allowed(DT_ISA_AVX2) && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma"))
        return DTI_LANES_AVX2;
#endif
    return DTI_LANES_PLAIN;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define DT_AVX2 __attribute__((target("avx2")))
#define DT_AVX512 __attribute__((target("avx512f")))
#define DT_AVX512_BF16 __attribute__((target("avx512f,avx512bf16")))

DT_AVX2 DT_INLINE __m256 dti_avx2_read(const void *p, dt_dtype t)
{
    if (t != DT_BF16)
        return _mm256_loadu_ps(p);
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* As dt_bf16_from_float(). */
DT_AVX2 DT_INLINE void dti_avx2_write(void *p, dt_dtype t, __m256 v)
{
    if (t != DT_BF16) {
        _mm256_storeu_ps(p, v);
        return;
    }
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i nan = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i both =
        _mm256_srli_epi32(_mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(is_nan)), 16);
    const __m256i pairs = _mm256_packus_epi32(both, both); /* of each half on its own */
    _mm_storeu_si128(p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08)));
}

DT_AVX512 DT_INLINE __m512 dti_avx512_read(const void *p, dt_dtype t)
{
    if (t != DT_BF16)
        return _mm512_loadu_ps(p);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* As dt_bf16_from_float(). */
DT_AVX512 DT_INLINE __m256i dti_avx512_round(__m512 v)
{
    const __m512i u = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i both = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(both, 16));
}

DT_AVX512 DT_INLINE void dti_avx512_write(void *p, dt_dtype t, __m512 v)
{
    if (t == DT_BF16)
        _mm256_storeu_si256(p, dti_avx512_round(v));
    else
        _mm512_storeu_ps(p, v);
}

DT_AVX512_BF16 DT_INLINE void dti_avx512_bf16_write(void *p, dt_dtype t, __m512 v)
{
    if (t != DT_BF16) {
        _mm512_storeu_ps(p, v);
        return;
    }
    const __m256bh rounded = _mm512_cvtneps_pbh(v);
    memcpy(p, &rounded, sizeof rounded);
}
#endif

#endif
