#define _XOPEN_SOURCE 700
#include "tests/cuda_host.h"

#include <stdlib.h>
#include <ucontext.h>

#include "tests/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

enum { MOST_THREADS = 1024, WARP = 32, STACK = 64 << 10 };

dt_host_index dt_host_thread, dt_host_block, dt_host_threads, dt_host_blocks;
bool dt_host_backwards;
unsigned long dt_host_launches;

/* Threads that wait for each other: a warp, or a block. */
struct meeting {
    unsigned here, met;
};

static struct turns {
    ucontext_t main, thread[MOST_THREADS];
    char *stack[MOST_THREADS];
    bool done[MOST_THREADS];
    unsigned n, now;
    unsigned long moves; /* meetings held and threads done: something happens */
    struct meeting block, warp[MOST_THREADS / WARP];
    double slot[MOST_THREADS];
    void (*kernel)(const void *given);
    const void *given;
    const void *main_stack;
    size_t main_bytes;
} turns;

/* Tell the address sanitizer, where there is one, which stack comes next. */
static void leave(void **fake, const void *stack, size_t bytes)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake, stack, bytes);
#else
    (void)fake, (void)stack, (void)bytes;
#endif
}

static void arrive(void *fake)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, turns.now == turns.n ? NULL : &turns.main_stack,
        turns.now == turns.n ? NULL : &turns.main_bytes);
#else
    (void)fake;
#endif
}

/* The other threads' turn. */
static void yield_turn(void)
{
    void *fake = NULL;
    const unsigned me = turns.now;
    leave(&fake, turns.main_stack, turns.main_bytes);
    swapcontext(&turns.thread[me], &turns.main);
    arrive(fake);
}

/* A thread's life: a kernel in each block it belongs to. */
static void body(void)
{
    arrive(NULL);
    for (;;) {
        turns.kernel(turns.given);
        turns.done[turns.now] = true;
        turns.moves++;
        yield_turn();
    }
}

static void meet(struct meeting *m, unsigned all)
{
    const unsigned met = m->met;
    if (++m->here == all) {
        m->here = 0;
        m->met++;
        turns.moves++;
    } else {
        while (m->met == met)
            yield_turn();
    }
}

void dt_host_barrier(void)
{
    meet(&turns.block, turns.n);
}

static void meet_warp(void)
{
    meet(&turns.warp[turns.now / WARP], WARP);
}

double dt_host_shuffle_xor(double v, int lanes)
{
    const unsigned me = turns.now;
    turns.slot[me] = v;
    meet_warp();
    const double other = turns.slot[me ^ (unsigned)lanes];
    meet_warp();
    return other;
}

unsigned dt_host_ballot(int yes)
{
    const unsigned me = turns.now, first = me / WARP * WARP;
    unsigned all = 0;
    turns.slot[me] = yes;
    meet_warp();
    for (unsigned i = 0; i < WARP; i++)
        all |= (turns.slot[first + i] > 0 ? 1u : 0u) << i;
    meet_warp();
    return all;
}

void dt_host_aligned(const void *p)
{
    if ((uintptr_t)p % 16 != 0)
        abort();
}

static void prepare(unsigned i)
{
    turns.done[i] = false;
    if (turns.stack[i] != NULL)
        return;
    turns.stack[i] = malloc(STACK);
    assert_non_null(turns.stack[i]);
    assert_int_equal(getcontext(&turns.thread[i]), 0);
    turns.thread[i].uc_stack.ss_sp = turns.stack[i];
    turns.thread[i].uc_stack.ss_size = STACK;
    turns.thread[i].uc_link = NULL;
    makecontext(&turns.thread[i], body, 0);
}

static void give_turn(unsigned i)
{
    void *fake = NULL;
    turns.now = i;
    dt_host_thread = (dt_host_index){i, 0, 0};
    leave(&fake, turns.stack[i], STACK);
    swapcontext(&turns.main, &turns.thread[i]);
    turns.now = turns.n;
    arrive(fake);
}

static void run_block(void)
{
    unsigned left = turns.n;
    memset(&turns.block, 0, sizeof turns.block);
    memset(turns.warp, 0, sizeof turns.warp);
    for (unsigned i = 0; i < turns.n; i++)
        prepare(i);
    while (left > 0) {
        const unsigned long before = turns.moves;
        for (unsigned k = 0; k < turns.n; k++) {
            const unsigned i = dt_host_backwards ? turns.n - 1 - k : k;
            if (turns.done[i])
                continue;
            give_turn(i);
            left -= turns.done[i] ? 1 : 0;
        }
        if (turns.moves == before)
            fail_msg("threads of a block wait for others that are gone or wait elsewhere");
    }
}

void dt_host_launch(
    void (*kernel)(const void *given), unsigned x, unsigned y, unsigned threads, const void *given)
{
    assert_true(x > 0 && y > 0 && threads > 0 && threads <= MOST_THREADS && threads % WARP == 0);
    dt_host_launches++;
    turns.n = threads;
    turns.kernel = kernel;
    turns.given = given;
    dt_host_threads = (dt_host_index){threads, 1, 1};
    dt_host_blocks = (dt_host_index){x, y, 1};
    for (uint64_t k = 0; k < (uint64_t)x * y; k++) {
        const uint64_t b = dt_host_backwards ? (uint64_t)x * y - 1 - k : k;
        dt_host_block = (dt_host_index){(unsigned)(b % x), (unsigned)(b / x), 0};
        run_block();
    }
}
