#include "layers/blocked/winograd_transforms.h"

#define DT_LANES_KERNEL "layers/blocked/winograd_kernel.inc"
#include "layers/cpu/lanes.inc"

const dti_transforms *dti_transforms_best(void)
{
    switch (dt_lane_set()) {
#if defined(__x86_64__)
    case DT_LANES_BF16:
        return &transforms_bf16;
    case DT_LANES_AVX512:
        return &transforms_avx512;
    case DT_LANES_AVX2:
        return &transforms_avx2;
#endif
    default:
        return &transforms_plain;
    }
}
