/* Streams, events, and what is put on streams. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    card_lock();
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
    if ((flags & cudaEventDisableTiming) == 0)
        card_refuse("an event that keeps times, which makes every wait slower");
    *e = card_alloc(1, sizeof **e);
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

card_error card_put(cudaStream_t s, void (*run)(const void *given), const void *given, size_t bytes)
{
    if (s == NULL)
        card_refuse("work for the legacy stream, which waits for nobody here");
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

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    card_lock();
    return card_told(card_event_finish(e));
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    card_lock();
    return card_told(card_record(e, s));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    card_lock();
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
