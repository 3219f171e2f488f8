/* Which instruction sets kernels may use here. */
#include "engine/base/isa.h"

#include <string.h>

static const char *const names[] = {[DT_ISA_PLAIN] = "plain",
    [DT_ISA_AVX2] = "avx2",
    [DT_ISA_AVX512] = "avx512",
    [DT_ISA_AVX512_BF16] = "avx512_bf16",
    [DT_ISA_AMX] = "amx"};

static int most = DT_ISA_AMX;

dt_status dt_isa_limit(const char *name, dt_isa *limit, dt_err *err)
{
    for (size_t i = 0; i < DT_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) {
            *limit = (dt_isa)i;
            __atomic_store_n(&most, (int)i, __ATOMIC_RELAXED);
            return DT_OK;
        }
    return DT_FAIL(err, DT_E_CONFIG,
        "there is no instruction set '%.40s': plain, avx2, avx512, avx512_bf16 or amx", name);
}

bool dt_isa_allowed(dt_isa isa)
{
    return (int)isa <= __atomic_load_n(&most, __ATOMIC_RELAXED);
}

const char *dt_isa_name(void)
{
#if defined(__x86_64__)
    if (dt_isa_allowed(DT_ISA_AVX512_BF16) && __builtin_cpu_supports("avx512bf16"))
        return "avx512_bf16";
    if (dt_isa_allowed(DT_ISA_AVX512) && __builtin_cpu_supports("avx512bw"))
        return "avx512";
    return dt_isa_allowed(DT_ISA_AVX2) && __builtin_cpu_supports("avx2") ? "avx2" : "x86-64";
#elif defined(__aarch64__)
    return "arm64";
#else
    return "generic";
#endif
}
