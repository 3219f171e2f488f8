/* How CPU kernels share out work. It is cut into tasks by size alone, never by the number of
 * threads, and tasks write apart from each other, so results are the same bits on any number of
 * threads. Reductions keep one partial result a task and add them up in the order of tasks. */
#ifndef DT_LAYERS_CPU_TASKS_H
#define DT_LAYERS_CPU_TASKS_H

#include "engine/base/compiler.h"
#include "engine/base/team.h"

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

/* Helpers of such functions: they must become part of each. */
#define DT_INLINE DT_BOTH static inline __attribute__((always_inline))

enum { DTI_GRAIN = 1 << 14 }; /* elements of a task of elementwise work */

/* A half-open range. */
typedef struct dti_span {
    int64_t begin, end;
} dti_span;

DT_BOTH static inline int64_t dti_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Piece i of [0, count) cut into pieces of @each, the last one shorter. */
DT_BOTH static inline dti_span dti_span_of(int64_t count, int64_t each, int64_t i)
{
    const int64_t begin = i * each;
    return (dti_span){begin, count - begin < each ? count : begin + each};
}

#ifndef __CUDACC__
/* Run task(job, i) for every i in [0, n), by the team. */
typedef dt_team_task dti_task;

static inline void dti_run_tasks(int64_t n, dti_task *task, const void *job)
{
    dt_team_run(n, task, job);
}
#endif

#endif
