/* The team: every task is done once, by whoever comes, and nobody who has not begun is waited for.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/mix.h"
#include "engine/base/team.h"
#include "tests/fixture/check.h"
#include "tests/fixture/few_addresses.h"
#include "tests/fixture/sanitizer.h"

enum { MOST_TASKS = 20000, MOST_MEMBERS = 8 };

/* @done: of each task, how often; @inside: of each member, tasks that it is in */
typedef struct counted {
    int64_t n;
    int done[MOST_TASKS], inside[MOST_MEMBERS], members, wrong;
    bool slow;
} counted;

static counted *of(const void *job)
{
    return *(counted *const *)job;
}

static void wait_a_little(int64_t i)
{
    const long ns = (long)(dti_mix((uint64_t)i) % 200000);
    (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void count(const void *job, int64_t i)
{
    counted *c = of(job);
    const int me = dt_team_member();
    if (me < 0 || me >= c->members || __atomic_add_fetch(&c->inside[me], 1, __ATOMIC_RELAXED) != 1)
        __atomic_add_fetch(&c->wrong, 1, __ATOMIC_RELAXED);
    c->done[i]++; /* nobody else may write it: the thread sanitizer looks */
    if (c->slow)
        wait_a_little(i);
    if (me >= 0 && me < c->members)
        __atomic_sub_fetch(&c->inside[me], 1, __ATOMIC_RELAXED);
}

static void check_job(counted *c, int64_t n, bool back)
{
    memset(c->done, 0, sizeof c->done);
    c->n = n;
    c->members = dt_cpu_threads();
    (back ? dt_team_run_back : dt_team_run)(n, count, &c);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(c->done[i], 1);
    assert_int_equal(c->wrong, 0);
    assert_int_equal(dt_team_member(), 0);
}

static void every_task_is_done_once(void **state)
{
    static const int threads[] = {1, 2, 5, 3, 8, 2};
    static const int64_t n[] = {0, 1, 2, 3, 31, 32, 33, 1000, MOST_TASKS};
    counted *c = calloc(1, sizeof *c);
    (void)state;
    assert_non_null(c);
    for (size_t t = 0; t < DT_COUNT(threads); t++) {
        omp_set_num_threads(threads[t]);
        for (size_t i = 0; i < DT_COUNT(n); i++)
            for (int back = 0; back < 2; back++)
                check_job(c, n[i], back != 0);
    }
    c->slow = true;
    for (int i = 0; i < 20; i++)
        check_job(c, 5 + i, false);
    free(c);
}

/* Many short jobs one after the other, so that helpers come late, early and in between. */
static void jobs_that_follow_each_other_do_not_mix(void **state)
{
    counted *c = calloc(1, sizeof *c);
    (void)state;
    assert_non_null(c);
    omp_set_num_threads(4);
    for (int i = 0; i < 3000; i++) {
        check_job(c, 1 + i % 23, false);
        if (i % 100 == 0) { /* long enough for helpers to fall asleep */
            c->slow = true;
            wait_a_little(i);
            check_job(c, 8, false);
            c->slow = false;
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    free(c);
}

/* Both of two tasks wait for the other to have begun: one thread alone would wait for ever. */
static void meet(const void *job, int64_t i)
{
    int *begun = *(int *const *)job;
    __atomic_store_n(&begun[i], 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&begun[1 - i], __ATOMIC_ACQUIRE) == 0)
        sched_yield();
}

typedef struct products {
    int begun[2];
    volatile float of[2];
} products;

static void multiply(const void *job, int64_t i)
{
    products *p = *(products *const *)job;
    int *begun = p->begun;
    const volatile float denormal = 1e-42f;
    meet(&begun, i);
    p->of[i] = denormal * 2;
}

static void helpers_treat_denormals_as_the_caller_does(void **state)
{
    (void)state;
    const uint8_t before = dti_cpu_denormals();
    omp_set_num_threads(2);
    for (int i = 0; i < 10; i++) {
        products p = {{0}, {1, 1}}, *at = &p;
        dti_cpu_set_denormals(i % 2 == 0 ? 0 : 3);
        const bool flushes = dti_cpu_denormals() != 0;
        dt_team_run(2, multiply, &at);
        dti_cpu_set_denormals(0);
        assert_true(p.of[0] == p.of[1] && (p.of[0] > 0) != flushes);
    }
    dti_cpu_set_denormals(before);
}

/* The caller's first task; others wait until it has begun, so that nobody takes it. */
static void note_first(const void *job, int64_t i)
{
    int64_t *first = *(int64_t *const *)job;
    int64_t none = -1;
    if (dt_team_member() == 0)
        __atomic_compare_exchange_n(first, &none, i, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    while (__atomic_load_n(first, __ATOMIC_ACQUIRE) == -1)
        sched_yield();
}

/* Backwards a thread begins at the end of what it would do forwards, which lies in its core's
 * cache, and not at the end of all, which lies in another's. */
static void a_thread_goes_back_over_its_own_tasks(void **state)
{
    enum { TASKS = 64 };
    int64_t first = -1, *at = &first;
    (void)state;
    for (int threads = 2; threads <= 4; threads++) {
        omp_set_num_threads(threads);
        first = -1;
        dt_team_run(TASKS, note_first, &at);
        assert_int_equal(first, 0);
        first = -1;
        dt_team_run_back(TASKS, note_first, &at);
        assert_in_range(first, TASKS / threads - 4, TASKS / threads);
    }
}

static void helpers_help(void **state)
{
    (void)state;
    omp_set_num_threads(2);
    for (int i = 0; i < 10; i++) {
        int begun[2] = {0}, *at = begun;
        dt_team_run(2, meet, &at);
        assert_int_equal(begun[0] + begun[1], 2);
    }
}

static void nested(const void *job, int64_t i)
{
    counted *c = of(job);
    const int me = dt_team_member();
    (void)i;
    dt_team_run(100, count, &c);
    if (dt_team_member() != me)
        abort();
}

/* A task's own jobs are done by its thread. */
static void within_a_task_a_job_is_run_by_its_thread(void **state)
{
    counted *c = calloc(1, sizeof *c);
    (void)state;
    assert_non_null(c);
    omp_set_num_threads(1);
    c->members = 1;
    dt_team_run(4, nested, &c);
    for (int i = 0; i < 100; i++)
        assert_int_equal(c->done[i], 4);
    assert_int_equal(c->wrong, 0);
    free(c);
}

typedef struct summed {
    uint64_t each[64][64];
} summed;

static void inner(const void *job, int64_t i)
{
    uint64_t *row = *(uint64_t *const *)job;
    row[i] += dti_mix((uint64_t)i);
}

static void outer(const void *job, int64_t i)
{
    uint64_t *row = (*(summed *const *)job)->each[i];
    dt_team_run(64, inner, &row);
}

static void jobs_within_jobs_of_many_threads(void **state)
{
    summed *s = calloc(1, sizeof *s);
    (void)state;
    assert_non_null(s);
    omp_set_num_threads(3);
    dt_team_run(64, outer, &s);
    for (uint64_t i = 0; i < 64; i++)
        for (uint64_t k = 0; k < 64; k++)
            assert_true(s->each[i][k] == dti_mix(k));
    free(s);
}

static int threads_now(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

enum { LEFT_BYTES = 1 << 20 }; /* of addresses: none for a stack */

/* The first of the tests: later ones leave stacks of threads that are gone, for which no memory is
 * needed. */
static void threads_that_are_refused_are_asked_for_again_later(void **state)
{
    (void)state;
    if (DT_OWN_HEAP)
        skip();
    counted *c = calloc(1, sizeof *c);
    assert_non_null(c);
    omp_set_num_threads(3);
    const int threads = threads_now();
    const struct rlimit before = dt_leave_addresses(LEFT_BYTES);
    check_job(c, 50, false);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(threads_now(), threads);
    const double refused = dt_seconds();
    check_job(c, 50, false);
    if (dt_seconds() < refused + 0.5)
        assert_int_equal(threads_now(), threads);
    (void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    check_job(c, 50, false);
    assert_int_equal(threads_now(), threads + 2);
    free(c);
}

static void *runs_jobs(void *threads)
{
    counted *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    omp_set_num_threads(*(int *)threads);
    for (int i = 0; i < 200; i++)
        check_job(c, 100 + i, i % 2 != 0);
    free(c);
    return NULL;
}

/* Teams of two threads know nothing of each other, and end with them. */
static void each_thread_has_its_own_team(void **state)
{
    int sizes[] = {3, 2, 4};
    pthread_t t[DT_COUNT(sizes)];
    (void)state;
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        assert_int_equal(pthread_create(&t[i], NULL, runs_jobs, &sizes[i]), 0);
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
}

static void a_team_ends_with_its_thread(void **state)
{
    int size = 4;
    (void)state;
    const int before = threads_now();
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, runs_jobs, &size), 0);
        assert_int_equal(pthread_join(t, NULL), 0);
    }
    for (int i = 0; i < 1000 && threads_now() > before;
         i++) /* the system counts those that just end */
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_int_equal(threads_now(), before);
}

/* A child process has none of the helpers, and runs jobs all the same. */
static void after_a_fork_both_sides_go_on(void **state)
{
    (void)state;
#if DT_THREAD_SANITIZER
    skip(); /* it lets no child start threads */
#endif
    counted *c = calloc(1, sizeof *c);
    int status;
    assert_non_null(c);
    omp_set_num_threads(3);
    for (int i = 0; i < 5; i++) {
        check_job(c, 50, false);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            c->members = 3;
            c->n = 0;
            memset(c->done, 0, sizeof c->done);
            for (int k = 0; k < 10; k++)
                dt_team_run(200, count, &c);
            int wrong = c->wrong;
            for (int k = 0; k < 200; k++)
                wrong += c->done[k] != 10;
            _exit(wrong != 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        check_job(c, 50, false);
    }
    free(c);
}

DT_TEST_GROUP(team)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_are_refused_are_asked_for_again_later),
        cmocka_unit_test(every_task_is_done_once),
        cmocka_unit_test(jobs_that_follow_each_other_do_not_mix),
        cmocka_unit_test(helpers_help),
        cmocka_unit_test(a_thread_goes_back_over_its_own_tasks),
        cmocka_unit_test(helpers_treat_denormals_as_the_caller_does),
        cmocka_unit_test(within_a_task_a_job_is_run_by_its_thread),
        cmocka_unit_test(jobs_within_jobs_of_many_threads),
        cmocka_unit_test(each_thread_has_its_own_team),
        cmocka_unit_test(a_team_ends_with_its_thread),
        cmocka_unit_test(after_a_fork_both_sides_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
