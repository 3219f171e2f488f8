/* Values of either type, for kernels that are written once and compiled for each: the type is a
 * constant where these become part of a loop. All arithmetic is in single precision. */
#ifndef DT_LAYERS_VALUE_H
#define DT_LAYERS_VALUE_H

#include "engine/dtype.h"
#include "layers/cpu/tasks.h"

DT_INLINE float dti_load(const void *v, int64_t i, dt_dtype t)
{
    return t == DT_BF16 ? dt_bf16_to_float(((const dt_bf16 *)v)[i]) : ((const float *)v)[i];
}

DT_INLINE void dti_store(void *v, int64_t i, dt_dtype t, float f)
{
    if (t == DT_BF16)
        ((dt_bf16 *)v)[i] = dt_bf16_from_float(f);
    else
        ((float *)v)[i] = f;
}

/* max(x, 0), where a NaN goes through and -0 becomes 0. */
DT_INLINE float dti_rectify(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

/* Where element i lies. */
static inline const void *dti_from(const void *v, int64_t i, dt_dtype t)
{
    return (const char *)v + i * (int64_t)dt_dtype_bytes(t);
}

static inline void *dti_to(void *v, int64_t i, dt_dtype t)
{
    return (char *)v + i * (int64_t)dt_dtype_bytes(t);
}

#endif
