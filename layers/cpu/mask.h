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

/* Of n values. Bit e % 8 of byte e / 8 says whether element e hands its gradient on. */
DT_INLINE void dti_mask_write(const void *y, uint8_t *mask, int64_t n, dt_dtype t)
{
    enum { BLOCK = 64 };
    uint8_t on[BLOCK];
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
#pragma omp simd
        for (int k = 0; k < BLOCK; k++)
            on[k] = dti_load(y, i + k, t) <= 0.0f ? 0 : 1;
        for (int k = 0; k < BLOCK; k += 8)
            mask[(i + k) / 8] = dti_mask_pack(on + k);
    }
    for (; i < n; i += 8) {
        memset(on, 0, 8);
        for (int64_t k = i; k < n && k < i + 8; k++)
            on[k - i] = dti_load(y, k, t) <= 0.0f ? 0 : 1;
        mask[i / 8] = dti_mask_pack(on);
    }
}

/* Where the mask begins of elements from @begin on of a sample of @elements; each sample's begins a
 * byte. NULL when there is none. */
static inline uint8_t *dti_mask_of(
    const dt_args *a, int64_t elements, int64_t sample, int64_t begin)
{
    uint8_t *mask = a->port[DT_S];
    return mask == NULL ? NULL : mask + sample * ((elements + 7) / 8) + begin / 8;
}

/* In relu_cpu.c. Forward of a ReLU, with its mask where there is one; y may be x. */
void dti_relu_forward(const dt_call *c, const dt_args *a);
/* Backward of a layer that ends in a ReLU: by the mask where there is one, else by y. */
void dti_relu_gradient(const dt_call *c, const dt_args *a);

#endif
