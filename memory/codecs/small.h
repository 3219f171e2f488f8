/* The arithmetic of small floats, on the bits alone, so that no mode of the processor matters. Each
 * instruction set compiles it for itself.
 *
 * Exponents are biased as IEEE 754 does it, 15 for five bits and 7 for four, and an exponent of all
 * ones is kept for infinities and NaN. A finite number is rounded to nearest, ties to even; what is
 * then above the largest finite number becomes that number, what is below the smallest normal one
 * becomes zero of the same sign. Infinities stay, and every NaN becomes the quiet one of its sign,
 * so that a run which has gone wrong does not look well. */
#ifndef DT_MEMORY_CODECS_SMALL_H
#define DT_MEMORY_CODECS_SMALL_H

#include "memory/codecs/lanes.h"

#define DT_SMALL_INLINE static inline __attribute__((always_inline))

typedef struct dt_small_format {
    uint32_t exponent, mantissa; /* bits */
} dt_small_format;

DT_SMALL_INLINE uint32_t dt_small_bits(dt_small_format f)
{
    return 1 + f.exponent + f.mantissa;
}

DT_SMALL_INLINE uint32_t dt_small_per_word(dt_small_format f)
{
    return 32 / dt_small_bits(f);
}

/* Difference of the two biases, at the place of the small exponent. */
DT_SMALL_INLINE uint32_t dt_small_rebias(dt_small_format f)
{
    return (128 - (1u << (f.exponent - 1))) << f.mantissa;
}

DT_SMALL_INLINE uint32_t dt_small_of(uint32_t w, dt_small_format f)
{
    const uint32_t shift = 23 - f.mantissa, magnitude = w & 0x7FFFFFFFu;
    const uint32_t infinite = ((1u << f.exponent) - 1) << f.mantissa, smallest = 1u << f.mantissa;
    const uint32_t odd = magnitude >> shift & 1;
    const uint32_t rounded = (magnitude + (1u << (shift - 1)) - 1 + odd) >> shift;
    const uint32_t code = rounded - dt_small_rebias(f);
    uint32_t c = rounded < dt_small_rebias(f) + smallest ? 0 : code;
    c = c >= infinite ? infinite - 1 : c;
    c = magnitude == 0x7F800000u ? infinite : c;
    c = magnitude > 0x7F800000u ? infinite | smallest >> 1 : c;
    return c | w >> 31 << (f.exponent + f.mantissa);
}

DT_SMALL_INLINE uint32_t dt_small_to(uint32_t c, dt_small_format f)
{
    const uint32_t shift = 23 - f.mantissa, top = f.exponent + f.mantissa;
    const uint32_t infinite = ((1u << f.exponent) - 1) << f.mantissa, smallest = 1u << f.mantissa;
    const uint32_t magnitude = c & ((1u << top) - 1);
    uint32_t w = (magnitude + dt_small_rebias(f)) << shift;
    w = magnitude < smallest ? 0 : w;
    w = magnitude >= infinite ? 0x7F800000u | (magnitude - infinite) << shift : w;
    return w | (c >> top & 1) << 31;
}

/* Words whole, then the last one, whose idle fields are 0. */
DT_SMALL_INLINE void dt_small_narrow(const uint8_t *src, size_t n, uint8_t *to, dt_small_format f)
{
    const uint32_t per = dt_small_per_word(f), bits = dt_small_bits(f);
    const size_t whole = n / per;
    for (size_t i = 0; i < whole; i++) {
        uint32_t w = 0;
        for (uint32_t k = 0; k < per; k++)
            w |= dt_small_of(dt_word(src, i * per + k), f) << (k * bits);
        dt_set_word(to, i, w);
    }
    uint32_t last = 0;
    for (size_t e = whole * per; e < n; e++)
        last |= dt_small_of(dt_word(src, e), f) << ((uint32_t)(e % per) * bits);
    if (whole * per < n)
        dt_set_word(to, whole, last);
}

DT_SMALL_INLINE void dt_small_widen(const uint8_t *from, size_t n, uint8_t *to, dt_small_format f)
{
    const uint32_t per = dt_small_per_word(f), bits = dt_small_bits(f);
    const size_t whole = n / per;
    for (size_t i = 0; i < whole; i++) {
        const uint32_t w = dt_word(from, i);
        for (uint32_t k = 0; k < per; k++)
            dt_set_word(to, i * per + k, dt_small_to(w >> (k * bits) & ((1u << bits) - 1), f));
    }
    for (size_t e = whole * per; e < n; e++) {
        const uint32_t code = dt_word(from, whole) >> ((uint32_t)(e % per) * bits);
        dt_set_word(to, e, dt_small_to(code & ((1u << bits) - 1), f));
    }
}

/* The six loops of one instruction set. */
#define DT_SMALL_LOOPS(target)                                                                     \
    target static void narrow16(const uint8_t *src, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dt_small_narrow(src, n, to, (dt_small_format){5, 10});                                     \
    }                                                                                              \
    target static void narrow10(const uint8_t *src, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dt_small_narrow(src, n, to, (dt_small_format){5, 4});                                      \
    }                                                                                              \
    target static void narrow8(const uint8_t *src, size_t n, uint8_t *to)                          \
    {                                                                                              \
        dt_small_narrow(src, n, to, (dt_small_format){4, 3});                                      \
    }                                                                                              \
    target static void widen16(const uint8_t *from, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dt_small_widen(from, n, to, (dt_small_format){5, 10});                                     \
    }                                                                                              \
    target static void widen10(const uint8_t *from, size_t n, uint8_t *to)                         \
    {                                                                                              \
        dt_small_widen(from, n, to, (dt_small_format){5, 4});                                      \
    }                                                                                              \
    target static void widen8(const uint8_t *from, size_t n, uint8_t *to)                          \
    {                                                                                              \
        dt_small_widen(from, n, to, (dt_small_format){4, 3});                                      \
    }

#endif
