/* A model of CUDA's runtime on the processor, as strict as a card or stricter: what the project
 * calls of it, under the same names, as cuda_runtime_api.h declares it. References are to the CUDA
 * C++ Programming Guide (section CUDA Graphs, "Creating a graph using stream capture", here SC) and
 * to the Runtime API's page of each function.
 *
 * Nothing is done when it is put on a stream. It becomes a node that names those before it, and is
 * done when somebody waits, after them, in an order that is drawn (environment DT_CARD_SEED). So a
 * stream is the nodes that its next one comes after, an event is such nodes as they were when it
 * was recorded, and a capture gathers nodes that a launch of the graph copies.
 *
 * With DT_CARD_SPOIL = n in the environment the n-th piece of work of a capture is such as cannot
 * be captured, as calls of libraries may be.
 *
 * What a card would not notice, and a run must never do, ends the process with code 70. */
#ifndef DT_TESTS_CARD_CARD_H
#define DT_TESTS_CARD_CARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned card_error; /* a cudaError_t; CUDA's types by their tags: where it is not, too */
typedef struct card_node card_node;

/* Nodes, each held once. */
typedef struct card_nodes {
    card_node **at;
    size_t n, cap;
} card_nodes;

/* @run: NULL: only a place where others meet
 * @by: the thread that has put it there
 * @order: drawn; of what may be done next, the least is */
struct card_node {
    void (*run)(const void *given);
    void *given; /* a copy */
    size_t bytes;
    pthread_t by;
    card_nodes after;
    unsigned order, users, index;
    bool done;
};

/* @front: what its next node comes after; while it is captured, within the capture
 * @before: the front that a capture found
 * @capture: the number of the capture that it was last in; 0: none
 * @mood: order of its nodes for a while */
struct CUstream_st {
    card_nodes front, before;
    uint64_t capture;
    unsigned mood;
};

/* @capture: in which it was last recorded; 0: in none
 * @keeps_time @passed @when: it is there for times, and nobody waits for it; in seconds */
struct CUevent_st {
    card_nodes front;
    uint64_t capture;
    bool keeps_time, passed;
    double when;
};

/* What there is of a kind, to tell at the end what was not given back. */
typedef enum card_kind {
    CARD_STREAM,
    CARD_EVENT,
    CARD_GRAPH,
    CARD_EXEC,
    CARD_DEVICE, /* allocations */
    CARD_PINNED,
    CARD_REGISTERED,
    CARD_KINDS
} card_kind;
extern long card_count[CARD_KINDS];

/* Every function of the runtime is one lock. Their results go through card_told, for
 * cudaGetLastError. */
void card_lock(void);
card_error card_told(card_error e);    /* unlocks */
void card_wait_for(pthread_cond_t *c); /* unlocked meanwhile */

void *card_alloc(size_t count, size_t bytes); /* zeros */
void card_meant(const char *call);            /* refuses it in a thread that means another card */
__attribute__((noreturn, format(printf, 1, 2))) void card_refuse(const char *format, ...);

/* ---- nodes ---- */

void card_hold(card_nodes *to, card_node *n);
void card_join(card_nodes *to, const card_nodes *from);
void card_drop(card_nodes *of);
card_node *card_node_of(void (*run)(const void *), const void *given, size_t bytes);
unsigned card_draw(void);
void card_enqueue(card_node *n);        /* to be done once all before it are; takes it over */
void card_finish(const card_nodes *of); /* do what is necessary for these, and perhaps more */
bool card_idle(void);                   /* nothing of this thread's waits */
bool card_at_rest(const void *from, size_t bytes); /* nothing that waits was given this memory */

/* ---- streams ---- */

/* Put work on a stream, captured or not; pointers in what it is given are the device's. */
card_error card_put(
    struct CUstream_st *s, void (*run)(const void *given), const void *given, size_t bytes);
card_error card_safe(void); /* whether this thread may make calls that are unsafe in a capture */
card_error card_record(struct CUevent_st *e, struct CUstream_st *s);
card_error card_wait(struct CUstream_st *s, struct CUevent_st *e);
card_error card_event_finish(struct CUevent_st *e);

/* The capture under way, or none. @bad: it was made invalid; @works: pieces of work put into it */
typedef struct card_capture {
    bool active, bad;
    unsigned works;
    uint64_t number;
    struct CUstream_st *origin;
    card_nodes nodes;
} card_capture;
extern card_capture card_now;

bool card_captures(const struct CUstream_st *s);
void card_take(struct CUstream_st *s); /* into the capture */
card_node *card_add(
    struct CUstream_st *s, card_node *n); /* behind what the stream has; takes it over */

/* ---- memory ---- */

/* A range that a copy or fill names. */
typedef enum card_where { CARD_NOWHERE, CARD_CUT, CARD_ON_DEVICE, CARD_ON_HOST } card_where;
card_where card_find(const void *p, size_t bytes);
void card_open(bool yes); /* whether the device's memory may be touched */
/* Refuse what is given if an address in it is of memory that the device does not reach. */
void card_check_given(const char *what, const void *given, size_t bytes);

#endif
