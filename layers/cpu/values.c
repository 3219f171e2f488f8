/* Rows of values from bf16 and to it, by the processor's own rounding where it has one. */
#include "layers/cpu/values.h"

#include "layers/cpu/lanes.h"

enum { LINE = 32, AHEAD = 1024 }; /* values of a line of the cache; read so far ahead */

DT_CLONES void dti_values_widen(const dt_bf16 *from, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += LINE)
        __builtin_prefetch(from + i + AHEAD);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = dt_bf16_to_float(from[i]);
}

DT_CLONES static void round_plain(const float *from, dt_bf16 *to, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = dt_bf16_from_float(from[i]);
}

#if defined(__x86_64__)
DT_AVX512_BF16 static int64_t round_vectors(const float *from, dt_bf16 *to, int64_t n)
{
    enum { LANES = 16 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        dti_avx512_bf16_write(to + i, DT_BF16, _mm512_loadu_ps(from + i));
    return i;
}
#endif

void dti_values_round(const float *from, dt_bf16 *to, int64_t n)
{
    int64_t done = 0;
#if defined(__x86_64__)
    if (dti_lane_set() == DTI_LANES_BF16)
        done = round_vectors(from, to, n);
#endif
    round_plain(from + done, to + done, n - done);
}
