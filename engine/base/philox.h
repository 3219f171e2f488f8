/* Philox4x32-10 (Salmon et al., SC 2011): random numbers from a counter, so that any of them can be
 * drawn again, in any order, on any device. */
#ifndef DT_ENGINE_BASE_PHILOX_H
#define DT_ENGINE_BASE_PHILOX_H

#include "engine/base/compiler.h"

typedef struct dt_u32x4 {
    uint32_t v[4];
} dt_u32x4;

DT_BOTH static inline dt_u32x4 dt_philox(dt_u32x4 ctr, uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * ctr.v[0];
        const uint64_t b = (uint64_t)0xCD9E8D57u * ctr.v[2];
        const dt_u32x4 next = {{(uint32_t)(b >> 32) ^ ctr.v[1] ^ k0, (uint32_t)b,
            (uint32_t)(a >> 32) ^ ctr.v[3] ^ k1, (uint32_t)a}};
        ctr = next;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return ctr;
}

/* What a draw is for; part of its key, so that no two uses share numbers. */
typedef enum dt_purpose {
    DT_RANDOM_INIT = 1,
    DT_RANDOM_DROPOUT,
    DT_RANDOM_SHUFFLE,
    DT_RANDOM_AUGMENT,
    DT_RANDOM_DATA,
    DT_RANDOM_TEST,
    DT_RANDOM_GENERATE,
    DT_RANDOM_ROUND
} dt_purpose;

/* The first key. The high half of @b, which may be a step, has no room in the counter; multiplied,
 * it is not that of another seed that somebody is likely to take. */
DT_BOTH static inline uint32_t dti_random_key(uint64_t seed, uint64_t b)
{
    return (uint32_t)seed ^ (uint32_t)(b >> 32) * 0x9E3779B9u;
}

/* Four numbers keyed by seed, purpose and three coordinates. */
DT_BOTH static inline dt_u32x4 dt_random(
    uint64_t seed, dt_purpose purpose, uint32_t a, uint64_t b, uint64_t c)
{
    const dt_u32x4 ctr = {{(uint32_t)c, (uint32_t)(c >> 32), (uint32_t)b, a}};
    return dt_philox(
        ctr, dti_random_key(seed, b), (uint32_t)(seed >> 32) ^ ((uint32_t)purpose << 24));
}

/* [0, 1), 24 bits */
DT_BOTH static inline float dt_unit(uint32_t u)
{
    return (float)(u >> 8) * 0x1p-24f;
}

#endif
