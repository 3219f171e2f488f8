/* What a run is given of the processor: threads that limits keep away, and instruction sets that
 * the user does. */
#define _DEFAULT_SOURCE /* RLIMIT_NPROC */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/isa.h"
#include "tests/fixture/refusal.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

#define TINY                                                                                       \
    "[model]\nimage = 8\nclasses = 2\n[conv c]\nout = 4\nkernel = 3\n[fc f]\nout = 2\n"            \
    "[data]\nsource = synthetic\nsamples = 16\n[train]\nbatch = 4\nsteps = 3\n[run]\ndir = out\n"

static void one_at_most(void)
{
    setenv("OMP_THREAD_LIMIT", "1", 1);
}

static void a_hundred_thousand(void)
{
    setenv("OMP_NUM_THREADS", "100000", 1);
}

/* The limit is not root's. */
static void one_process(void)
{
    const struct rlimit most = {1, 1};
    become_nobody();
    if (setrlimit(RLIMIT_NPROC, &most) != 0)
        _exit(125);
}

static void sse_and_avx2(void)
{
    setenv("DT_ISA", "avx2", 1);
}

static void library_avx2(void)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
}

static void plain(void)
{
    setenv("DT_ISA", "plain", 1);
}

static void no_such_set(void)
{
    setenv("DT_ISA", "avx3", 1);
}

static void more_threads_than_the_limit_allows_are_refused(void **state)
{
    NEED_BINARY();
    const refusal r = {.words = "--set device.threads=2",
        .code = DT_E_CONFIG,
        .want = {"OMP_THREAD_LIMIT allows 1 of the 2 threads", "[device] threads = 2"}};
    refusal_ini = TINY;
    cli.child = one_at_most;
    refuse(&r);
}

/* Kernels divide work by the team: one of another size would wait for threads that never come. */
static void without_a_number_the_team_is_what_comes(void **state)
{
    NEED_BINARY();
    put_text("c.ini", TINY);
    cli.child = one_at_most;
    ran r = cli_run("c.ini", NULL);
    assert_code(&r, 0);
    assert_has(r.err, ", 1 thread,");
    cli_done(&r);
}

static void absurd_numbers_of_threads_are_refused(void **state)
{
    NEED_BINARY();
    const refusal r = {
        .code = DT_E_CONFIG, .want = {"OMP_NUM_THREADS asks for 100000 threads, and 1024"}};
    refusal_ini = TINY;
    cli.child = a_hundred_thousand;
    refuse(&r);
}

static void threads_that_cannot_be_had_are_refused(void **state)
{
    NEED_BINARY();
    NEED_LIMITS();
    if (!nobody_can_run())
        skip();
    put_text("c.ini", TINY);
    cli.child = one_process;
    ran r = cli_run("plan c.ini --set device.threads=2", NULL);
    assert_code(&r, DT_E_NOMEM);
    assert_has(r.err, "gives this process 1 of 2 threads: set device.threads = 1");
    assert_has(r.err, "ulimit -u");
    assert_has(r.err, "ulimit -v, -d");
    cli_done(&r);
}

static void bound(void)
{
    setenv("OMP_PROC_BIND", "true", 1);
}

/* Threads of a process that have a single processor; *all of them. */
static int bound_threads(pid_t process, int *all)
{
    char path[64], line[256];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *tasks = opendir(path);
    *all = 0;
    for (struct dirent *d; tasks != NULL && (d = readdir(tasks)) != NULL;) {
        snprintf(line, sizeof line, "%s/%.20s/status", path, d->d_name);
        FILE *f = d->d_name[0] != '.' ? fopen(line, "r") : NULL;
        while (f != NULL && fgets(line, sizeof line, f) != NULL)
            if (strncmp(line, "Cpus_allowed_list:", 18) == 0) {
                n += strpbrk(line, ",-") == NULL;
                *all += 1;
            }
        if (f != NULL)
            fclose(f);
    }
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

/* The one that starts them is bound by then, as the other of OpenMP's is. */
static void threads_of_ours_are_not_bound_with_openmps(void **state)
{
    NEED_BINARY();
    enum { OPENMPS = 2, SOME_STEPS = 5000 /* bytes that tell of them */ };
    int all;
    if (bound_threads(getpid(), &all) > 0)
        skip(); /* there is one processor, or the tests themselves are bound */
    put_text("c.ini", TINY);
    cli.child = bound;
    const pid_t child =
        cli_start("c.ini --set train.steps=1000000000 --set device.threads=2", NULL);
    cli.child = NULL;
    struct stat metrics = {0};
    for (int i = 0; i < 4000 && metrics.st_size < SOME_STEPS; i++) {
        nanosleep(&(struct timespec){0, 5000000}, NULL);
        (void)stat(in_workspace("out/metrics.jsonl"), &metrics);
    }
    const int n = bound_threads(child, &all);
    assert_int_equal(kill(child, SIGTERM), 0);
    ran r = cli_wait(child);
    cli_done(&r);
    assert_int_equal(n, OPENMPS);
    assert_true(all > OPENMPS);
}

static void run_as(void (*child)(void), const char *words)
{
    cli.child = child;
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    cli.child = NULL;
}

static void what_computes_is_recorded(const char *isa, const char *library)
{
    char *text = cli_text(in_workspace("out/summary.json"));
    char want[64];
    snprintf(want, sizeof want, "\"library_isa\":\t\"%s\"", library);
    assert_has(text, want);
    snprintf(want, sizeof want, "\"isa\":\t\"%s\"", isa);
    assert_has(text, want);
    dt_free(text);
}

static void a_limit_of_instruction_sets_holds_and_is_told(void **state)
{
    NEED_BINARY();
    if (strncmp(dt_isa_name(), "avx", 3) != 0)
        skip();
    put_text("c.ini", TINY);
    run_as(sse_and_avx2, "c.ini");
    what_computes_is_recorded("avx2", "avx2");
    if (strcmp(dt_isa_name(), "avx2") == 0)
        return;
    ran r = cli_run("c.ini --resume --set train.steps=4", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "isa was avx2, now avx512");
    assert_has(r.err, "library_isa was avx2, now avx512");
    cli_done(&r);
}

/* The library's own variable is not seen by our kernels, but changes its bits. */
static void the_librarys_own_limit_is_told(void **state)
{
    NEED_BINARY();
    if (strncmp(dt_isa_name(), "avx", 3) != 0)
        skip();
    put_text("c.ini", TINY);
    run_as(NULL, "c.ini");
    cli.child = library_avx2;
    ran r = cli_run("c.ini --resume --set train.steps=4", NULL);
    assert_code(&r, 0);
    if (strcmp(dt_isa_name(), "avx2") != 0)
        assert_has(r.err, ", now avx2: results will differ in rounding");
    cli_done(&r);
    what_computes_is_recorded(dt_isa_name(), "avx2");
}

static void unknown_instruction_sets_are_refused(void **state)
{
    NEED_BINARY();
    const refusal r = {.code = DT_E_CONFIG,
        .want = {"no instruction set 'avx3': plain, avx2, avx512, avx512_bf16 or amx", "DT_ISA"}};
    refusal_ini = TINY;
    cli.child = no_such_set;
    refuse(&r);
}

/* What the library asks for at the peak, and then leaves alone, is planned and measured all the
 * same.
 */
static void scratch_that_is_not_touched_is_measured(void **state)
{
    NEED_BINARY();
    put_text("scratch.ini",
        "[model]\nclasses = 11\nimage = 1\n[data]\nsamples = 4\n[train]\nbatch = 2\n"
        "micro_batch = 1\nsteps = 1\nprecision = fp32\n[device]\nthreads = 1\n[memory]\n"
        "algorithms = small\n[concat l0]\ninput = image, image\n[concat l2]\n"
        "input = image, l0, l0\n[mul l3]\ninput = l2, l2\n[conv l4]\ninput = l3\nout = 1\n"
        "kernel = 1\ndilation = 2\nbias = off\n[fc f]\ninput = l4\nout = 11\n");
    run_as(plain, "scratch.ini");
}

#define T(f) cmocka_unit_test_teardown(f, clean_workspace)
DT_TEST_GROUP(processor)
{
    const struct CMUnitTest tests[] = {
        T(more_threads_than_the_limit_allows_are_refused),
        T(without_a_number_the_team_is_what_comes),
        T(absurd_numbers_of_threads_are_refused),
        T(threads_that_cannot_be_had_are_refused),
        T(threads_of_ours_are_not_bound_with_openmps),
        T(a_limit_of_instruction_sets_holds_and_is_told),
        T(the_librarys_own_limit_is_told),
        T(unknown_instruction_sets_are_refused),
        T(scratch_that_is_not_touched_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
