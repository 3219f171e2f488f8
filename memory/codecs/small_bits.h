/* The arithmetic of small floats, on the bits alone, so that no mode of the processor matters; the
 * same on CUDA devices.
 *
 * Exponents are biased as IEEE 754 does it, 15 for five bits and 7 for four, and an exponent of all
 * ones is kept for infinities and NaN. A finite number is rounded to nearest, ties to even; what is
 * then above the largest finite number becomes that number, what is below the smallest normal one
 * becomes zero of the same sign. Infinities stay, and every NaN becomes the quiet one of its sign,
 * so that a run which has gone wrong does not look well. */
#ifndef DT_MEMORY_CODECS_SMALL_BITS_H
#define DT_MEMORY_CODECS_SMALL_BITS_H

#include <stdint.h>

#ifdef __CUDACC__
#define DT_SMALL_INLINE static __host__ __device__ __forceinline__
#else
#define DT_SMALL_INLINE static inline __attribute__((always_inline))
#endif

typedef struct dti_small_format {
    uint32_t exponent, mantissa; /* bits */
} dti_small_format;

DT_SMALL_INLINE uint32_t dti_small_bits(dti_small_format f)
{
    return 1 + f.exponent + f.mantissa;
}

DT_SMALL_INLINE uint32_t dti_small_per_word(dti_small_format f)
{
    return 32 / dti_small_bits(f);
}

/* Difference of the two biases, at the place of the small exponent. */
DT_SMALL_INLINE uint32_t dti_small_rebias(dti_small_format f)
{
    return (128 - (1u << (f.exponent - 1))) << f.mantissa;
}

DT_SMALL_INLINE uint32_t dti_small_of(uint32_t w, dti_small_format f)
{
    const uint32_t shift = 23 - f.mantissa, magnitude = w & 0x7FFFFFFFu;
    const uint32_t infinite = ((1u << f.exponent) - 1) << f.mantissa, smallest = 1u << f.mantissa;
    const uint32_t odd = magnitude >> shift & 1;
    const uint32_t rounded = (magnitude + (1u << (shift - 1)) - 1 + odd) >> shift;
    const uint32_t code = rounded - dti_small_rebias(f);
    uint32_t c = rounded < dti_small_rebias(f) + smallest ? 0 : code;
    c = c >= infinite ? infinite - 1 : c;
    c = magnitude == 0x7F800000u ? infinite : c;
    c = magnitude > 0x7F800000u ? infinite | smallest >> 1 : c;
    return c | w >> 31 << (f.exponent + f.mantissa);
}

DT_SMALL_INLINE uint32_t dti_small_to(uint32_t c, dti_small_format f)
{
    const uint32_t shift = 23 - f.mantissa, top = f.exponent + f.mantissa;
    const uint32_t infinite = ((1u << f.exponent) - 1) << f.mantissa, smallest = 1u << f.mantissa;
    const uint32_t magnitude = c & ((1u << top) - 1);
    uint32_t w = (magnitude + dti_small_rebias(f)) << shift;
    w = magnitude < smallest ? 0 : w;
    w = magnitude >= infinite ? 0x7F800000u | (magnitude - infinite) << shift : w;
    return w | (c >> top & 1) << 31;
}

#endif
