/* Whole runs whose moved tensors wait on a disk that fails, fills up, is slow or lies: what is
 * said, the exit status, and that the weights of the last whole step are kept. Numbers are those of
 * docs/faults.md. The calls fail in this process. */
#include <dnntrain/source.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/alloc.h"
#include "session/open.h"
#include "session/profile.h"
#include "tests/fixture/bad_disk.h"
#include "tests/fixture/leaks.h"
#include "tests/fixture/made_clock.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

enum { STEPS = 3 };

#define LENET                                                                                      \
    "[model]\nname = lenet5\nclasses = 4\n[data]\nsamples = 16\n[train]\nbatch = 4\nsteps = 3\n"   \
    "lr = 0.01\n[memory]\npolicy = vdnn_all\ntier = disk\ndisk_path = disk\n"
#define OUT "[run]\ndir = out\n"

static int full(int fd, off_t at, off_t n)
{
    (void)fd, (void)at, (void)n;
    return ENOSPC;
}

static int not_direct(int fd, bool on)
{
    (void)fd, (void)on;
    errno = EINVAL;
    return -1;
}

/* What a run of so many steps leaves when nothing goes wrong. */
static char *right_weights(int steps, size_t *bytes)
{
    char ini[512];
    dt_err err = {0};
    disk_is_well(NULL);
    snprintf(ini, sizeof ini, LENET OUT "[device]\nthreads = 1\n");
    char *at = strstr(ini, "steps = 3");
    at[strlen("steps = ")] = (char)('0' + steps);
    assert_ok(train_here(ini, &err), &err);
    char *w = weights_left(bytes);
    remove_all("out");
    return w;
}

#define RUN LENET OUT "[device]\nthreads = 1\n"

/* ---- cases ---- */

static void a_full_disk_is_known_before_the_first_step(void **state) /* case 50 */
{
    NEED_BINARY();
    dt_err err = {0};
    const int files = open_files();
    disk_goes_bad((bad_disk){.at = 1})->fallocate = full;
    assert_fails(train_here(RUN, &err), DT_E_IO, &err, "disk");
    assert_has(err.text, "free");
    assert_has(err.text, "memory.tier = host");
    assert_false(is_there("out")); /* nothing was begun */
    assert_int_equal(files_in(in_workspace("disk")), 0);
    assert_int_equal(open_files(), files);
}

/* Each n-th call in turn, from the first on, so that the failure meets every kind of row. */
static void a_failing_disk_ends_the_run_and_keeps_the_last_step(void **state) /* case 51 */
{
    NEED_BINARY();
    static const int errors[] = {EIO, ENOSPC};
    size_t n[STEPS];
    char *after[STEPS];
    for (int s = 0; s < STEPS; s++)
        after[s] = s > 0 ? right_weights(s, &n[s]) : NULL;
    int met[STEPS] = {0}, done = 0;
    for (long at = 1; done < 4; at++) {
        dt_err err = {0};
        const bool writes = at % 2 == 0;
        disk_goes_bad((bad_disk){.write = writes ? DISK_FAILS : DISK_FINE,
            .read = writes ? DISK_FINE : DISK_FAILS,
            .error = errors[at % 4 < 2],
            .at = at});
        const dt_status st = train_here(RUN, &err);
        if (st == DT_OK) {
            done++; /* past the last call */
        } else {
            int step = 0;
            assert_int_equal(st, DT_E_IO);
            if (strstr(err.text, "step ") != NULL) {
                assert_int_equal(sscanf(strstr(err.text, "step "), "step %d", &step), 1);
                step--; /* whole ones before it */
                assert_has(err.text, strerror(errors[at % 4 < 2]));
                assert_has(err.text, "disk tier: slot at byte");
                met[step]++;
                if (step > 0)
                    assert_weights_left(after[step], n[step]);
                if (!is_there("out/checkpoints/model.safetensors"))
                    fail_msg("call %ld: no weights were saved: %s", at, err.text);
            }
        }
        disk_is_well(NULL);
        assert_int_equal(files_in(in_workspace("disk")), 0);
    }
    for (int s = 0; s < STEPS; s++) {
        assert_true(met[s] > 0);
        dt_free(after[s]);
    }
}

static void short_transfers_are_finished(void **state) /* case 51 */
{
    NEED_BINARY();
    size_t n;
    dt_err err = {0};
    char *want = right_weights(STEPS, &n);
    disk_goes_bad((bad_disk){.write = DISK_SHORT, .read = DISK_SHORT, .at = 1});
    assert_ok(train_here(RUN, &err), &err);
    assert_weights_left(want, n);
    dt_free(want);
}

static void changed_bytes_are_never_trained_on(void **state) /* case 52 */
{
    NEED_BINARY();
    dt_err err = {0};
    disk_goes_bad((bad_disk){.at = 1});
    assert_ok(train_here(RUN, &err), &err);
    const long late = disk_so_far().got - 1;
    remove_all("out");
    disk_goes_bad((bad_disk){.read = DISK_FLIPS, .at = late});
    assert_fails(train_here(LENET "checksum = on\n" OUT, &err), DT_E_IO, &err, "checksum");
    assert_has(err.text, "step ");
    assert_has(err.text, ".y in from the disk tier");
    assert_has(err.text, "slot at byte");
}

static void a_disk_without_direct_access_is_told_and_used(void **state) /* cases 53 and 54 */
{
    NEED_BINARY();
    size_t n;
    dt_err err = {0};
    char *want = right_weights(STEPS, &n);
    disk_goes_bad((bad_disk){.at = 1});
    assert_ok(train_here(RUN, &err), &err);
    assert_has(said_here(), "io_uring");
    assert_weights_left(want, n);
    disk_is_well(NULL);
    disk_goes_bad((bad_disk){.at = 1})->direct = not_direct;
    assert_ok(train_here(RUN, &err), &err);
    assert_has(said_here(), "O_DIRECT");
    assert_weights_left(want, n);
    dt_free(want);
}

static void a_slow_disk_is_told(void **state) /* case 55 */
{
    NEED_BINARY();
    dt_err err = {0};
    disk_goes_bad((bad_disk){.write = DISK_LATE, .at = 1, .late = 200}); /* whatever a step takes */
    assert_ok(train_here(RUN, &err), &err);
    assert_has(said_here(), "waiting for the disk");
    assert_has(said_here(), "memory.tier = host");
}

static void a_killed_run_leaves_no_file(void **state) /* case 56 */
{
    NEED_BINARY();
    put_text("long.ini", "[model]\nname = lenet5\nclasses = 4\n[data]\nsamples = 16\n[train]\n"
                         "batch = 4\nsteps = 1000000\nlr = 0.001\n[memory]\npolicy = vdnn_all\n"
                         "tier = disk\ndisk_path = disk\n" OUT);
    (void)mkdir(in_workspace("disk"), 0777);
    const pid_t child = cli_start("long.ini", NULL);
    for (int i = 0; i < 500 && !is_there("out/metrics.jsonl"); i++) {
        const struct timespec t = {0, 20000000};
        nanosleep(&t, NULL);
    }
    assert_true(is_there("out/metrics.jsonl"));
    assert_int_equal(kill(child, SIGKILL), 0);
    ran r = cli_wait(child);
    assert_code(&r, 128 + SIGKILL);
    cli_done(&r);
    assert_int_equal(files_in(in_workspace("disk")), 0);
}

/* A profile's links are measured alone first; only then do calls fail. */
static struct {
    const char *stage;
    atomic_bool on;
} fails;

static void told_of_stage(void *self, const char *text)
{
    made_clock_line(self, text);
    if (strstr(text, fails.stage) != NULL)
        atomic_store(&fails.on, true);
}

static ssize_t pread_in_stage(int fd, void *to, size_t n, off_t at)
{
    errno = EIO;
    return atomic_load(&fails.on) ? -1 : dt_io_system.pread(fd, to, n, at);
}

static ssize_t pwrite_in_stage(int fd, const void *from, size_t n, off_t at)
{
    errno = EIO;
    return atomic_load(&fails.on) ? -1 : dt_io_system.pwrite(fd, from, n, at);
}

static void copies_that_fail_beside_the_steps_of_a_profile_end_it(void **state)
{
    NEED_BINARY();
    static const char *const stages[] = {"copies to the disk", "copies from the disk"};
    static const char ini[] =
        "[model]\nname = lenet5\nclasses = 4\n[data]\nsamples = 16\n[train]\nbatch = 4\n"
        "epochs = 0\nsteps = 200\neval_every = 0\n[memory]\ntier = disk\ndisk_path = disk\n"
        "[device]\nthreads = 1\n";
    put_text("c.ini", ini);
    (void)mkdir(in_workspace("disk"), 0777);
    for (size_t i = 0; i < DT_COUNT(stages); i++) {
        dt_err err = {0};
        dt_session *s = NULL;
        dt_profile p = {0};
        fails.stage = stages[i];
        atomic_store(&fails.on, false);
        dt_io_ops *calls = disk_goes_bad((bad_disk){.at = 1});
        calls->pread = pread_in_stage;
        calls->pwrite = pwrite_in_stage;
        const dt_profile_opts o = {.steps = 2,
            .margin = 0.05,
            .timed = true,
            .line = told_of_stage,
            .begins = made_clock_begins};
        assert_ok(dt_session_open(&s, in_workspace("c.ini"), NULL, 0, &err), &err);
        const dt_status got = dt_profile_measure(s, &o, &p, &err);
        made_clock(false);
        assert_fails(got, DT_E_IO, &err, stages[i]);
        assert_has(err.text, strerror(EIO));
        dt_profile_deinit(&p);
        dt_session_close(s);
    }
}

static dt_status count_samples(void *self, const dt_samples *s, int64_t *n, dt_err *err)
{
    (void)self, (void)s, (void)err;
    *n = 16;
    return DT_OK;
}

static dt_status read_in_stage(
    void *self, const dt_samples *s, int64_t i, float *x, int32_t *label, dt_err *err)
{
    (void)self;
    for (int64_t k = 0; k < s->h * s->w * s->c; k++)
        x[k] = (float)((k * 7 + i) % 5) - 2;
    *label = (int32_t)(i % s->classes);
    return atomic_load(&fails.on) ? DT_FAIL(err, DT_E_DATA, "sample %d is gone", (int)i) : DT_OK;
}

/* The thread that copies has to be told, whichever link it copies over. */
static void a_step_that_fails_beside_copies_ends_a_profile(void **state)
{
    NEED_BINARY();
    static const dt_source_spec source = {.name = "gone",
        .summary = "samples that are gone when a stage begins",
        .count = count_samples,
        .read = read_in_stage};
    static const char *const stages[] = {"copies to the host", "copies from the host"};
    dt_err err = {0};
    assert_ok(dt_register_source(&source, &err), &err);
    put_text("c.ini",
        "[model]\nname = lenet5\nclasses = 4\n[data]\nsource = gone\n[train]\n"
        "batch = 4\nepochs = 0\nsteps = 200\neval_every = 0\n[device]\nthreads = 1\n");
    for (size_t i = 0; i < DT_COUNT(stages); i++) {
        dt_session *s = NULL;
        dt_profile p = {0};
        err = (dt_err){0};
        fails.stage = stages[i];
        atomic_store(&fails.on, false);
        const dt_profile_opts o = {.steps = 2,
            .margin = 0.05,
            .timed = true,
            .line = told_of_stage,
            .begins = made_clock_begins};
        assert_ok(dt_session_open(&s, in_workspace("c.ini"), NULL, 0, &err), &err);
        const dt_status got = dt_profile_measure(s, &o, &p, &err);
        made_clock(false);
        assert_fails(got, DT_E_DATA, &err, "is gone");
        dt_profile_deinit(&p);
        dt_session_close(s);
    }
}

#define T(f) cmocka_unit_test_teardown(f, disk_is_well)
DT_TEST_GROUP(disk_runs)
{
    const struct CMUnitTest tests[] = {
        T(a_full_disk_is_known_before_the_first_step),
        T(a_failing_disk_ends_the_run_and_keeps_the_last_step),
        T(short_transfers_are_finished),
        T(changed_bytes_are_never_trained_on),
        T(a_disk_without_direct_access_is_told_and_used),
        T(a_slow_disk_is_told),
        T(copies_that_fail_beside_the_steps_of_a_profile_end_it),
        T(a_step_that_fails_beside_copies_ends_a_profile),
        T(a_killed_run_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
