/* Max pooling's rows, by instruction set. */
#include "layers/cpu/maxpool_rows.h"

#include <math.h>

#define DT_LANES_KERNEL "layers/cpu/maxpool_kernel.inc"
#include "layers/cpu/lanes.inc"

const dti_maxpool_rows *dti_maxpool_rows_of(int lanes, dt_dtype t)
{
#if defined(__x86_64__)
    if (lanes == DTI_LANES_BF16)
        return &rows_bf16[t];
    if (lanes == DTI_LANES_AVX512)
        return &rows_avx512[t];
    if (lanes == DTI_LANES_AVX2)
        return &rows_avx2[t];
#endif
    (void)lanes;
    return &rows_plain[t];
}
