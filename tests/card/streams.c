/* Streams, events, and what is put on streams. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/card/card.h"

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    card_lock();
    card_meant("cudaStreamCreateWithFlags");
    if (flags != cudaStreamNonBlocking)
        card_refuse("a stream that waits for the legacy one");
    *s = card_alloc(1, sizeof **s);
    (*s)->mood = card_draw();
    card_count[CARD_STREAM]++;
    return card_told(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    card_lock();
    if (card_captures(s))
        card_refuse("a stream is destroyed while it is captured");
    card_drop(&s->front);
    free(s);
    card_count[CARD_STREAM]--;
    return card_told(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    card_lock();
    card_meant("cudaEventCreateWithFlags");
    *e = card_alloc(1, sizeof **e);
    (*e)->keeps_time = (flags & cudaEventDisableTiming) == 0;
    card_count[CARD_EVENT]++;
    return card_told(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    card_lock();
    card_drop(&e->front);
    free(e);
    card_count[CARD_EVENT]--;
    return card_told(cudaSuccess);
}

/* A stream keeps its mood for a while, so that one may fall far behind another. */
card_node *card_add(cudaStream_t s, card_node *n)
{
    s->mood = card_draw() % 8 == 0 ? card_draw() : s->mood;
    n->order = s->mood;
    card_join(&n->after, &s->front);
    card_drop(&s->front);
    card_hold(&s->front, n);
    if (card_captures(s))
        card_hold(&card_now.nodes, n);
    else
        card_enqueue(n);
    return n;
}

/* Whether this is the piece of work that the environment says cannot be captured. */
static bool spoils(void)
{
    const char *at = getenv("DT_CARD_SPOIL");
    if (at == NULL || ++card_now.works != strtoul(at, NULL, 10))
        return false;
    card_now.bad = true;
    return true;
}

card_error card_put(cudaStream_t s, void (*run)(const void *given), const void *given, size_t bytes)
{
    if (s == NULL)
        card_refuse("work for the legacy stream, which waits for nobody here");
    if (card_captures(s) && spoils())
        return cudaErrorStreamCaptureUnsupported;
    if (card_captures(s) && card_now.bad)
        return cudaErrorStreamCaptureInvalidated;
    card_add(s, card_node_of(run, given, bytes));
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    card_lock();
    if (card_captures(s)) { /* SC, prohibited operations: "invalid to synchronize or query" */
        card_now.bad = true;
        return card_told(cudaErrorStreamCaptureUnsupported);
    }
    card_finish(&s->front);
    return card_told(cudaSuccess);
}

static void waits_for(const struct CUevent_st *e)
{
    if (e->keeps_time)
        card_refuse("a wait for an event that keeps times, which makes every wait slower");
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    card_lock();
    waits_for(e);
    return card_told(card_event_finish(e));
}

static void pass(const void *given)
{
    struct CUevent_st *e = *(struct CUevent_st *const *)given;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->when = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    e->passed = true;
}

/* "cudaEventRecord" in a capture keeps no time that could be asked for. */
static card_error record_time(cudaEvent_t e, cudaStream_t s)
{
    if (card_captures(s))
        card_refuse("an event that keeps times in a capture");
    e->passed = false;
    return card_put(s, pass, &e, sizeof e);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    card_lock();
    return card_told(e->keeps_time ? record_time(e, s) : card_record(e, s));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    card_lock();
    if (!from->keeps_time || !to->keeps_time)
        return card_told(cudaErrorInvalidResourceHandle);
    if (!from->passed || !to->passed)
        return card_told(cudaErrorNotReady);
    *ms = (float)(1e3 * (to->when - from->when));
    return card_told(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    card_lock();
    waits_for(e);
    return card_told(flags != 0 ? cudaErrorInvalidValue : card_wait(s, e));
}

/* ---- copies and fills ---- */

typedef struct move {
    void *to;
    const void *from;
    size_t bytes;
} move;

static void do_move(const void *given)
{
    const move *m = given;
    memcpy(m->to, m->from, m->bytes);
}

typedef struct fill {
    void *to;
    size_t bytes;
    int byte;
} fill;

static void do_fill(const void *given)
{
    const fill *f = given;
    memset(f->to, f->byte, f->bytes);
}

/* A copy from or to memory of the host that is neither pinned nor registered stops the thread until
 * it is done (Runtime API, "API synchronization behavior"). That is for what is read and written
 * between steps: where anything is under way or captured, a run would lose time without a word. */
static card_error copy_at_rest(cudaStream_t s, const move *m)
{
    if (!card_captures(s))
        card_finish(&s->front);
    if (card_captures(s) || !card_idle())
        card_refuse("a copy of %zu bytes of the host that are neither pinned nor registered, while "
                    "other work is under way",
            m->bytes);
    const card_error e = card_put(s, do_move, m, sizeof *m);
    card_finish(&s->front);
    return e;
}

cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    const move m = {to, from, bytes};
    card_lock();
    const card_where a = card_find(to, bytes), b = card_find(from, bytes);
    if (kind != cudaMemcpyDefault && kind != cudaMemcpyDeviceToDevice)
        return card_told(cudaErrorInvalidMemcpyDirection);
    if (a == CARD_CUT || b == CARD_CUT)
        return card_told(cudaErrorInvalidValue);
    if (a == CARD_NOWHERE || b == CARD_NOWHERE)
        return card_told(copy_at_rest(s, &m));
    return card_told(card_put(s, do_move, &m, sizeof m));
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t s)
{
    const fill f = {to, bytes, byte};
    card_lock();
    if (card_find(to, bytes) != CARD_ON_DEVICE)
        return card_told(cudaErrorInvalidValue);
    return card_told(card_put(s, do_fill, &f, sizeof f));
}
