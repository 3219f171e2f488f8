/* Threads of ours within a program of somebody else's. */
#ifndef DT_ENGINE_BASE_THREAD_H
#define DT_ENGINE_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* What a thread that only moves bytes needs; the usual 8 MiB count against a limit of data. */
enum { DTI_SMALL_STACK = 256 << 10 };

/* As pthread_create, with a stack of @stack bytes (0: the usual one), and all signals blocked: they
 * are for the program's own threads. Where OpenMP binds its threads, it may run wherever one of
 * those may. Returns 0 or an error's number. */
int dt_thread_start(pthread_t *to, size_t stack, void *(*run)(void *), void *arg);

#endif
