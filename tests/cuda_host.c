#define _XOPEN_SOURCE 700
#include "tests/cuda_host.h"

#include <setjmp.h>
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

/* What a thread runs on. One that ends hands it to the next that has not begun: threads that never
 * wait for each other share one, without a switch. Only its first turn needs a call of the
 * kernel's, which a switch by ucontext would make every time. */
typedef struct fiber {
    ucontext_t begin;
    jmp_buf at;
    char *stack;
    bool begun;
} fiber;

static struct turns {
    jmp_buf main;
    fiber fiber[MOST_THREADS];
    unsigned idle[MOST_THREADS], n_idle, made, running; /* numbers of fibers */
    unsigned on[MOST_THREADS];                          /* whose thread waits there */
    bool begun[MOST_THREADS], done[MOST_THREADS];
    unsigned n, now, turn, left;
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
    const unsigned me = turns.running;
    turns.on[turns.now] = me;
    leave(&fake, turns.main_stack, turns.main_bytes);
    if (_setjmp(turns.fiber[me].at) == 0)
        _longjmp(turns.main, 1);
    arrive(fake);
}

/* Whose turn it is: the last thread's first when they go backwards. */
static unsigned thread_of(unsigned turn)
{
    return dt_host_backwards ? turns.n - 1 - turn : turn;
}

static void become(unsigned i)
{
    turns.now = i;
    turns.begun[i] = true;
    dt_host_thread = (dt_host_index){i, 0, 0};
}

/* A fiber's life: one thread after the other. */
static void body(void)
{
    arrive(NULL);
    for (;;) {
        turns.kernel(turns.given);
        turns.done[turns.now] = true;
        turns.left--;
        turns.moves++;
        if (turns.turn + 1 < turns.n && !turns.begun[thread_of(turns.turn + 1)]) {
            become(thread_of(++turns.turn));
            continue;
        }
        turns.idle[turns.n_idle++] = turns.running;
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

static unsigned make_fiber(void)
{
    fiber *const f = &turns.fiber[turns.made];
    f->stack = malloc(STACK);
    assert_non_null(f->stack);
    assert_int_equal(getcontext(&f->begin), 0);
    f->begin.uc_stack.ss_sp = f->stack;
    f->begin.uc_stack.ss_size = STACK;
    f->begin.uc_link = NULL;
    makecontext(&f->begin, body, 0);
    return turns.made++;
}

static void go_on(fiber *f)
{
    if (f->begun)
        _longjmp(f->at, 1);
    f->begun = true;
    (void)setcontext(&f->begin);
}

static void give_turn(unsigned i)
{
    void *fake = NULL;
    if (turns.begun[i])
        turns.running = turns.on[i];
    else
        turns.running = turns.n_idle > 0 ? turns.idle[--turns.n_idle] : make_fiber();
    become(i);
    fiber *const f = &turns.fiber[turns.running];
    leave(&fake, f->stack, STACK);
    if (_setjmp(turns.main) == 0)
        go_on(f);
    turns.now = turns.n;
    arrive(fake);
}

static void run_block(void)
{
    memset(&turns.block, 0, sizeof turns.block);
    memset(turns.warp, 0, sizeof turns.warp);
    memset(turns.begun, 0, turns.n);
    memset(turns.done, 0, turns.n);
    turns.left = turns.n;
    while (turns.left > 0) {
        const unsigned long before = turns.moves;
        for (turns.turn = 0; turns.turn < turns.n; turns.turn++)
            if (!turns.done[thread_of(turns.turn)])
                give_turn(thread_of(turns.turn));
        if (turns.moves == before)
            fail_msg("threads of a block wait for others that are gone or wait elsewhere");
    }
}

void dt_host_run(const dt_host_job *job, const void *given)
{
    const unsigned x = job->x, y = job->y, threads = job->threads;
    assert_true(x > 0 && y > 0 && threads > 0 && threads <= MOST_THREADS && threads % WARP == 0);
    assert_true(job->shared <= 227 << 10);
    dt_host_launches++;
    turns.n = threads;
    turns.kernel = job->kernel;
    turns.given = given;
    dt_host_threads = (dt_host_index){threads, 1, 1};
    dt_host_blocks = (dt_host_index){x, y, 1};
    for (uint64_t k = 0; k < (uint64_t)x * y; k++) {
        const uint64_t b = dt_host_backwards ? (uint64_t)x * y - 1 - k : k;
        dt_host_block = (dt_host_index){(unsigned)(b % x), (unsigned)(b / x), 0};
        run_block();
    }
}
