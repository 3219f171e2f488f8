/* Words of 32 bits among bytes that need not be aligned. */
#ifndef DT_MEMORY_CODECS_WORDS_H
#define DT_MEMORY_CODECS_WORDS_H

#include <string.h>

#include "engine/base/compiler.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed bytes are little-endian");

static inline uint32_t dti_word(const uint8_t *at, size_t i)
{
    uint32_t w;
    memcpy(&w, at + 4 * i, 4);
    return w;
}

static inline void dti_set_word(uint8_t *at, size_t i, uint32_t w)
{
    memcpy(at + 4 * i, &w, 4);
}

static inline size_t dti_bits(uint32_t w)
{
    return (size_t)__builtin_popcount(w);
}

#endif
