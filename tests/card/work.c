/* Nodes: what has to be done, after what, and when it is. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/card/card.h"

enum { FAULT = 70 };

long card_count[CARD_KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static card_nodes waiting; /* not done yet */

void card_refuse(const char *format, ...)
{
    va_list args;
    fputs("card: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(FAULT);
}

void *card_alloc(size_t count, size_t bytes)
{
    void *p = calloc(count > 0 ? count : 1, bytes);
    if (p == NULL)
        card_refuse("the model has no memory");
    return p;
}

void card_lock(void)
{
    pthread_mutex_lock(&lock);
}

void card_wait_for(pthread_cond_t *c)
{
    pthread_cond_wait(c, &lock);
}

static _Thread_local card_error last;

card_error card_told(card_error e)
{
    pthread_mutex_unlock(&lock);
    last = e != cudaSuccess ? e : last;
    return e;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = (cudaError_t)last;
    last = cudaSuccess;
    return e;
}

unsigned card_draw(void)
{
    static uint64_t state;
    const char *seed = getenv("DT_CARD_SEED");
    if (state == 0)
        state = (seed != NULL ? strtoull(seed, NULL, 10) : 0) * 2 + 1;
    state += UINT64_C(0x9E3779B97F4A7C15);
    const uint64_t x = (state ^ state >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    return (unsigned)((x ^ x >> 27) * UINT64_C(0x94D049BB133111EB) >> 32);
}

static void let_go(card_node *n)
{
    if (--n->users > 0)
        return;
    card_drop(&n->after);
    free(n->given);
    free(n);
}

void card_hold(card_nodes *to, card_node *n)
{
    for (size_t i = 0; i < to->n; i++)
        if (to->at[i] == n)
            return;
    if (to->n == to->cap) {
        to->cap = 2 * to->cap + 4;
        to->at = realloc(to->at, to->cap * sizeof *to->at);
        if (to->at == NULL)
            card_refuse("the model has no memory");
    }
    to->at[to->n++] = n;
    n->users++;
}

void card_join(card_nodes *to, const card_nodes *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (!from->at[i]->done)
            card_hold(to, from->at[i]);
}

void card_drop(card_nodes *of)
{
    for (size_t i = 0; i < of->n; i++)
        let_go(of->at[i]);
    free(of->at);
    *of = (card_nodes){0};
}

card_node *card_node_of(void (*run)(const void *), const void *given, size_t bytes)
{
    card_node *n = card_alloc(1, sizeof *n);
    n->run = run;
    n->given = card_alloc(1, bytes);
    n->bytes = bytes;
    if (bytes > 0)
        memcpy(n->given, given, bytes);
    return n;
}

void card_enqueue(card_node *n)
{
    n->by = pthread_self();
    card_hold(&waiting, n);
}

static bool all_done(const card_nodes *of)
{
    for (size_t i = 0; i < of->n; i++)
        if (!of->at[i]->done)
            return false;
    return true;
}

/* Of what may be done, that of the least order. */
static size_t next(void)
{
    size_t best = waiting.n;
    for (size_t i = 0; i < waiting.n; i++)
        if ((best == waiting.n || waiting.at[i]->order < waiting.at[best]->order) &&
            all_done(&waiting.at[i]->after))
            best = i;
    return best;
}

void card_finish(const card_nodes *of)
{
    if (all_done(of))
        return;
    card_open(true);
    while (!all_done(of)) {
        const size_t i = next();
        card_node *n = waiting.at[i];
        waiting.at[i] = waiting.at[--waiting.n];
        if (n->run != NULL)
            n->run(n->given);
        n->done = true;
        card_drop(&n->after);
        let_go(n);
    }
    card_open(false);
}

bool card_idle(void)
{
    for (size_t i = 0; i < waiting.n; i++)
        if (pthread_equal(waiting.at[i]->by, pthread_self()))
            return false;
    return true;
}

bool card_at_rest(const void *from, size_t bytes)
{
    for (size_t i = 0; i < waiting.n; i++)
        for (size_t at = 0; at + sizeof(uintptr_t) <= waiting.at[i]->bytes;
             at += sizeof(uintptr_t)) {
            uintptr_t word;
            memcpy(&word, (const char *)waiting.at[i]->given + at, sizeof word);
            if (word - (uintptr_t)from < bytes)
                return false;
        }
    return true;
}

/* What a program leaves behind is told when it ends. */
__attribute__((destructor)) static void tell_left(void)
{
    static const char *const names[] = {"streams", "events", "graphs", "executable graphs",
        "blocks of the device's memory", "blocks of pinned memory", "registered ranges"};
    bool left = false;
    for (int k = 0; k < CARD_KINDS; k++)
        if (card_count[k] != 0) {
            fprintf(stderr, "card: %ld %s were not given back\n", card_count[k], names[k]);
            left = true;
        }
    if (left)
        _exit(FAULT);
}
