/* Types of values: activations and their gradients. Parameters, statistics, sums and losses are
 * always fp32. */
#ifndef DT_ENGINE_DTYPE_H
#define DT_ENGINE_DTYPE_H

#include <stdint.h>
#include <string.h>

#include "engine/base/compiler.h"

typedef enum dt_dtype { DT_F32, DT_BF16, DT_DTYPES } dt_dtype;

typedef uint16_t dt_bf16; /* the upper half of a float */

DT_BOTH static inline size_t dt_dtype_bytes(dt_dtype t)
{
    return t == DT_BF16 ? sizeof(dt_bf16) : sizeof(float);
}

static inline const char *dt_dtype_name(dt_dtype t)
{
    return t == DT_BF16 ? "bf16" : "fp32";
}

DT_BOTH static inline float dt_bf16_to_float(dt_bf16 b)
{
    const uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* To the nearest, ties to even; a NaN stays one. Without a branch, so that loops over it become
 * vectors. */
DT_BOTH static inline dt_bf16 dt_bf16_from_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    const uint32_t rounded = u + 0x7FFFu + (u >> 16 & 1u), nan = u | 0x400000u;
    return (dt_bf16)((f != f ? nan : rounded) >> 16);
}

#endif
