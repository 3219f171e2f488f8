/* Whether AMX can be used: the processor has it, and the operating system permits it. */
#define _GNU_SOURCE /* syscall() */
#include "layers/blocked/amx.h"
#include "engine/base/isa.h"

#ifdef DT_AMX
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool here;
static pthread_once_t asked = PTHREAD_ONCE_INIT;

/* The kernel hands out the tiles' state on request only. Both questions are slow. */
static void ask(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned eax, ebx, ecx, edx;
    if (!dt_isa_allowed(DT_ISA_AMX) || !__builtin_cpu_supports("avx512f"))
        return;
    __asm__("cpuid" : "=a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx) : "a"(7), "c"(0));
    const unsigned bf16 = 1u << 22, tile = 1u << 24;
    here =
        (edx & bf16) != 0 && (edx & tile) != 0 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

bool dti_amx_here(void)
{
    pthread_once(&asked, ask);
    return here;
}

#else

bool dti_amx_here(void)
{
    return false;
}

#endif
