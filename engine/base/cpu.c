/* How many threads the team has, and how they treat denormal numbers. */
#define _GNU_SOURCE /* pthread_setaffinity_np */
#include "engine/base/cpu.h"
#include "engine/base/limits.h"
#include "engine/base/thread.h"

#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { FLUSH_RESULTS = 1, FLUSH_OPERANDS = 2, FLUSH = FLUSH_RESULTS | FLUSH_OPERANDS };

#if defined(__x86_64__)
enum { FTZ = 0x8000, DAZ = 0x40 };
#elif defined(__aarch64__)
enum { FZ = 1 << 24 }; /* both */
#endif

uint8_t dti_cpu_denormals(void)
{
#if defined(__x86_64__)
    const unsigned now = _mm_getcsr();
    return (
        uint8_t)(((now & FTZ) != 0 ? FLUSH_RESULTS : 0) | ((now & DAZ) != 0 ? FLUSH_OPERANDS : 0));
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    return (now & FZ) != 0 ? FLUSH : 0;
#else
    return 0;
#endif
}

void dti_cpu_set_denormals(uint8_t flush)
{
#if defined(__x86_64__)
    const unsigned others = _mm_getcsr() & ~(unsigned)(FTZ | DAZ);
    _mm_setcsr(others | ((flush & FLUSH_RESULTS) != 0 ? FTZ : 0) |
               ((flush & FLUSH_OPERANDS) != 0 ? DAZ : 0));
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    now = (now & ~(uint64_t)FZ) | (flush != 0 ? FZ : 0);
    __asm__ volatile("msr fpcr, %0" : : "r"(now));
#else
    (void)flush;
#endif
}

static void flush_denormals(void)
{
    dti_cpu_set_denormals(FLUSH);
}

/* Lives until the mutex is free. */
static void *idle(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* How many of @wanted threads, the calling one included, the system lets this process have at once:
 * OpenMP ends the process when it gets fewer. */
static int threads_to_be_had(int wanted)
{
    pthread_t t[DT_CPU_THREADS];
    pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;
    int n = 0;
    pthread_mutex_lock(&hold);
    while (n < wanted - 1 && dt_thread_start(&t[n], 0, idle, &hold) == 0)
        n++;
    pthread_mutex_unlock(&hold);
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    return n + 1;
}

static int granted = INT_MAX; /* processors by control groups, which do not change for a process */
static pthread_once_t granted_once = PTHREAD_ONCE_INIT;

static void find_granted(void)
{
    granted = dti_limit_processors(NULL);
}

int dt_cpu_processors(void)
{
    const int n = omp_get_num_procs();
    (void)pthread_once(&granted_once, find_granted);
    return n < granted ? n : granted;
}

/* As many as OMP_NUM_THREADS or the host program say, where that is another number than that of all
 * processors. Of those, more than a control group gives the time of would all stand still for most
 * of each of its periods. */
static int threads_by_default(void)
{
    const int all = omp_get_max_threads();
    return all != omp_get_num_procs() ? all : dt_cpu_processors();
}

static int team_wanted(int threads)
{
    const int all = omp_in_parallel() ? 1 : threads_by_default();
    const int most = omp_get_thread_limit(), n = threads > 0 ? threads : all;
    return n < most ? n : most;
}

static int team; /* the largest that came so far: OpenMP keeps its threads */
/* The process in which the calling thread had one, 0 if it had none: a child process does not have
 * those threads, and OpenMP waits for them for ever. */
static _Thread_local pid_t team_of;

dt_status dt_cpu_check_call(int threads, dt_err *err)
{
    if (team_wanted(threads) == 1)
        return DT_OK;
    if (team_of != 0 && team_of != getpid())
        return DT_FAIL(err, DT_E_CONFIG,
            "this process was forked from one that computed, and has none of its threads: fork "
            "before the first dt_run_open, or exec, or set device.threads = 1");
    if (omp_in_parallel()) /* where oneDNN takes one, and kernels made for more wait for them */
        return DT_FAIL(err, DT_E_CONFIG,
            "called within a parallel region, where a run has 1 thread and not %d: call from "
            "outside of it, or set device.threads = 1",
            threads);
    return DT_OK;
}

dt_status dt_cpu_check(int threads, dt_err *err)
{
    const int wanted = team_wanted(threads);
    DT_CHECK(dt_cpu_check_call(threads, err));
    if (threads > omp_get_thread_limit())
        return DT_FAIL(err, DT_E_CONFIG,
            "OMP_THREAD_LIMIT allows %d of the %d threads; raise it, or set device.threads = %d",
            omp_get_thread_limit(), threads, omp_get_thread_limit());
    if (wanted > DT_CPU_THREADS)
        return DT_FAIL(err, DT_E_CONFIG,
            "OMP_NUM_THREADS asks for %d threads, and %d are the most; lower it, or set "
            "device.threads",
            wanted, DT_CPU_THREADS);
    const int had =
        wanted > __atomic_load_n(&team, __ATOMIC_RELAXED) ? threads_to_be_had(wanted) : wanted;
    if (had < wanted)
        return DT_FAIL(err, DT_E_NOMEM,
            "the system gives this process %d of %d threads: set device.threads = "
            "%d" DT_THREADS_ADVICE,
            had, wanted, had);
    return DT_OK;
}

/* @was: of each thread of the team, how it treated denormals. */
static int set_up(int threads, uint8_t was[DT_CPU_THREADS])
{
    int came = 0;
    omp_set_dynamic(0);
    omp_set_num_threads(team_wanted(threads));
#pragma omp parallel
    {
        const int i = omp_get_thread_num();
        if (i < DT_CPU_THREADS)
            was[i] = dti_cpu_denormals();
        flush_denormals();
#pragma omp atomic
        came++;
    }
    flush_denormals(); /* LLVM's OpenMP takes back what the calling thread sets within a region */
    omp_set_num_threads(came);
    if (came > 1)
        team_of = getpid();
    if (came > __atomic_load_n(&team, __ATOMIC_RELAXED))
        __atomic_store_n(&team, came, __ATOMIC_RELAXED);
    return came;
}

int dt_cpu_setup(int threads)
{
    uint8_t was[DT_CPU_THREADS];
    return set_up(threads, was);
}

int dt_cpu_enter(int threads, dt_cpu_host *before)
{
    before->threads = omp_get_max_threads();
    before->dynamic = omp_get_dynamic();
    before->team = set_up(threads, before->denormal);
    return before->team;
}

void dt_cpu_leave(const dt_cpu_host *before)
{
    omp_set_num_threads(before->team);
#pragma omp parallel
    {
        const int i = omp_get_thread_num();
        if (i < DT_CPU_THREADS)
            dti_cpu_set_denormals(before->denormal[i]);
    }
    dti_cpu_set_denormals(before->denormal[0]);
    omp_set_num_threads(before->threads);
    omp_set_dynamic(before->dynamic);
}

int dt_cpu_threads(void)
{
    return omp_get_max_threads();
}

void dti_cpu_setup_alone(void)
{
    cpu_set_t own; /* OpenMP may bind a thread to one processor with its first region */
    const bool known = pthread_getaffinity_np(pthread_self(), sizeof own, &own) == 0;
    omp_set_num_threads(1);
#pragma omp parallel
    flush_denormals();
    if (known)
        (void)pthread_setaffinity_np(pthread_self(), sizeof own, &own);
}

void dti_cpu_setup_with(int threads)
{
    dti_cpu_setup_alone();
    omp_set_num_threads(threads);
}
