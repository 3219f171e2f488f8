/* Shapes of values: samples by height by width by channels, NHWC in memory, channels innermost. A
 * flat vector has h = w = 1. The graph keeps n = 1; programs scale by their batch. */
#ifndef DT_ENGINE_SHAPE_H
#define DT_ENGINE_SHAPE_H

#include "engine/base/compiler.h"

typedef struct dt_shape {
    int64_t n, h, w, c;
} dt_shape;

/* A height and a width in one number: that of a square is its side, so 3 is 3x3. Both are 0 to 2^31
 * - 2; of other numbers a side comes out negative or as more than that. */
DT_BOTH static inline int64_t dt_sides(int64_t h, int64_t w)
{
    return h == w ? h : h | (int64_t)((uint64_t)(w + 1) << 32);
}

DT_BOTH static inline int64_t dt_sides_h(int64_t sides)
{
    return sides & 0xFFFFFFFF;
}

DT_BOTH static inline int64_t dt_sides_w(int64_t sides)
{
    return sides >> 32 != 0 ? (sides >> 32) - 1 : sides;
}

DT_BOTH static inline bool dt_sides_square(int64_t sides)
{
    return sides >> 32 == 0;
}

/* Whether each is at least @least and at most @most. */
static inline bool dt_sides_within(int64_t sides, int64_t least, int64_t most)
{
    const int64_t h = dt_sides_h(sides), w = dt_sides_w(sides);
    return h >= least && h <= most && w >= least && w <= most;
}

/* Elements of one sample. The graph refuses shapes for which this, times 4 bytes, times the batch,
 * would overflow, so later arithmetic need not check. */
DT_BOTH static inline int64_t dt_shape_sample(const dt_shape *s)
{
    return s->h * s->w * s->c;
}

static inline bool dt_shape_same(const dt_shape *a, const dt_shape *b)
{
    return a->n == b->n && a->h == b->h && a->w == b->w && a->c == b->c;
}

/* Bytes of an fp32 value of this shape; false when a factor is negative or the product overflows.
 */
static inline bool dt_shape_bytes(const dt_shape *s, size_t *bytes)
{
    const int64_t d[4] = {s->n, s->h, s->w, s->c};
    size_t b = sizeof(float);
    for (int i = 0; i < 4; i++)
        if (d[i] < 0 || !dt_mul_bytes(b, (size_t)d[i], &b) || b > INT64_MAX / 2)
            return false;
    *bytes = b;
    return true;
}

#endif
