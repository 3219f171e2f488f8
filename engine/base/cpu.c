#include "engine/base/cpu.h"

#include <omp.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { COPY_CHUNK = 1 << 20 };

static void flush_denormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* FTZ and DAZ */
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | (1u << 24)));
#endif
}

int dt_cpu_setup(int threads)
{
    omp_set_dynamic(0);
    if (threads > 0)
        omp_set_num_threads(threads);
#pragma omp parallel
    flush_denormals();
    return omp_get_max_threads();
}

void dt_cpu_setup_alone(void)
{
    omp_set_num_threads(1);
#pragma omp parallel
    flush_denormals();
}

double dt_cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void dt_cpu_copy(void *to, const void *from, size_t bytes)
{
    const long chunks = (long)((bytes + COPY_CHUNK - 1) / COPY_CHUNK);
#pragma omp parallel for schedule(static) if (chunks > 1)
    for (long i = 0; i < chunks; i++) {
        const size_t at = (size_t)i * COPY_CHUNK;
        const size_t n = bytes - at < COPY_CHUNK ? bytes - at : COPY_CHUNK;
        memcpy((char *)to + at, (const char *)from + at, n);
    }
}

void dt_cpu_narrow(dt_bf16 *to, const float *from, int64_t count)
{
#pragma omp parallel for simd schedule(static) if (count > COPY_CHUNK / 4)
    for (int64_t i = 0; i < count; i++)
        to[i] = dt_bf16_from_float(from[i]);
}

const char *dt_cpu_isa(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16"))
        return "avx512_bf16";
    if (__builtin_cpu_supports("avx512bw"))
        return "avx512";
    return __builtin_cpu_supports("avx2") ? "avx2" : "x86-64";
#elif defined(__aarch64__)
    return "arm64";
#else
    return "generic";
#endif
}
