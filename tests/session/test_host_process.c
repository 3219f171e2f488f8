/* What a process that holds the library does besides: it forks, calls from its own parallel regions
 * and has settings of its own for memory. */
#include <dnntrain.h>

#include <malloc.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixture/sanitizer.h"
#include "tests/fixture/workspace.h"
#include "tests/fixture/check.h"

static const char net[] =
    "[model]\nimage = 8\nclasses = 4\n[data]\nsource = synthetic\nsamples = 32\n"
    "[train]\nbatch = 8\nepochs = 2\nlr = 0.05\nprecision = fp32\n[device]\nkind = cpu\n"
    "[conv c1]\nout = 8\nkernel = 3\npad = 1\n[relu r1]\n[fc f1]\nout = 4\n";

static dt_status open_net(dt_run **run, const char *dir, int threads, const char *more, dt_err *err)
{
    char at[512], team[64];
    snprintf(at, sizeof at, "run.dir=%s", in_workspace(dir));
    snprintf(team, sizeof team, "device.threads=%d", threads);
    const char *sets[] = {at, team, more};
    return dt_run_open_text(
        run, "net", net, strlen(net), sets, more != NULL ? DT_COUNT(sets) : 2, err);
}

/* A whole run; what went wrong is in @err. */
static dt_status train(const char *dir, int threads, dt_err *err)
{
    dt_run *run = NULL;
    dt_status st = open_net(&run, dir, threads, NULL, err);
    if (st == DT_OK)
        st = dt_run_begin(run, NULL, err);
    if (st == DT_OK)
        st = dt_run_end(run, dt_run_train(run, 0, err), err);
    dt_run_close(run);
    return st;
}

/* ---- fork ---- */

/* Whether @call holds in a child process, which is ended should it hang. */
static bool holds_in_a_child(bool (*call)(void *arg), void *arg)
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20);
        _exit(call(arg) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_refused(dt_status st, const dt_err *err, const char *text)
{
    return st == DT_E_CONFIG && strstr(err->text, text) != NULL;
}

/* A run of the parent's changes nothing but that it is closed, however often. */
static bool only_closes(void *arg)
{
    dt_run *run = arg;
    float bias[4];
    dt_err err = {0};
    bool well = is_refused(dt_run_train(run, 0, &err), &err, "which opened it");
    dt_err_clear(&err);
    well &= is_refused(dt_run_read_weight(run, "f1.bias", bias, 4, &err), &err, "which opened it");
    well &= dt_run_step(run) == 2;
    dt_run_close(run);
    dt_run_close(run);
    return well;
}

static void a_run_that_a_child_closes_goes_on(void **state)
{
    (void)state;
    static const char *const policies[] = {"memory.policy=keep_all", "memory.policy=zero_infinity"};
    dt_err err = {0};
    assert_ok(train("straight", 2, &err), &err);
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        dt_run *run = NULL, *other = NULL;
        remove_all("parents");
        assert_ok(open_net(&run, "parents", 2, policies[i], &err), &err);
        assert_ok(dt_run_begin(run, NULL, &err), &err);
        assert_ok(dt_run_train(run, 2, &err), &err);
        assert_true(holds_in_a_child(only_closes, run));
        assert_true(is_there("parents/lock"));
        assert_ok(open_net(&other, "parents", 2, "checkpoint.resume=auto", &err), &err);
        assert_fails(dt_run_begin(other, NULL, &err), DT_E_BUSY, &err, "is in use by process");
        dt_run_close(other);
        dt_err_clear(&err);
        assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
        dt_run_close(run);
        assert_false(is_there("parents/lock"));
        assert_same_weights("parents", "straight");
    }
}

/* What is refused is told, and what a child may do instead it can do. */
static bool is_refused_a_team(void *arg)
{
    (void)arg;
    dt_err err = {0};
    bool well = is_refused(train("childs", 2, &err), &err, "forked from one that computed");
    dt_err_clear(&err);
    well &= is_refused(train("childs", 0, &err), &err, "fork before the first dt_run_open");
    dt_err_clear(&err);
    return well && train("childs", 1, &err) == DT_OK;
}

static void *train_here(void *arg)
{
    dt_err err = {0};
    *(dt_status *)arg = train("childs", 2, &err);
    return NULL;
}

static bool trains_in_a_thread(void *arg)
{
    dt_status st = DT_E_INTERNAL;
    pthread_t thread;
    (void)arg;
    return pthread_create(&thread, NULL, train_here, &st) == 0 && pthread_join(thread, NULL) == 0 &&
           st == DT_OK;
}

static bool trains(void *arg)
{
    dt_err err = {0};
    (void)arg;
    return train("childs", 2, &err) == DT_OK;
}

/* In a thread that has not computed, beside one that has. */
static void *fork_here(void *arg)
{
    *(bool *)arg = holds_in_a_child(trains, NULL);
    return NULL;
}

static void a_child_has_no_team_of_its_parents(void **state)
{
    (void)state;
    dt_err err = {0};
    pthread_t thread;
    bool well = false;
    omp_set_num_threads(2); /* what 0 stands for, also on one processor */
    remove_all("parents");
    assert_ok(train("parents", 2, &err), &err);
    assert_true(holds_in_a_child(is_refused_a_team, NULL));
    remove_all("childs");
    assert_true(holds_in_a_child(trains_in_a_thread, NULL));
    assert_same_weights("childs", "parents");
    remove_all("childs");
    assert_int_equal(pthread_create(&thread, NULL, fork_here, &well), 0);
    pthread_join(thread, NULL);
    assert_true(well);
    assert_same_weights("childs", "parents");
}

/* ---- regions of the host program ---- */

typedef struct calls {
    dt_status open, train;
    dt_err opened, trained;
} calls;

/* By a thread of a team: open a run, and train one that is open. */
static void call_within(calls *c, dt_run *run, const char *dir, int threads)
{
#pragma omp parallel num_threads(2)
#pragma omp master
    {
        c->open = train(dir, threads, &c->opened);
        c->train = dt_run_train(run, 2, &c->trained);
    }
}

/* Of other sizes, sums come out in other orders, and kernels made for two wait for the second. */
static void within_a_parallel_region_no_team_is_smaller_than_it_was_said_to_be(void **state)
{
    (void)state;
    const int levels = omp_get_max_active_levels();
    static calls c, one;
    dt_run *run = NULL;
    dt_err err = {0};
    remove_all("parents");
    assert_ok(train("parents", 1, &err), &err);
    assert_ok(open_net(&run, "within", 2, NULL, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    for (int most = 1; most <= 2; most++) {
        omp_set_max_active_levels(most);
        memset(&c, 0, sizeof c);
        memset(&one, 0, sizeof one);
        call_within(&c, run, "inner", 2);
        remove_all("inner_of_one");
        call_within(&one, run, "inner_of_one", 0); /* which says no number */
        assert_fails(c.open, DT_E_CONFIG, &c.opened, "[device] threads = 2");
        assert_fails(c.open, DT_E_CONFIG, &c.opened, "a run has 1 thread and not 2");
        assert_fails(c.train, DT_E_CONFIG, &c.trained, "within a parallel region");
        assert_int_equal(dt_run_step(run), 0);
        assert_ok(one.open, &one.opened);
        assert_same_weights("inner_of_one", "parents");
    }
    omp_set_max_active_levels(levels);
    assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
    dt_run_close(run);
}

/* ---- its memory ---- */

/* While glibc is told nothing, a block that it mapped and got back has it take smaller ones from
 * its heaps; who sets a threshold ends that for the whole process. */
static void settings_for_memory_stay_the_host_programs(void **state)
{
    (void)state;
#if defined(__GLIBC__) && !DT_OWN_HEAP
    dt_err err = {0};
    assert_ok(train("thrifty", 1, &err), &err);
    void *volatile large = malloc(24 << 20);
    free(large);
    const size_t mapped = mallinfo2().hblks;
    large = malloc(20 << 20);
    const size_t now = mallinfo2().hblks;
    free(large);
    assert_int_equal(now, mapped);
#else
    skip();
#endif
}

DT_TEST_GROUP(host_process)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_a_child_closes_goes_on),
        cmocka_unit_test(a_child_has_no_team_of_its_parents),
        cmocka_unit_test(within_a_parallel_region_no_team_is_smaller_than_it_was_said_to_be),
        cmocka_unit_test(settings_for_memory_stay_the_host_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
