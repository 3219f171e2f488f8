/* Mixed bits, for hashes and for numbers that are drawn where no result depends on them: SplitMix64
 * (Steele, Lea and Flood, OOPSLA 2014); and FNV-1a, for texts. The same on every machine. */
#ifndef DT_ENGINE_BASE_MIX_H
#define DT_ENGINE_BASE_MIX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DT_MIX_STEP UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t dti_mix(uint64_t z)
{
    z += DT_MIX_STEP;
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* The next number of a generator that is its state. */
static inline uint64_t dt_mix_next(uint64_t *state)
{
    const uint64_t z = *state;
    *state += DT_MIX_STEP;
    return dti_mix(z);
}

/* FNV-1a (Fowler, Noll and Vo): bytes, or a word at a time, added to a hash, which begins as
 * DT_FNV. */
#define DT_FNV UINT64_C(0xCBF29CE484222325)
static inline uint64_t dt_fnv_word(uint64_t h, uint64_t word)
{
    return (h ^ word) * UINT64_C(0x100000001B3);
}
static inline uint64_t dt_fnv_add(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = dt_fnv_word(h, ((const unsigned char *)bytes)[i]);
    return h;
}

/* Where in a table of @room places a key is looked for first; it consists of words of 8 bytes. */
static inline size_t dt_mix_place(const void *key, size_t bytes, size_t room)
{
    uint64_t h = 0;
    for (size_t at = 0; at < bytes; at += sizeof h) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)key + at, sizeof word);
        h = (h ^ word) * DT_MIX_STEP ^ h >> 29;
    }
    return (size_t)(h >> 32) % room;
}

#endif
