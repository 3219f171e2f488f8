/* The arithmetic of quantized groups, the same on CUDA devices: a group of values is kept as whole
 * numbers of b bits, as ActNN keeps them (Chen et al., ICML 2021, section 4.1). 2^b levels lie
 * between its least value and its greatest, and a value between two of them becomes the upper one
 * with the probability of its distance from the lower one. So what is read again is the value in
 * the mean.
 *
 * A group's head, a word of 32 bits, is the lowest level (the lower 16 bits) and the distance of
 * two levels (the upper), both in bf16. Neither is rounded to nearest: the one goes down and the
 * other up, so that no value lies outside the levels, where it would be cut off, and the mean with
 * it.
 *
 * - Where all words of a group are the same, the distance is zero, the lower 16 bits are the upper
 *   half of that word, and its lower half stands where codes begin: they come back as they are.
 * - Any other group with NaN, an infinity, or a value of 2^126 or more comes back as NaN, all of
 *   it, so that a run which has gone wrong does not look well.
 * - What is smaller than 2^-100 counts as zero. So no result below goes by how denormal numbers are
 *   treated, which differs between threads and devices, nor by whether a product and the sum behind
 *   it are fused, as the product is exact. */
#ifndef DT_MEMORY_CODECS_QUANTIZE_BITS_H
#define DT_MEMORY_CODECS_QUANTIZE_BITS_H

#include <string.h>

#include "engine/base/philox.h"

#define DT_QUANTIZE_INLINE DT_BOTH static inline __attribute__((always_inline))

enum { DTI_GROUP = 256 }; /* values */

/* What a group becomes. @head: its word; @from @step: the same as floats; where @step is 0, all
 * values are @flat */
typedef struct dti_group_levels {
    uint32_t head, flat;
    float from, step;
} dti_group_levels;

/* What a group holds. @first: its first word; @differs: bits in which another differs from that;
 * @least @most: of dti_quantize_order; @bad: a value is no finite number */
typedef struct dti_group_scan {
    uint32_t first, differs;
    int32_t least, most;
    bool bad;
} dti_group_scan;

DT_QUANTIZE_INLINE float dti_quantize_float(uint32_t w)
{
    float f;
    memcpy(&f, &w, sizeof f);
    return f;
}

DT_QUANTIZE_INLINE uint32_t dti_quantize_word(float f)
{
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    return w;
}

/* The value that counts for @w; zeros have no sign. */
DT_QUANTIZE_INLINE uint32_t dti_quantize_seen(uint32_t w)
{
    return (w & 0x7FFFFFFFu) < 0x0D800000u ? 0 : w; /* 2^-100 */
}

DT_QUANTIZE_INLINE bool dti_quantize_bad(uint32_t w)
{
    return (w & 0x7FFFFFFFu) >= 0x7F800000u;
}

/* Whole numbers in the order of the floats; and back, which is the same. */
DT_QUANTIZE_INLINE int32_t dti_quantize_order(uint32_t w)
{
    return (int32_t)(w ^ (w >> 31 != 0 ? 0x7FFFFFFFu : 0));
}

DT_QUANTIZE_INLINE float dti_quantize_ordered(int32_t order)
{
    return dti_quantize_float((uint32_t)dti_quantize_order((uint32_t)order));
}

/* Bytes of a group of @n values; and of a sample: whole groups, and what is left. */
DT_QUANTIZE_INLINE size_t dti_group_bytes(size_t n, uint32_t bits)
{
    return 4 + 4 * ((n * bits + 31) / 32);
}

DT_QUANTIZE_INLINE size_t dti_quantized_bytes(size_t row, uint32_t bits)
{
    const size_t left = row % DTI_GROUP;
    return row / DTI_GROUP * dti_group_bytes(DTI_GROUP, bits) +
           (left > 0 ? dti_group_bytes(left, bits) : 0);
}

/* All packed bytes of samples of @row values: how many those are, and then the samples. */
enum { DTI_QUANTIZED_HEAD = 8 };
DT_QUANTIZE_INLINE size_t dti_quantized_all(size_t row, size_t samples, uint32_t bits)
{
    return row > 0 ? DTI_QUANTIZED_HEAD + samples * dti_quantized_bytes(row, bits) : 0;
}

/* A group: its sample, where in that its values begin, and how many it has; where its bytes begin
 * among all. */
typedef struct dti_group {
    size_t sample, value, n, byte;
} dti_group;

/* Group @i of all, of which a sample has @groups. */
DT_QUANTIZE_INLINE dti_group dti_group_of(size_t i, size_t groups, size_t row, uint32_t bits)
{
    dti_group g;
    g.sample = i / groups;
    g.value = i % groups * DTI_GROUP;
    g.n = row - g.value < DTI_GROUP ? row - g.value : DTI_GROUP;
    g.byte = DTI_QUANTIZED_HEAD + g.sample * dti_quantized_bytes(row, bits) +
             i % groups * dti_group_bytes(DTI_GROUP, bits);
    return g;
}

DT_QUANTIZE_INLINE dti_group_levels dti_group_levels_flat(uint32_t word)
{
    dti_group_levels l;
    l.head = word >> 16;
    l.flat = word;
    l.from = 0;
    l.step = 0;
    return l;
}

DT_QUANTIZE_INLINE dti_group_levels dti_group_levels_stepped(uint32_t head)
{
    dti_group_levels l;
    l.head = head;
    l.flat = 0;
    l.from = dti_quantize_float(head << 16);
    l.step = dti_quantize_float(head & 0xFFFF0000u);
    return l;
}

DT_QUANTIZE_INLINE dti_group_levels dti_group_levels_of(const dti_group_scan *s, uint32_t bits)
{
    const float widest = 0x1p126f, narrowest = 0x1p-126f;
    const uint32_t nan = 0x7FC00000u;
    if (s->differs == 0)
        return dti_group_levels_flat(s->first);
    if (s->bad)
        return dti_group_levels_flat(nan);
    if (s->least == s->most)
        return dti_group_levels_flat(0); /* several that count as zero */
    const float least = dti_quantize_ordered(s->least), most = dti_quantize_ordered(s->most);
    if (!(least > -widest && most < widest))
        return dti_group_levels_flat(nan);
    const uint32_t w = dti_quantize_word(least);
    const uint32_t down = (w + (w >> 31 != 0 ? 0xFFFFu : 0)) >> 16;
    const float apart =
        (most - dti_quantize_float(down << 16)) / (float)(int32_t)((1u << bits) - 1);
    const float wide = apart < narrowest ? narrowest : apart;
    const uint32_t up = (dti_quantize_word(wide) + 0xFFFFu) >> 16;
    return dti_group_levels_stepped(down | up << 16);
}

/* The code of x, by a draw of 24 bits. */
DT_QUANTIZE_INLINE uint32_t dti_quantize_code(
    float x, float from, float step, uint32_t draw, uint32_t bits)
{
    const float t = (x - from) / step;
    const int32_t below = (int32_t)t, top = (int32_t)((1u << bits) - 1);
    const int32_t part = (int32_t)((t - (float)below) * 0x1p24f);
    const int32_t code = below + ((int32_t)draw < part ? 1 : 0);
    return (uint32_t)(code < top ? code : top);
}

/* By a group's head and, where that says that all values are the same, its first word of codes. */
DT_QUANTIZE_INLINE dti_group_levels dti_group_levels_read(uint32_t head, uint32_t codes)
{
    return head >> 16 == 0 ? dti_group_levels_flat(head << 16 | (codes & 0xFFFFu))
                           : dti_group_levels_stepped(head);
}

DT_QUANTIZE_INLINE uint32_t dti_quantize_value(dti_group_levels l, uint32_t code)
{
    const uint32_t w = dti_quantize_word(l.from + (float)(int32_t)code * l.step);
    return l.step == 0.0f ? l.flat : w;
}

#endif
