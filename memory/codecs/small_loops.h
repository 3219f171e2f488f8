/* Loops over small floats; memory/codecs/small_bits.h says how they are rounded. Each instruction
 * set compiles them for itself. */
#ifndef DT_MEMORY_CODECS_SMALL_LOOPS_H
#define DT_MEMORY_CODECS_SMALL_LOOPS_H

#include "memory/codecs/small_bits.h"
#include "memory/codecs/words.h"

/* Words whole, then the last one, whose idle fields are 0. */
DT_SMALL_INLINE void dti_small_narrow(const uint8_t *src, size_t n, uint8_t *to, dti_small_format f)
{
    const uint32_t per = dti_small_per_word(f), bits = dti_small_bits(f);
    const size_t whole = n / per;
    for (size_t i = 0; i < whole; i++) {
        uint32_t w = 0;
        for (uint32_t k = 0; k < per; k++)
            w |= dti_small_of(dti_word(src, i * per + k), f) << (k * bits);
        dti_set_word(to, i, w);
    }
    uint32_t last = 0;
    for (size_t e = whole * per; e < n; e++)
        last |= dti_small_of(dti_word(src, e), f) << ((uint32_t)(e % per) * bits);
    if (whole * per < n)
        dti_set_word(to, whole, last);
}

DT_SMALL_INLINE void dti_small_widen(const uint8_t *from, size_t n, uint8_t *to, dti_small_format f)
{
    const uint32_t per = dti_small_per_word(f), bits = dti_small_bits(f);
    const size_t whole = n / per;
    for (size_t i = 0; i < whole; i++) {
        const uint32_t w = dti_word(from, i);
        for (uint32_t k = 0; k < per; k++)
            dti_set_word(to, i * per + k, dti_small_to(w >> (k * bits) & ((1u << bits) - 1), f));
    }
    for (size_t e = whole * per; e < n; e++) {
        const uint32_t code = dti_word(from, whole) >> ((uint32_t)(e % per) * bits);
        dti_set_word(to, e, dti_small_to(code & ((1u << bits) - 1), f));
    }
}

/* The six loops of one instruction set. */
#define DT_SMALL_LOOPS(target)                                                                     \
    target static void narrow16(const uint8_t *src, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dti_small_narrow(src, n, to, (dti_small_format){5, 10});                                   \
    }                                                                                              \
    target static void narrow10(const uint8_t *src, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dti_small_narrow(src, n, to, (dti_small_format){5, 4});                                    \
    }                                                                                              \
    target static void narrow8(const uint8_t *src, size_t n, uint8_t *to)                          \
    {                                                                                              \
        dti_small_narrow(src, n, to, (dti_small_format){4, 3});                                    \
    }                                                                                              \
    target static void widen16(const uint8_t *from, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dti_small_widen(from, n, to, (dti_small_format){5, 10});                                   \
    }                                                                                              \
    target static void widen10(const uint8_t *from, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dti_small_widen(from, n, to, (dti_small_format){5, 4});                                    \
    }                                                                                              \
    target static void widen8(const uint8_t *from, size_t n, uint8_t *to)                          \
    {                                                                                              \
        dti_small_widen(from, n, to, (dti_small_format){4, 3});                                    \
    }

#endif
