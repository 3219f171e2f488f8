/* Stream capture, and the graphs that it makes. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/card/card.h"

card_capture card_now;
static pthread_t began_by; /* the capture */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

/* The streams that the capture has taken, its origin first. */
static struct {
    cudaStream_t *at;
    size_t n, cap;
} taken;

bool card_captures(const struct CUstream_st *s)
{
    return card_now.active && s->capture == card_now.number;
}

card_error card_safe(void)
{
    if (!card_now.active || !pthread_equal(began_by, pthread_self()))
        return cudaSuccess;
    card_now.bad = true; /* cudaThreadExchangeStreamCaptureMode: "prohibited from potentially
                            unsafe API calls", such as cudaMalloc */
    return cudaErrorStreamCaptureUnsupported;
}

/* What was on the stream stays before what comes after the capture, not before what is in it. */
void card_take(cudaStream_t s)
{
    if (taken.n == taken.cap) {
        taken.cap = 2 * taken.cap + 4;
        taken.at = realloc(taken.at, taken.cap * sizeof *taken.at);
        if (taken.at == NULL)
            card_refuse("the model has no memory");
    }
    taken.at[taken.n++] = s;
    s->capture = card_now.number;
    s->before = s->front;
    s->front = (card_nodes){0};
}

/* ---- events ---- */

card_error card_record(cudaEvent_t e, cudaStream_t s)
{
    const bool captured = card_captures(s);
    if (captured && card_now.bad)
        return cudaErrorStreamCaptureInvalidated;
    card_drop(&e->front);
    card_join(&e->front, &s->front);
    e->capture = captured ? card_now.number : 0;
    return cudaSuccess;
}

/* SC, cross-stream dependencies: an event of the capture brings the stream into it. The node that
 * is added then has to be joined even if nothing follows. */
static void follow(cudaStream_t s, cudaEvent_t e)
{
    const bool joins = !card_captures(s);
    if (joins)
        card_take(s);
    card_join(&s->front, &e->front);
    if (joins)
        card_add(s, card_node_of(NULL, NULL, 0));
}

card_error card_wait(cudaStream_t s, cudaEvent_t e)
{
    const bool inside = card_now.active && e->capture == card_now.number;
    if (inside && card_now.bad)
        return cudaErrorStreamCaptureInvalidated;
    if (inside) {
        follow(s, e);
        return cudaSuccess;
    }
    if (card_captures(s)) { /* "only implicit in-stream ordering dependencies are allowed to cross
                               the boundary" (cudaErrorStreamCaptureIsolation) */
        card_now.bad = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (e->capture != 0) /* its nodes are a graph's, and have not been put anywhere */
        return cudaErrorCapturedEvent;
    card_join(&s->front, &e->front);
    return cudaSuccess;
}

card_error card_event_finish(cudaEvent_t e)
{
    if (e->capture != 0) { /* SC: "a captured event ... does not represent execution" */
        card_now.bad = card_now.bad || (card_now.active && e->capture == card_now.number);
        return cudaErrorCapturedEvent;
    }
    card_finish(&e->front);
    return cudaSuccess;
}

/* ---- capture ---- */

/* The model knows one capture at a time: another thread waits for its end. */
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    card_lock();
    while (card_now.active && !pthread_equal(began_by, pthread_self()))
        card_wait_for(&ended);
    if (card_now.active || mode != cudaStreamCaptureModeThreadLocal)
        return card_told(cudaErrorIllegalState);
    card_now = (card_capture){.active = true, .number = card_now.number + 1, .origin = s};
    began_by = pthread_self();
    card_take(s);
    return card_told(cudaSuccess);
}

/* Marks what comes before these nodes, and them; gives how many were not marked. */
static size_t reach(const card_nodes *of)
{
    size_t n = 0;
    for (size_t i = 0; i < of->n; i++)
        if (of->at[i]->index == 0) {
            of->at[i]->index = 1;
            n += 1 + reach(&of->at[i]->after);
        }
    return n;
}

/* "Capture must be ended on the same stream in which it was initiated", "from the same thread",
 * "if capture was invalidated ... a NULL graph will be returned" (cudaStreamBeginCapture,
 * cudaStreamEndCapture); all streams of it must have been joined to that one (SC). */
static card_error verdict(void)
{
    if (!pthread_equal(began_by, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    if (card_now.bad)
        return cudaErrorStreamCaptureInvalidated;
    return reach(&card_now.origin->front) == card_now.nodes.n ? cudaSuccess
                                                              : cudaErrorStreamCaptureUnjoined;
}

static void end(void)
{
    for (size_t i = 0; i < taken.n; i++) {
        card_drop(&taken.at[i]->front);
        taken.at[i]->front = taken.at[i]->before;
        taken.at[i]->before = (card_nodes){0};
    }
    taken.n = 0;
    card_now.active = false;
    pthread_cond_broadcast(&ended);
}

struct CUgraph_st {
    card_nodes nodes;
};

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    card_lock();
    *graph = NULL;
    if (!card_captures(s))
        return card_told(cudaErrorIllegalState);
    if (s != card_now.origin) {
        card_now.bad = true;
        return card_told(cudaErrorStreamCaptureUnmatched);
    }
    const card_error e = verdict();
    if (e == cudaErrorStreamCaptureWrongThread)
        return card_told(e);
    end();
    if (e != cudaSuccess) {
        card_drop(&card_now.nodes);
        return card_told(e);
    }
    *graph = card_alloc(1, sizeof **graph);
    (*graph)->nodes = card_now.nodes;
    card_now.nodes = (card_nodes){0};
    card_count[CARD_GRAPH]++;
    return card_told(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    card_lock();
    card_drop(&graph->nodes);
    free(graph);
    card_count[CARD_GRAPH]--;
    return card_told(cudaSuccess);
}

/* ---- executable graphs ---- */

/* @last: the end of its last launch */
struct CUgraphExec_st {
    card_nodes nodes, last;
};

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    card_lock();
    if (flags != 0)
        return card_told(cudaErrorInvalidValue);
    *exec = card_alloc(1, sizeof **exec);
    card_join(&(*exec)->nodes, &graph->nodes);
    card_count[CARD_EXEC]++;
    return card_told(cudaSuccess);
}

/* A launch "is ordered behind both any previous work in stream and any previous launches of
 * graphExec" (cudaGraphLaunch); an upload likewise. */
static card_node *begin(cudaGraphExec_t exec, cudaStream_t s)
{
    card_node *n = card_node_of(NULL, NULL, 0);
    card_join(&n->after, &exec->last);
    return card_add(s, n);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s)
{
    card_lock();
    if (card_captures(s))
        return card_told(cudaErrorStreamCaptureUnsupported);
    begin(exec, s);
    return card_told(cudaSuccess);
}

/* Node i's copy, after the copies of those before it. */
static card_node *copy_of(const card_node *n, card_node *const *copies, card_node *first)
{
    card_node *c = card_node_of(n->run, n->given, n->bytes);
    c->order = card_draw();
    card_hold(&c->after, first);
    for (size_t i = 0; i < n->after.n; i++)
        card_hold(&c->after, copies[n->after.at[i]->index]);
    card_enqueue(c);
    return c;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    card_lock();
    if (card_captures(s))
        return card_told(cudaErrorStreamCaptureUnsupported);
    const size_t n = exec->nodes.n;
    card_node *const first = begin(exec, s), *const all = card_node_of(NULL, NULL, 0);
    card_node **copy = card_alloc(n, sizeof(card_node *));
    for (size_t i = 0; i < n; i++) { /* as captured: each after those before it */
        exec->nodes.at[i]->index = (unsigned)i;
        copy[i] = copy_of(exec->nodes.at[i], copy, first);
        card_hold(&all->after, copy[i]);
    }
    free(copy);
    card_add(s, all);
    card_drop(&exec->last);
    card_hold(&exec->last, all);
    return card_told(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    card_lock();
    card_drop(&exec->nodes);
    card_drop(&exec->last);
    free(exec);
    card_count[CARD_EXEC]--;
    return card_told(cudaSuccess);
}
