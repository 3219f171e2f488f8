/* How a thread is started. */
#define _GNU_SOURCE /* pthread_attr_setaffinity_np */
#include "engine/base/thread.h"

#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

#include "engine/base/alloc.h"

/* Where OpenMP binds threads, the one that starts another has a single processor, which the other
 * would inherit: it gets all that OpenMP's threads have. */
static void unbind(pthread_attr_t *attr)
{
    cpu_set_t all;
    bool any = false;
    if (omp_get_proc_bind() == omp_proc_bind_false)
        return;
    CPU_ZERO(&all);
    for (int place = 0; place < omp_get_num_places(); place++) {
        const int n = omp_get_place_num_procs(place);
        int *ids = n > 0 ? dt_alloc((size_t)n, sizeof *ids) : NULL;
        if (ids == NULL)
            return;
        omp_get_place_proc_ids(place, ids);
        for (int i = 0; i < n; i++)
            if (ids[i] >= 0 && ids[i] < CPU_SETSIZE) {
                CPU_SET((size_t)ids[i], &all);
                any = true;
            }
        dt_free(ids);
    }
    if (any)
        (void)pthread_attr_setaffinity_np(attr, sizeof all, &all);
}

/* Threads inherit the mask. */
int dt_thread_start(pthread_t *to, size_t stack, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error != 0)
        return error;
    if (stack > 0)
        (void)pthread_attr_setstacksize(&attr, stack);
    unbind(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(to, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
