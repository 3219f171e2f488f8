/* Instruction sets that kernels may use: those of the processor, below a limit that a user may set,
 * so that a run can be repeated as a lesser processor would compute it. The limit is the whole
 * process's, as the processor is. */
#ifndef DT_ENGINE_BASE_ISA_H
#define DT_ENGINE_BASE_ISA_H

#include "engine/base/error.h"

/* Each has what those before it have. */
typedef enum dt_isa {
    DT_ISA_PLAIN,
    DT_ISA_AVX2,
    DT_ISA_AVX512,
    DT_ISA_AVX512_BF16,
    DT_ISA_AMX
} dt_isa;

/* Nothing above @name: "plain", "avx2", "avx512", "avx512_bf16" or "amx". Before the first kernel
 * is chosen, or asked about. DT_E_CONFIG names what is allowed. */
dt_status dt_isa_limit(const char *name, dt_isa *limit, dt_err *err) DT_NODISCARD;

/* Whether the limit allows it; whether the processor has it is asked beside this. */
bool dt_isa_allowed(dt_isa isa);

/* What results depend on: "avx512_bf16", "avx512", "avx2", "x86-64", "arm64" ... AMX is not told
 * apart here: it is the library that says (dt_onednn_isa). */
const char *dt_isa_name(void);

#endif
