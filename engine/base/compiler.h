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

/* Functions that are compiled for several instruction sets, the best of which is taken when the
 * program starts. Put it on loops without OpenMP's parallel inside. Lanes of a vector are elements
 * or channels, and no sum runs across lanes, so the bits do not depend on the choice. Clang before
 * 16 names the one that chooses as no other file calls it. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute) &&                       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                             \
    (!defined(__clang__) || __clang_major__ >= 16)
#if __has_attribute(target_clones)
#define DT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef DT_CLONES
#define DT_CLONES
#endif

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
