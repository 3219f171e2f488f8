/* A few threads that wait for a job, share out its pieces and wait again. */
#include "data/decoders.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/thread.h"

struct dti_decoders {
    pthread_mutex_t mutex;
    pthread_cond_t work, idle; /* there is a job; all pieces are done */
    pthread_t *threads;
    int n_threads;
    /* the job, under the mutex */
    void (*piece)(void *arg, int64_t i);
    void *arg;
    int64_t n, next, done;
    bool stop;
};

/* Take pieces until none is left; called and left with the mutex held. */
static void work_off(dti_decoders *t)
{
    while (t->next < t->n) {
        const int64_t i = t->next++;
        void (*piece)(void *, int64_t) = t->piece;
        void *arg = t->arg;
        pthread_mutex_unlock(&t->mutex);
        piece(arg, i);
        pthread_mutex_lock(&t->mutex);
        if (++t->done == t->n)
            pthread_cond_signal(&t->idle);
    }
}

static void *member(void *arg)
{
    dti_decoders *t = arg;
    pthread_mutex_lock(&t->mutex);
    while (!t->stop) {
        work_off(t);
        if (!t->stop)
            pthread_cond_wait(&t->work, &t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

dt_status dti_decoders_create(dti_decoders **out, int threads, dt_err *err)
{
    const int extra = threads > 1 ? threads - 1 : 0;
    dti_decoders *t = dt_alloc(1, sizeof *t);
    pthread_t *handles = dt_alloc((size_t)extra, sizeof *handles);
    if (t == NULL || handles == NULL) {
        dt_free(t);
        dt_free(handles);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %d decoding threads", threads);
    }
    t->threads = handles;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->idle, NULL);
    for (; t->n_threads < extra; t->n_threads++) {
        const int error = dt_thread_start(&t->threads[t->n_threads], 0, member, t);
        if (error != 0) {
            dti_decoders_destroy(t);
            return DT_FAIL(err, DT_E_NOMEM,
                "cannot start %d decoding threads: %s" DT_THREADS_ADVICE, threads, strerror(error));
        }
    }
    *out = t;
    return DT_OK;
}

void dti_decoders_destroy(dti_decoders *t)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->mutex);
    t->stop = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->mutex);
    for (int i = 0; i < t->n_threads; i++)
        pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->idle);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->mutex);
    dt_free(t->threads);
    dt_free(t);
}

void dti_decoders_run(dti_decoders *t, int64_t n, void (*piece)(void *arg, int64_t i), void *arg)
{
    pthread_mutex_lock(&t->mutex);
    t->piece = piece;
    t->arg = arg;
    t->n = n;
    t->next = t->done = 0;
    if (t->n_threads > 0 && n > 1)
        pthread_cond_broadcast(&t->work);
    work_off(t);
    while (t->done < t->n)
        pthread_cond_wait(&t->idle, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
}
