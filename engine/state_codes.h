/* Optimizer state in 8 bits a value: Dettmers et al., "8-bit Optimizers via Block-wise
 * Quantization" (ICLR 2022), sections 2.1 and 2.2. Values are cut into blocks. Of each block the
 * value of the greatest magnitude is its scale, in fp32; each value is a code that stands for one
 * of 256 shares of the scale (dynamic tree quantization). Of a state that has no sign codes go
 * twice as fine.
 *
 * Two things are as nowhere in the paper, so that a value that was packed is packed to the same
 * code again, wherever in between it was written down as fp32, and that no step explodes:
 * - the scale has the sign of the value that it is, whose code is then 1 in either case;
 * - of a state without a sign, which is what a step is divided by, nothing but 0 becomes 0. */
#ifndef DT_ENGINE_STATE_CODES_H
#define DT_ENGINE_STATE_CODES_H

#include <math.h>
#include <stdint.h>

#include "engine/base/compiler.h"

enum {
    DT_STATE_BLOCK = 2048,                 /* values of a scale */
    DT_STATE_LEAST = 4096,                 /* a parameter of fewer values keeps its state in fp32 */
    DT_STATE_DECADES = 7,                  /* of shares: from 10^-7 to 1 */
    DT_STATE_LEVELS = DT_STATE_DECADES + 2 /* and below them, and 1 itself */
};

/* No share of a scale is subnormal that is not smaller than this. A smaller one is 0, and with it
 * all of its block; of a state without a sign it is this, unless all are 0. */
#define DT_STATE_SCALE 0x1p-96f

/**
 * struct dt_state_map - what codes stand for.
 * @sign:  whether shares have one. Codes are then numbers of 8 bits in two's complement, of which
 *         -128 is the share 1; else 255 is that. 0 is always 0
 * @share: of each code
 * @edge:  from where on a magnitude is of the next level: the middle between the last share of one
 *         and the first of the other
 * @up @slope @most @base: by level: how a magnitude is found among the shares of its decade, which
 *         lie evenly, and the code of the first of them
 */
typedef struct dt_state_map {
    bool sign;
    float share[256];
    float edge[DT_STATE_LEVELS - 1], up[DT_STATE_LEVELS], slope[DT_STATE_LEVELS];
    int32_t most[DT_STATE_LEVELS], base[DT_STATE_LEVELS];
} dt_state_map;

/* What a decade is multiplied by to be the last one: 10^6 for the first. */
DT_BOTH static inline double dti_state_up(int decade)
{
    double up = 1;
    for (int i = decade; i < DT_STATE_DECADES - 1; i++)
        up *= 10;
    return up;
}

/* Shares of a decade: 1, 2, 4 to 64, or twice as many. */
DT_BOTH static inline int dti_state_cells(int decade, bool sign)
{
    return 1 << (sign ? decade : decade + 1);
}

/* The share in the middle of cell @i of as many that [0.1, 1] of a decade is cut into. */
DT_BOTH static inline double dti_state_middle(int decade, int i, bool sign)
{
    return (0.1 + 0.9 * (2 * i + 1) / (2.0 * dti_state_cells(decade, sign))) / dti_state_up(decade);
}

/* The code of the first share of a decade. */
DT_BOTH static inline int dti_state_first(int decade, bool sign)
{
    return sign ? 1 << decade : (1 << (decade + 1)) - 1;
}

DT_BOTH static inline double dti_state_share(int code, bool sign)
{
    const bool minus = sign && code > 128;
    const int magnitude = minus ? 256 - code : code;
    int decade = DT_STATE_DECADES - 1;
    if (magnitude == 0)
        return 0;
    if (code == (sign ? 128 : 255))
        return 1;
    while (dti_state_first(decade, sign) > magnitude)
        decade--;
    const double share = dti_state_middle(decade, magnitude - dti_state_first(decade, sign), sign);
    return minus ? -share : share;
}

/* Entries @from, @from + @step, ... of each table: all of them by one thread, or some by each. */
DT_BOTH static inline void dt_state_map_fill(dt_state_map *m, bool sign, int from, int step)
{
    m->sign = sign;
    for (int code = from; code < 256; code += step)
        m->share[code] = (float)dti_state_share(code, sign);
    for (int level = from; level < DT_STATE_LEVELS; level += step) {
        const bool within = level > 0 && level <= DT_STATE_DECADES;
        const int decade = level - 1, cells = within ? dti_state_cells(decade, sign) : 0;
        const double last = level == 0 ? 0 : within ? dti_state_middle(decade, cells - 1, sign) : 1;
        const double next = level < DT_STATE_DECADES ? dti_state_middle(level, 0, sign) : 1;
        if (level < DT_STATE_LEVELS - 1)
            m->edge[level] = (float)((last + next) / 2);
        m->up[level] = within ? (float)dti_state_up(decade) : 0.0f;
        m->slope[level] = (float)(cells / 0.9);
        m->most[level] = within ? cells - 1 : 0;
        m->base[level] = level == 0 ? 0 : within ? dti_state_first(decade, sign) : sign ? 128 : 255;
    }
}

/* The code of the share that is nearest to @x, from -1 to 1. Of a NaN it is 0. Without a branch, so
 * that loops over it become vectors, of which @sign is then a constant. */
DT_BOTH static inline __attribute__((always_inline)) uint8_t dt_state_code_of(
    const dt_state_map *m, bool sign, float x)
{
    const float a = fabsf(x);
    float up = m->up[0], slope = m->slope[0];
    int32_t last = m->most[0], base = m->base[0];
    for (int i = 0; i < DT_STATE_LEVELS - 1; i++) { /* no look-up, which vectors do one by one */
        const bool beyond = a >= m->edge[i];
        up = beyond ? m->up[i + 1] : up;
        slope = beyond ? m->slope[i + 1] : slope;
        last = beyond ? m->most[i + 1] : last;
        base = beyond ? m->base[i + 1] : base;
    }
    const float cell = (a * up - 0.1f) * slope, most = (float)last;
    const float above = cell > 0.0f ? cell : 0.0f, kept = above < most ? above : most;
    const int code = base + (int)kept, under = code < 128 ? code : 127;
    if (!sign)
        return (uint8_t)(code + ((code == 0) & (a > 0.0f)));
    return (uint8_t)(x < 0.0f ? -under : code);
}

DT_BOTH static inline __attribute__((always_inline)) uint8_t dt_state_code(
    const dt_state_map *m, float x)
{
    return dt_state_code_of(m, m->sign, x);
}

/* The scale of values whose greatest is @high, and whose greatest negative @low, made positive.
 * @sign: of the map */
DT_BOTH static inline float dt_state_scale(float high, float low, bool sign)
{
    const float scale = low > high ? -low : high;
    const float small = !sign && scale > 0.0f ? DT_STATE_SCALE : 0.0f;
    return fabsf(scale) < DT_STATE_SCALE ? small : scale;
}

/* By what values are divided to be shares: where the scale is 0, all are 0. */
DT_BOTH static inline float dt_state_whole(float scale)
{
    return scale == 0.0f ? INFINITY : scale;
}

/* Blocks of so many values. */
DT_BOTH static inline int64_t dt_state_blocks(int64_t n)
{
    return (n + DT_STATE_BLOCK - 1) / DT_STATE_BLOCK;
}

/* Between a block and fp32, on the processor. @n: at most DT_STATE_BLOCK. */
void dt_state_unpack(const dt_state_map *m, const uint8_t *code, float scale, float *to, int64_t n);
float dt_state_pack(const dt_state_map *m, const float *from, uint8_t *code, int64_t n);

#endif
