/* Streams: the calling thread is stream 0; others may have a thread each, made at the start, asleep
 * between runs. A run hands every stream that takes part the same body and ends when all are at
 * rest; between streams there are events. Nothing is allocated in a run, and nobody spins. */
#ifndef DT_ENGINE_RUNNER_STREAMS_H
#define DT_ENGINE_RUNNER_STREAMS_H

#include "engine/plan.h"

typedef struct dt_streams dt_streams;

/* What a stream does in a run. A failure stops the run: whoever waits is woken, and no stream
 * should begin anything more. */
typedef dt_status (*dti_stream_body)(void *arg, int stream, dt_err *err);

/* @team: by stream, how many threads its thread computes with; 0: it has no thread, which stream 0
 * never has. The threads take no signals. DT_E_NOMEM when the machine gives no more threads. */
dt_status dti_streams_create(
    dt_streams **out, const int team[DT_MAX_STREAMS], dt_err *err) DT_NODISCARD;
void dti_streams_destroy(dt_streams *s); /* NULL is fine */

bool dti_streams_threaded(const dt_streams *s, int stream);

/* Room for the events 0 .. n - 1. Between runs. */
dt_status dti_streams_events(dt_streams *s, int32_t n, dt_err *err) DT_NODISCARD;

/* Run the body on the streams of @mask and on stream 0, the calling thread. No event has happened
 * at the beginning. Returns the first failure, of any stream, whose trail @err becomes; another run
 * may follow. */
dt_status dti_streams_run(
    dt_streams *s, unsigned mask, dti_stream_body body, void *arg, dt_err *err) DT_NODISCARD;

uint64_t dti_streams_runs(const dt_streams *s); /* so far, the one under way included */

/* From bodies. Wait returns early when the run is stopped. */
void dti_stream_signal(dt_streams *s, int32_t event);
void dti_stream_wait(dt_streams *s, int stream, int32_t event);
bool dti_streams_stopped(const dt_streams *s);

/* Seconds that the calling thread has been blocked, in waits or until all were at rest. */
double dti_streams_stalled(const dt_streams *s);
void dti_streams_forget(dt_streams *s); /* count them from 0 again */

#endif
