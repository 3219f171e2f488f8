/* The inner loops of codecs, for one thread, written once for each instruction set. All give the
 * same bytes; the plain one says what those are. Loops count in words, of which the last may be
 * partial, and touch no byte outside their buffers. */
#ifndef DT_MEMORY_CODECS_LANES_H
#define DT_MEMORY_CODECS_LANES_H

#include "memory/codecs/words.h"

/* The small floats: 1 sign bit, then the exponent, then the mantissa; 32 / bits values a word,
 * element 0 lowest. */
typedef enum dti_small { DTI_SMALL_16, DTI_SMALL_10, DTI_SMALL_8, DTI_SMALLS } dti_small;

/**
 * struct dti_lanes - one instruction set.
 * @scan:    bit e % 32 of mask word e / 32 says whether element e of @n is not zero; bits past the
 *           last are 0. Returns how many are not
 * @count:   bits set in @words mask words
 * @pack:    the elements whose bits are set, one after another; @total as scan returned
 * @unpack:  the inverse: @total packed values, one a set bit, and zeros between them
 * @columns: for each set bit of at most 256 its place, a byte each; bytes up to @room may be
 * written
 * @narrow:  @n floats to small ones, rounded to nearest, ties to even
 * @widen:   the inverse
 */
typedef struct dti_lanes {
    const char *name;
    size_t (*scan)(const uint8_t *src, size_t n, uint8_t *mask);
    size_t (*count)(const uint8_t *mask, size_t words);
    void (*pack)(const uint8_t *src, const uint8_t *mask, size_t n, uint8_t *to, size_t total);
    void (*unpack)(const uint8_t *from, size_t total, const uint8_t *mask, size_t n, uint8_t *to);
    void (*columns)(const uint8_t *mask, size_t n, uint8_t *to, size_t room);
    void (*narrow[DTI_SMALLS])(const uint8_t *src, size_t n, uint8_t *to);
    void (*widen[DTI_SMALLS])(const uint8_t *from, size_t n, uint8_t *to);
} dti_lanes;

/* Those that this processor runs, the plain one first, the best last. */
enum { DTI_LANES_MOST = 3 };
size_t dti_lanes_all(const dti_lanes *out[DTI_LANES_MOST]);
const dti_lanes *dti_lanes_best(void);

extern const dti_lanes dt_lanes_plain;
#if defined(__x86_64__)
extern const dti_lanes dt_lanes_avx2, dt_lanes_avx512;
#endif

#endif
