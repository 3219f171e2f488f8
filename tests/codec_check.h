/* What the tests of codecs share: values worth packing, buffers with guards, and small floats told
 * without the codecs' own code. */
#ifndef DT_TESTS_CODEC_CHECK_H
#define DT_TESTS_CODEC_CHECK_H

#include <string.h>

#include "engine/base/alloc.h"
#include "memory/codec.h"
#include "memory/codecs/lanes.h"
#include "tests/check.h"

/* Elements after which codecs cut: those of zeros, and those of small floats alone. */
enum { CODEC_CHUNK = 1 << 14, CODEC_FLOAT_CHUNK = 3 << 13, CODEC_GUARD = 64, CODEC_EDGES = 40 };

/* Words in which float arithmetic and bits differ. */
extern const uint32_t codec_edges[CODEC_EDGES];

/* Random words, the same for the same arguments. */
uint32_t codec_draw(uint32_t key, uint64_t i);
/* @count words; the share @density is not zero, and every eighth of those is an edge. */
void codec_fill(uint32_t *x, size_t count, double density, uint32_t key);
/* The share that is not zero: what capacity is asked for. */
double codec_density(const uint32_t *x, size_t count);

/* A small float: bits, values a word, the largest and the smallest normal number. */
typedef struct codec_float_format {
    const char *name;
    int exponent, mantissa, per_word;
    double largest, smallest;
} codec_float_format;
extern const codec_float_format codec_formats[DT_SMALLS];
const codec_float_format *codec_format(const dt_codec *c); /* NULL: values stay as they are */
float codec_float(uint32_t bits);
uint32_t codec_bits(float f);

/* A block with CODEC_GUARD bytes on both sides of @bytes; free with dt_free. */
uint8_t *codec_guarded(size_t bytes);
void codec_assert_guards(const uint8_t *p, size_t bytes);
/* A copy of exactly n words, so that the sanitizer sees a read behind them. */
uint32_t *codec_words(const uint32_t *x, size_t n);

/* Encode into a block of exactly the capacity at @density and decode it: the same words, or rounded
 * as the format says, and no guard touched. */
void codec_round_trip(const dt_codec *c, const uint32_t *x, size_t n, double density);
void codec_for_each(void (*check)(const dt_codec *c));

#endif
