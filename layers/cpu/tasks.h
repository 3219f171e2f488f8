/* How CPU kernels share out work. It is cut into tasks by size alone (where the number of threads
 * decides, as in some of Winograd's, no sum is cut by it), and tasks write apart from each other,
 * so results are the same bits on any number of threads. Reductions keep one partial result a task
 * and add them up in the order of tasks. */
#ifndef DT_LAYERS_CPU_TASKS_H
#define DT_LAYERS_CPU_TASKS_H

#include "engine/base/compiler.h"
#include "engine/base/team.h"

/* Helpers of functions that are compiled for several instruction sets (DT_CLONES): they must become
 * part of each. */
#define DT_INLINE DT_BOTH static inline __attribute__((always_inline))

enum { DTI_GRAIN = 1 << 14 }; /* elements of a task of elementwise work */

/* A half-open range. */
typedef struct dti_span {
    int64_t begin, end;
} dti_span;

DT_BOTH static inline int64_t dti_span_count(dti_span s)
{
    return s.end - s.begin;
}

DT_BOTH static inline int64_t dti_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* a / b. Most sizes are below 2^32, where dividing costs a card a fifth. */
DT_BOTH static inline int64_t dti_quotient(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32 == 0)
        return (int64_t)((uint32_t)a / (uint32_t)b);
    return a / b;
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
