/* Which processors multiply pairs of bf16 fast. */
#include "layers/blocked/bf16.h"

#include "engine/base/isa.h"
#include "layers/blocked/amx.h"
#include "layers/onednn/onednn.h"

/* Intel's begin a vdpbf16ps of full width every other cycle, and two fused multiply-adds of fp32
 * each cycle, so that these do twice as much (an Emerald Rapids: docs/measurements.md). */
bool dt_bf16_pays(void)
{
    if (!dt_onednn_bf16())
        return false;
#if defined(__x86_64__)
    return dti_amx_here() || (dt_isa_allowed(DT_ISA_AVX512_BF16) && !__builtin_cpu_is("intel"));
#else
    return false;
#endif
}

const char *dt_bf16_by(void)
{
    return !dt_bf16_pays() ? "fp32" : dti_amx_here() ? "amx" : "pairs";
}
