/* Products of small matrices, by instruction set. */
#include "layers/blocked/tile.h"
#include "engine/base/isa.h"

#include <string.h>

enum { LINE = 16 }; /* floats of a cache line */

/* Without any instruction set: four floats at a time, as every compiler of ours can. */
typedef float four __attribute__((vector_size(16)));

static inline four load_four(const float *p)
{
    four v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store_four(float *p, four v)
{
    memcpy(p, &v, sizeof v);
}

#define VEC four
#define WIDTH 4
#define ZERO ((four){0, 0, 0, 0})
#define LOAD load_four
#define STORE store_four
#define SPREAD(f) ((four){(f), (f), (f), (f)})
#define FMA(a, b, c) ((a) * (b) + (c))
#define TARGET
#define NAME(f) f##_plain
#define MOST 2
#define ROWS 4
#include "layers/blocked/tile_kernel.inc"

#if defined(__x86_64__)
#include <immintrin.h>

#define VEC __m256
#define WIDTH 8
#define ZERO _mm256_setzero_ps()
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define SPREAD _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(f) f##_avx2
#define MOST 2
#define ROWS 6
#include "layers/blocked/tile_kernel.inc"

#define VEC __m512
#define WIDTH 16
#define ZERO _mm512_setzero_ps()
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define SPREAD _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define TARGET __attribute__((target("avx512f")))
#define NAME(f) f##_avx512
#define MOST 4
#define ROWS 4
#include "layers/blocked/tile_kernel.inc"
#endif

dti_tile_fn *dti_tile_best(void)
{
#if defined(__x86_64__)
    if (dt_isa_allowed(DT_ISA_AVX512) && __builtin_cpu_supports("avx512f"))
        return product_avx512;
    if (dt_isa_allowed(DT_ISA_AVX2) && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma"))
        return product_avx2;
#endif
    return product_plain;
}

dti_tile_copies dti_tile_copies_best(void)
{
#if defined(__x86_64__)
    if (dti_tile_best() == product_avx512)
        return (dti_tile_copies){.panel = 64};
    if (dti_tile_best() == product_avx2)
        return (dti_tile_copies){.panel = 16, .strip = 12};
#endif
    return (dti_tile_copies){.panel = 32};
}
