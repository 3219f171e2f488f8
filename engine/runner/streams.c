/* Threads that carry streams, and the events between them. */
#include "engine/runner/streams.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/thread.h"

enum { NOTHING = -1 };

typedef struct lane {
    pthread_t thread;
    pthread_cond_t wake; /* for whatever it waits */
    bool has_cond, running;
    int team;        /* that it computes with */
    bool begin;      /* a run wants it */
    int32_t waiting; /* the event it waits for */
    dt_err err;
} lane;

typedef struct start {
    struct dt_streams *s;
    int stream;
} start;

/* All but the atomic is under the mutex. */
struct dt_streams {
    pthread_mutex_t mutex;
    bool has_mutex, quit;
    atomic_bool stopped;
    uint64_t run;    /* number of the run, from 1 */
    uint64_t *event; /* the last run in which it happened */
    int32_t n_event;
    int active, failed; /* streams not at rest; the first that failed */
    dt_status status;
    dti_stream_body body;
    void *arg;
    double stalled;
    lane lane[DT_MAX_STREAMS]; /* by stream */
    start start[DT_MAX_STREAMS];
};

static void stop(dt_streams *s, int failed, dt_status st)
{
    if (s->failed != NOTHING)
        return;
    s->failed = failed;
    s->status = st;
    atomic_store(&s->stopped, true);
    for (int i = 0; i < DT_MAX_STREAMS; i++)
        if (s->lane[i].waiting != NOTHING)
            pthread_cond_signal(&s->lane[i].wake);
}

/* The stream's part of a run. Called with the mutex held, which the body is not. */
static void run_body(dt_streams *s, int i)
{
    dt_err *err = &s->lane[i].err;
    dt_err_clear(err);
    pthread_mutex_unlock(&s->mutex);
    const dt_status st = s->body(s->arg, i, err);
    pthread_mutex_lock(&s->mutex);
    if (st != DT_OK)
        stop(s, i, st);
}

static void *stream_main(void *arg)
{
    dt_streams *s = ((start *)arg)->s;
    const int i = ((start *)arg)->stream;
    lane *me = &s->lane[i];
    dti_cpu_setup_with(me->team);
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (!me->begin && !s->quit)
            pthread_cond_wait(&me->wake, &s->mutex);
        if (s->quit)
            break;
        me->begin = false;
        run_body(s, i);
        if (--s->active == 0)
            pthread_cond_signal(&s->lane[0].wake);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

static int start_lane(dt_streams *s, int i)
{
    s->start[i] = (start){s, i};
    const int e = dt_thread_start(&s->lane[i].thread, 0, stream_main, &s->start[i]);
    s->lane[i].running = e == 0;
    return e;
}

static dt_status start_all(dt_streams *s, const int team[DT_MAX_STREAMS], dt_err *err)
{
    s->has_mutex = pthread_mutex_init(&s->mutex, NULL) == 0;
    bool ok = s->has_mutex;
    for (int i = 0; i < DT_MAX_STREAMS && ok; i++) {
        s->lane[i].waiting = NOTHING;
        ok = s->lane[i].has_cond = pthread_cond_init(&s->lane[i].wake, NULL) == 0;
    }
    for (int i = 1; i < DT_MAX_STREAMS && ok; i++) {
        s->lane[i].team = team[i];
        ok = team[i] == 0 || start_lane(s, i) == 0;
    }
    return ok ? DT_OK
              : DT_FAIL(
                    err, DT_E_NOMEM, "the machine gives no thread for a stream" DT_THREADS_ADVICE);
}

dt_status dti_streams_create(dt_streams **out, const int team[DT_MAX_STREAMS], dt_err *err)
{
    *out = NULL;
    dt_streams *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for streams");
    const dt_status st = start_all(s, team, err);
    if (st != DT_OK) {
        dti_streams_destroy(s);
        return st;
    }
    *out = s;
    return DT_OK;
}

void dti_streams_destroy(dt_streams *s)
{
    if (s == NULL)
        return;
    if (s->has_mutex) {
        pthread_mutex_lock(&s->mutex);
        s->quit = true;
        for (int i = 0; i < DT_MAX_STREAMS; i++)
            if (s->lane[i].running)
                pthread_cond_signal(&s->lane[i].wake);
        pthread_mutex_unlock(&s->mutex);
    }
    for (int i = 0; i < DT_MAX_STREAMS; i++) {
        if (s->lane[i].running)
            pthread_join(s->lane[i].thread, NULL);
        if (s->lane[i].has_cond)
            pthread_cond_destroy(&s->lane[i].wake);
    }
    if (s->has_mutex)
        pthread_mutex_destroy(&s->mutex);
    dt_free(s->event);
    dt_free(s);
}

bool dti_streams_threaded(const dt_streams *s, int stream)
{
    return s->lane[stream].running;
}

dt_status dti_streams_events(dt_streams *s, int32_t n, dt_err *err)
{
    if (n <= s->n_event)
        return DT_OK;
    uint64_t *event = dt_alloc((size_t)n, sizeof *event);
    if (event == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for events");
    dt_free(s->event);
    s->event = event;
    s->n_event = n;
    return DT_OK;
}

static void begin_run(dt_streams *s, unsigned mask, dti_stream_body body, void *arg)
{
    s->run++;
    s->failed = NOTHING;
    s->status = DT_OK;
    atomic_store(&s->stopped, false);
    s->body = body;
    s->arg = arg;
    for (int i = 1; i < DT_MAX_STREAMS; i++)
        if ((mask >> i & 1) != 0 && s->lane[i].running) {
            s->lane[i].begin = true;
            s->active++;
            pthread_cond_signal(&s->lane[i].wake);
        }
}

dt_status dti_streams_run(
    dt_streams *s, unsigned mask, dti_stream_body body, void *arg, dt_err *err)
{
    pthread_mutex_lock(&s->mutex);
    begin_run(s, mask, body, arg);
    run_body(s, 0);
    if (s->active > 0) {
        const double from = dt_seconds();
        while (s->active > 0)
            pthread_cond_wait(&s->lane[0].wake, &s->mutex);
        s->stalled += dt_seconds() - from;
    }
    const dt_status st = s->status;
    if (st != DT_OK)
        (void)dt_err_append(err, st, s->lane[s->failed].err.text);
    pthread_mutex_unlock(&s->mutex);
    return st;
}

uint64_t dti_streams_runs(const dt_streams *s)
{
    return s->run;
}

void dti_stream_signal(dt_streams *s, int32_t event)
{
    pthread_mutex_lock(&s->mutex);
    s->event[event] = s->run;
    for (int i = 0; i < DT_MAX_STREAMS; i++)
        if (s->lane[i].waiting == event)
            pthread_cond_signal(&s->lane[i].wake);
    pthread_mutex_unlock(&s->mutex);
}

static bool must_wait(const dt_streams *s, int32_t event)
{
    return s->event[event] != s->run && s->failed == NOTHING;
}

void dti_stream_wait(dt_streams *s, int stream, int32_t event)
{
    pthread_mutex_lock(&s->mutex);
    if (must_wait(s, event)) {
        const double from = stream == 0 ? dt_seconds() : 0;
        s->lane[stream].waiting = event;
        while (must_wait(s, event))
            pthread_cond_wait(&s->lane[stream].wake, &s->mutex);
        s->lane[stream].waiting = NOTHING;
        if (stream == 0)
            s->stalled += dt_seconds() - from;
    }
    pthread_mutex_unlock(&s->mutex);
}

bool dti_streams_stopped(const dt_streams *s)
{
    return atomic_load(&s->stopped);
}

double dti_streams_stalled(const dt_streams *s)
{
    return s->stalled;
}

void dti_streams_forget(dt_streams *s)
{
    s->stalled = 0;
}
