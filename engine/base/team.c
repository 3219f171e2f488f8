/* Helpers, what they wait for, and how tasks are handed out.
 *
 * A job's tasks lie in as many ranges as there are threads, and each thread begins with a range of
 * its own; when that is used up it goes on with those of others. A helper is let in through a gate,
 * which is open while there may be tasks left. The caller shuts it and waits until nobody is
 * inside; a helper that is late finds it shut. What describes the job is written while the gate is
 * shut and nobody inside, and read inside alone.
 */
#define _GNU_SOURCE /* syscall() */
#include "engine/base/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/thread.h"

enum {
    RANGES = 64, /* beyond so many threads, several begin with the same range */
    PIECES = 16, /* in which a range is taken */
    LINE = 64,
};
enum { OPEN = 1, AWAITED = 2, ONE_INSIDE = 4 }; /* bits of the gate */

/* How long a helper watches for the next job before it sleeps, and the caller for the end of the
 * last pieces: a little longer than most ops of small networks take alone. To be woken takes as
 * long as such an op. */
static const double watch_seconds = 200e-6;

/* A system that has refused a thread is asked for one again after so long, not with every job. */
static const double refused_seconds = 1;

/* Pieces [begin, end); a thread takes one by counting next up. */
typedef struct range {
    _Alignas(LINE) int64_t next;
    int64_t begin, end;
} range;

struct team;
typedef struct seat {
    struct team *team;
    pthread_t thread;
} seat;

/**
 * struct team - of one thread, which is its member 0.
 * @task @job @n: the job; @each: tasks of a piece; @size: members that may take part
 * @gate:    OPEN, AWAITED while the caller sleeps until nobody is inside, and how many are inside
 * @calls:   jobs so far; helpers wait for it to change
 * @asleep:  helpers that have to be woken for that
 * @denormals: how the caller treats them, and so does who helps
 * @resting: helpers sleep at once instead of watching
 * @helpers: that have started, members 1 to @helpers
 * @refused: when the system last refused one; 0: never
 */
typedef struct team {
    dt_team_task *task;
    const void *job;
    int64_t n, each;
    int size, ranges;
    bool backwards;
    uint8_t denormals;
    uint32_t gate, calls, asleep;
    bool resting, quit;
    int helpers;
    double refused;
    range range[RANGES];
    seat seat[DT_CPU_THREADS];
} team;

static _Thread_local team own;
static _Thread_local int member;
static _Thread_local bool busy; /* with a task */

/* ---- waiting ---- */

static void sleep_while(uint32_t *word, uint32_t is)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, NULL, NULL, 0);
}

static void wake(uint32_t *word, int threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

static void pause_a_little(void)
{
    for (int i = 0; i < 8; i++)
        dt_pause();
}

/* ---- tasks ---- */

static void do_piece(const team *t, int64_t piece)
{
    const int64_t begin = piece * t->each, end = t->n - begin < t->each ? t->n : begin + t->each;
    if (t->backwards)
        for (int64_t i = end; i-- > begin;)
            t->task(t->job, i);
    else
        for (int64_t i = begin; i < end; i++)
            t->task(t->job, i);
}

static int64_t pieces(const team *t)
{
    return (t->n + t->each - 1) / t->each;
}

/* The next piece: of the member's own range, then of the others'; -1 when all are taken. Backwards
 * a member has the same range, as what it worked on before lies in its own core's cache. */
static int64_t take(team *t, int *at)
{
    for (int tried = 0; tried < t->ranges; tried++) {
        range *r = &t->range[*at];
        const int64_t i = __atomic_load_n(&r->next, __ATOMIC_RELAXED) < r->end
                              ? __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED)
                              : r->end;
        if (i < r->end)
            return t->backwards ? r->begin + r->end - 1 - i : i;
        *at = (*at + 1) % t->ranges;
    }
    return -1;
}

/* ---- helpers ---- */

static bool enter(team *t)
{
    uint32_t gate = __atomic_load_n(&t->gate, __ATOMIC_RELAXED);
    while ((gate & OPEN) != 0)
        if (__atomic_compare_exchange_n(
                &t->gate, &gate, gate + ONE_INSIDE, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
    return false;
}

static void leave(team *t)
{
    if (__atomic_sub_fetch(&t->gate, ONE_INSIDE, __ATOMIC_ACQ_REL) == AWAITED)
        wake(&t->gate, 1);
}

static void help(team *t)
{
    int64_t piece;
    int at = member % t->ranges;
    dti_cpu_set_denormals(t->denormals);
    while (member < t->size && (piece = take(t, &at)) >= 0)
        do_piece(t, piece);
}

/* The number of the next job: watch for it for a while, then sleep. */
static uint32_t next_call(team *t, uint32_t seen)
{
    const double until = dt_seconds() + watch_seconds;
    uint32_t calls;
    while ((calls = __atomic_load_n(&t->calls, __ATOMIC_SEQ_CST)) == seen) {
        if (!__atomic_load_n(&t->resting, __ATOMIC_RELAXED) && dt_seconds() < until) {
            pause_a_little();
            continue;
        }
        __atomic_add_fetch(&t->asleep, 1, __ATOMIC_SEQ_CST);
        sleep_while(&t->calls, seen);
        __atomic_sub_fetch(&t->asleep, 1, __ATOMIC_SEQ_CST);
    }
    return calls;
}

static void *helper(void *arg)
{
    team *t = ((seat *)arg)->team;
    uint32_t seen = 0;
    member = (int)((seat *)arg - t->seat);
    busy = true;
    dti_cpu_setup_alone();
    for (;;) {
        seen = next_call(t, seen);
        if (__atomic_load_n(&t->quit, __ATOMIC_ACQUIRE))
            return NULL;
        if (enter(t)) {
            help(t);
            leave(t);
        }
    }
}

/* ---- the team ---- */

static pthread_key_t at_exit; /* of a thread that has helpers */
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void call(team *t)
{
    __atomic_add_fetch(&t->calls, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&t->asleep, __ATOMIC_SEQ_CST) > 0)
        wake(&t->calls, t->helpers);
}

static void dismiss(void *arg)
{
    team *t = arg;
    __atomic_store_n(&t->quit, true, __ATOMIC_RELEASE);
    call(t);
    for (int i = 1; i <= t->helpers; i++)
        pthread_join(t->seat[i].thread, NULL);
    t->helpers = 0;
}

/* A child process has the thread that made it and none of its helpers. */
static void in_child(void)
{
    own.helpers = 0;
    own.gate = own.calls = own.asleep = 0;
}

static void prepare(void)
{
    has_key = pthread_key_create(&at_exit, dismiss) == 0;
    pthread_atfork(NULL, NULL, in_child);
}

static void hire(team *t, int size)
{
    if (t->refused > 0 && dt_seconds() < t->refused + refused_seconds)
        return;
    pthread_once(&once, prepare);
    if (!has_key || pthread_setspecific(at_exit, t) != 0) { /* nobody would dismiss them */
        t->refused = dt_seconds();
        return;
    }
    while (t->helpers < size - 1) {
        seat *s = &t->seat[t->helpers + 1];
        s->team = t;
        if (dt_thread_start(&s->thread, 0, helper, s) != 0) {
            t->refused = dt_seconds();
            break;
        }
        t->helpers++;
    }
}

static void open_gate(team *t)
{
    const int64_t all = pieces(t);
    for (int i = 0; i < t->ranges; i++) {
        range *r = &t->range[i];
        r->begin = all * i / t->ranges;
        r->end = all * (i + 1) / t->ranges;
        __atomic_store_n(&r->next, r->begin, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&t->gate, OPEN, __ATOMIC_RELEASE);
    call(t);
}

static void shut_gate(team *t)
{
    uint32_t gate = __atomic_and_fetch(&t->gate, ~(uint32_t)OPEN, __ATOMIC_ACQUIRE);
    if (gate == 0)
        return;
    const double until = dt_seconds() + watch_seconds;
    while ((gate = __atomic_load_n(&t->gate, __ATOMIC_ACQUIRE)) != 0 && dt_seconds() < until)
        pause_a_little();
    if (gate == 0)
        return;
    gate = __atomic_or_fetch(&t->gate, AWAITED, __ATOMIC_ACQUIRE);
    while (gate != AWAITED) {
        sleep_while(&t->gate, gate);
        gate = __atomic_load_n(&t->gate, __ATOMIC_ACQUIRE);
    }
}

static void run_alone(int64_t n, dt_team_task *task, const void *job, bool backwards)
{
    for (int64_t i = 0; i < n; i++)
        task(job, backwards ? n - 1 - i : i);
}

static void run(int64_t n, dt_team_task *task, const void *job, bool backwards)
{
    team *t = &own;
    const int size = busy || n <= 1 ? 1 : dt_cpu_threads();
    if (size > 1 && t->helpers < size - 1 && size <= DT_CPU_THREADS)
        hire(t, size);
    if (size == 1 || t->helpers == 0) {
        run_alone(n, task, job, backwards);
        return;
    }
    t->task = task;
    t->job = job;
    t->n = n;
    t->size = size;
    t->ranges = size < RANGES ? size : RANGES;
    t->each = (n + (int64_t)t->ranges * PIECES - 1) / ((int64_t)t->ranges * PIECES);
    t->backwards = backwards;
    t->denormals = dti_cpu_denormals();
    __atomic_store_n(&t->resting, false, __ATOMIC_RELAXED);
    busy = true;
    open_gate(t);
    int64_t piece;
    for (int at = 0; (piece = take(t, &at)) >= 0;)
        do_piece(t, piece);
    shut_gate(t);
    busy = false;
}

void dt_team_run(int64_t n, dt_team_task *task, const void *job)
{
    run(n, task, job, false);
}

void dt_team_run_back(int64_t n, dt_team_task *task, const void *job)
{
    run(n, task, job, true);
}

int dt_team_member(void)
{
    return member;
}

void dt_team_rest(void)
{
    if (own.helpers > 0)
        __atomic_store_n(&own.resting, true, __ATOMIC_RELAXED);
}
