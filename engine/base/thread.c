/* How a thread is started. */
#include "engine/base/thread.h"

#include <signal.h>

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
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(to, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
