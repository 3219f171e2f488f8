/* Batch normalisation's rows, by instruction set. */
#include "layers/cpu/batchnorm_rows.h"

#define DT_LANES_KERNEL "layers/cpu/batchnorm_kernel.inc"
#include "layers/cpu/lanes.inc"

const dti_batchnorm_rows *dti_batchnorm_rows_of(int lanes, bool relu, dt_dtype t)
{
#if defined(__x86_64__)
    if (lanes == DTI_LANES_BF16)
        return &rows_bf16[relu][t];
    if (lanes == DTI_LANES_AVX512)
        return &rows_avx512[relu][t];
    if (lanes == DTI_LANES_AVX2)
        return &rows_avx2[relu][t];
#endif
    (void)lanes;
    return &rows_plain[relu][t];
}
