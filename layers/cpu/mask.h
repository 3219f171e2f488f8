/* Which elements of a rectified value hand their gradient on, as bits or found again from the
 * value: what ReLU and add with ReLU share. NaN is not <= 0 and hands its gradient on, as in
 * PyTorch. */
#ifndef DT_LAYERS_CPU_MASK_H
#define DT_LAYERS_CPU_MASK_H

#include <string.h>

#include "engine/kernels.h"
#include "layers/cpu/tasks.h"
#include "layers/value.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "element 0 is the lowest byte of a word");

/* Eight bytes, each 0 or 1, to the bits of one byte: the product shifts byte k to bit 56 + k. */
DT_INLINE uint8_t dti_mask_pack(const uint8_t *on)
{
    uint64_t word;
    memcpy(&word, on, sizeof word);
    return (uint8_t)(word * 0x0102040810204080u >> 56);
}

/* dx[i] = on ? dy[i] : 0, as bits. The value is read either way, so that no branch is in a loop. */
DT_INLINE void dti_pass_on(const void *dy, void *dx, int64_t i, bool on, dt_dtype t)
{
    if (t == DT_BF16) {
        const dt_bf16 given = ((const dt_bf16 *)dy)[i];
        ((dt_bf16 *)dx)[i] = on ? given : 0;
    } else {
        const float given = ((const float *)dy)[i];
        ((float *)dx)[i] = on ? given : 0.0f;
    }
}

/* dx may be dy. */
DT_INLINE void dti_gradient_of_y(const void *y, const void *dy, void *dx, int64_t n, dt_dtype t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dti_pass_on(dy, dx, i, !(dti_load(y, i, t) <= 0.0f), t);
}

/* Bit e % 8 of byte e / 8 says whether element e hands its gradient on. */
DT_INLINE void dti_gradient_of_mask(
    const uint8_t *mask, const void *dy, void *dx, int64_t n, dt_dtype t)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint32_t bits = mask[i / 8];
#pragma omp simd
        for (uint32_t k = 0; k < 8; k++)
            dti_pass_on(dy, dx, i + k, (bits & 1u << k) != 0, t);
    }
    for (; i < n; i++)
        dti_pass_on(dy, dx, i, ((unsigned)mask[i / 8] & 1u << (i % 8)) != 0, t);
}

/* Where the mask begins of elements from @begin on of a sample of @elements; each sample's begins a
 * byte. NULL when there is none. */
static inline uint8_t *dti_mask_of(
    const dt_args *a, int64_t elements, int64_t sample, int64_t begin)
{
    uint8_t *mask = a->port[DT_S];
    return mask == NULL ? NULL : mask + sample * ((elements + 7) / 8) + begin / 8;
}

#endif
