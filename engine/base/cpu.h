/* The processor: threads of the one OpenMP team, and how they treat denormal numbers. */
#ifndef DT_ENGINE_BASE_CPU_H
#define DT_ENGINE_BASE_CPU_H

#include "engine/base/error.h"

enum { DT_CPU_THREADS = 1024 }; /* most of a team */

/* Whether there can be a team of that size (0: all cores, within a parallel region one).
 * DT_E_CONFIG when OMP_THREAD_LIMIT or OMP_NUM_THREADS excludes it, DT_E_NOMEM when the system
 * refuses the threads. */
dt_status dt_cpu_check(int threads, dt_err *err) DT_NODISCARD;

/* Whether the calling thread can have it now, as part of that: DT_E_CONFIG in a child of a process
 * in which that thread had one, and within a parallel region. */
dt_status dt_cpu_check_call(int threads, dt_err *err) DT_NODISCARD;

/* What a thread does between two looks at what it waits for. */
static inline void dt_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Set the team's size (0: all cores) and have every thread of it flush denormals to zero, without
 * which a dying network runs 50 times slower. Returns the size of the team that came, which
 * OMP_THREAD_LIMIT may have kept smaller. Called before kernels are prepared. */
int dt_cpu_setup(int threads);

/**
 * struct dt_cpu_host - what a host program had set for the calling thread.
 * @threads @dynamic: of OpenMP's next team
 * @team:     threads whose treatment of denormals was changed
 * @denormal: of each of them, what it was
 */
typedef struct dt_cpu_host {
    int threads, dynamic, team;
    uint8_t denormal[DT_CPU_THREADS];
} dt_cpu_host;

/* dt_cpu_setup, and its undoing by the same thread: pairs may be nested. */
int dt_cpu_enter(int threads, dt_cpu_host *before);
void dt_cpu_leave(const dt_cpu_host *before);

/* Processors that threads of this process may run on, no more than control groups give it the time
 * of. */
int dt_cpu_processors(void);

/* Threads that a kernel called by this thread would find. */
int dt_cpu_threads(void);

/* How the calling thread treats denormals: bits by which results and operands are flushed. */
uint8_t dti_cpu_denormals(void);
void dti_cpu_set_denormals(uint8_t flush);

/* Have the calling thread, which is not of the team, compute by itself, with denormals as above;
 * what OpenMP keeps for it is made here and not later. With helpers: kernels that it calls find so
 * many threads, itself included, for a team of its own (engine/base/team.h). */
void dti_cpu_setup_alone(void);
void dti_cpu_setup_with(int threads);

#endif
