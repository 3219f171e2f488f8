/* Blocks of optimizer state between 8 bits and fp32. */
#include "engine/state_codes.h"

DT_CLONES static void values_of(
    const dt_state_map *m, const uint8_t *code, float scale, float *to, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = m->share[code[i]] * scale;
}

void dt_state_unpack(const dt_state_map *m, const uint8_t *code, float scale, float *to, int64_t n)
{
    values_of(m, code, scale, to, n);
}

/* A NaN counts for nothing: the weight that it made is one, too. */
DT_CLONES static float scale_of(const float *v, int64_t n, bool sign)
{
    float high = 0.0f, low = 0.0f;
#pragma omp simd reduction(max : high, low)
    for (int64_t i = 0; i < n; i++) {
        high = v[i] > high ? v[i] : high;
        low = -v[i] > low ? -v[i] : low;
    }
    return dt_state_scale(high, low, sign);
}

/* The map is a copy, as codes are bytes, which might lie over anything that is read through a
 * pointer. */
static inline __attribute__((always_inline)) void codes(
    const dt_state_map m, bool sign, const float *v, float whole, uint8_t *code, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        code[i] = dt_state_code_of(&m, sign, v[i] / whole);
}

DT_CLONES static void codes_of(
    const dt_state_map *m, const float *v, float whole, uint8_t *code, int64_t n)
{
    if (m->sign)
        codes(*m, true, v, whole, code, n);
    else
        codes(*m, false, v, whole, code, n);
}

float dt_state_pack(const dt_state_map *m, const float *from, uint8_t *code, int64_t n)
{
    const float scale = scale_of(from, n, m->sign);
    codes_of(m, from, dt_state_whole(scale), code, n);
    return scale;
}
