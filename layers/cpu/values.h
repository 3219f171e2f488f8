/* Rows of values of either type, computed with as fp32. */
#ifndef DT_LAYERS_CPU_VALUES_H
#define DT_LAYERS_CPU_VALUES_H

#include "engine/dtype.h"
#include "layers/cpu/tasks.h"

void dti_values_widen(const dt_bf16 *from, float *to, int64_t n);
void dti_values_round(const float *from, dt_bf16 *to, int64_t n);

/* n values from element @at on; converted into @buffer (n floats) unless they are fp32 as they lie.
 */
DT_INLINE const float *dti_values_read(
    dt_dtype type, const void *p, int64_t at, float *buffer, int64_t n)
{
    if (type != DT_BF16)
        return (const float *)p + at;
    dti_values_widen((const dt_bf16 *)p + at, buffer, n);
    return buffer;
}

/* Where to compute n values that belong at element @at: there, or in @buffer; then
 * dti_values_write(). */
DT_INLINE float *dti_values_target(dt_dtype type, void *p, int64_t at, float *buffer)
{
    return type == DT_BF16 ? buffer : (float *)p + at;
}

DT_INLINE void dti_values_write(dt_dtype type, void *p, int64_t at, const float *from, int64_t n)
{
    if (type == DT_BF16) /* else they are there already */
        dti_values_round(from, (dt_bf16 *)p + at, n);
}

#endif
