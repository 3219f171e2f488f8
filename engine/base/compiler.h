/* Words that differ between compilers, and arithmetic that says when it overflows. Kept in the
 * common subset of C11 and C++17, because CUDA sources include it. */
#ifndef DT_ENGINE_BASE_COMPILER_H
#define DT_ENGINE_BASE_COMPILER_H

#include <dnntrain/error.h>

/* On functions that run on both devices: CUDA sources may call them in kernels. */
#ifdef __CUDACC__
#define DT_BOTH __host__ __device__
#else
#define DT_BOTH
#endif
#define DT_COUNT(a) (sizeof(a) / sizeof *(a))

/* Return false, leaving *out unspecified, when the exact result does not fit. */
static inline bool dt_mul_bytes(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool dti_add_bytes(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
