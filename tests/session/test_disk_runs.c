/* Whole runs whose moved tensors wait on a disk that fails, fills up, is slow or lies: what is
 * said, the exit status, and that the weights of the last whole step are kept. Numbers are those of
 * docs/faults.md. The calls fail in this process, through the tables that tests may replace. */
#define _GNU_SOURCE /* O_TMPFILE */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/tiers/uring.h"
#include "tests/fixture/leaks.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"
#include "tools/tools.h"

enum { STEPS = 3 };

#define LENET                                                                                      \
    "[model]\nname = lenet5\nclasses = 4\n[data]\nsamples = 16\n[train]\nbatch = 4\nsteps = 3\n"   \
    "lr = 0.01\n[memory]\npolicy = vdnn_all\ntier = disk\ndisk_path = disk\n"
#define OUT "[run]\ndir = out\n"

/* ---- calls that fail ---- */

typedef enum what { FINE, FAILS, SHORT, FLIPS, LATE } what;

static struct fault {
    what write, read;
    int error;
    long at; /* the first call that it meets, from 1; all after it too */
    long written, got;
} fault;

/* The file of the disk tier; others are written as ever. */
static int file = -1;

static int watching_open(const char *path, int flags, mode_t mode)
{
    const int fd = dt_io_system.open(path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE)
        file = fd;
    return fd;
}

static ssize_t bad_pwrite(int fd, const void *from, size_t n, off_t at)
{
    if (fd != file)
        return dt_io_system.pwrite(fd, from, n, at);
    const long call = __atomic_add_fetch(&fault.written, 1, __ATOMIC_RELAXED);
    if (fault.write == FAILS && call >= fault.at) {
        errno = fault.error;
        return -1;
    }
    if (fault.write == LATE) {
        const struct timespec t = {0, 4000000};
        nanosleep(&t, NULL);
    }
    return dt_io_system.pwrite(fd, from, fault.write == SHORT && n > 8192 ? 4096 : n, at);
}

static ssize_t bad_pread(int fd, void *to, size_t n, off_t at)
{
    if (fd != file)
        return dt_io_system.pread(fd, to, n, at);
    const long call = __atomic_add_fetch(&fault.got, 1, __ATOMIC_RELAXED);
    if (fault.read == FAILS && call >= fault.at) {
        errno = fault.error;
        return -1;
    }
    const ssize_t got = dt_io_system.pread(fd, to, fault.read == SHORT && n > 8192 ? 4096 : n, at);
    if (fault.read == FLIPS && call >= fault.at && got > 0)
        *(unsigned char *)to ^= 16;
    return got;
}

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

static int forbidden(dt_uring **out, int fd, unsigned depth)
{
    (void)fd, (void)depth;
    *out = NULL;
    return -EPERM;
}

static int do_not_wait(int fd)
{
    (void)fd;
    return 0;
}

static dt_io_ops calls;
static dt_uring_calls rings;

/* Transfers go through pread and pwrite, which can be told to fail. */
static void replace(struct fault f)
{
    fault = f;
    file = -1;
    calls = dt_io_system;
    calls.open = watching_open;
    calls.pread = bad_pread;
    calls.pwrite = bad_pwrite;
    calls.fsync = do_not_wait;
    rings = dt_uring_system;
    rings.open = forbidden;
    dt_io = &calls;
    dt_uring_io = &rings;
}

static int restore(void **state)
{
    (void)state;
    dt_io = &dt_io_system;
    dt_uring_io = &dt_uring_system;
    if (cli_binary() != NULL)
        remove_all("out");
    return 0;
}

/* ---- a run in this process ---- */

static char said[1 << 16];

static dt_status train(const char *ini, dt_err *err)
{
    char path[4096];
    put_text("c.ini", ini);
    (void)mkdir(in_workspace("disk"), 0777);
    snprintf(path, sizeof path, "%s", in_workspace("c.ini"));
    char *arg[] = {path};
    const dt_command_args a = {1, arg};
    const int log = open(in_workspace("said"), O_RDWR | O_CREAT | O_TRUNC, 0666), loud = dup(2);
    assert_true(log >= 0 && loud >= 0 && dup2(log, 2) == 2);
    const dt_status st = dt_command_train.run(&a, err);
    fflush(stderr);
    assert_int_equal(dup2(loud, 2), 2);
    const ssize_t n = pread(log, said, sizeof said - 1, 0);
    assert_true(n >= 0);
    said[n] = '\0';
    close(log);
    close(loud);
    return st;
}

/* The bytes of the weights a run has left; dt_free it. */
static char *weights(size_t *bytes)
{
    char *text = NULL;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, bytes, in_workspace("out/checkpoints/model.safetensors"), 1 << 24,
                  DT_E_IO, &err),
        &err);
    return text;
}

/* What a run of so many steps leaves when nothing goes wrong. */
static char *right_weights(int steps, size_t *bytes)
{
    char ini[512];
    dt_err err = {0};
    restore(NULL);
    snprintf(ini, sizeof ini, LENET OUT "[device]\nthreads = 1\n");
    char *at = strstr(ini, "steps = 3");
    at[strlen("steps = ")] = (char)('0' + steps);
    assert_ok(train(ini, &err), &err);
    char *w = weights(bytes);
    remove_all("out");
    return w;
}

static void same_weights(const char *want, size_t n)
{
    size_t bytes;
    char *got = weights(&bytes);
    assert_int_equal(bytes, n);
    assert_memory_equal(got, want, n);
    dt_free(got);
}

#define RUN LENET OUT "[device]\nthreads = 1\n"

/* ---- cases ---- */

static void a_full_disk_is_known_before_the_first_step(void **state) /* case 50 */
{
    NEED_BINARY();
    dt_err err = {0};
    const int files = open_files();
    replace((struct fault){.at = 1});
    calls.fallocate = full;
    assert_fails(train(RUN, &err), DT_E_IO, &err, "disk");
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
        replace((struct fault){.write = writes ? FAILS : FINE,
            .read = writes ? FINE : FAILS,
            .error = errors[at % 4 < 2],
            .at = at});
        const dt_status st = train(RUN, &err);
        if (st == DT_OK) {
            done++; /* past the last call */
        } else {
            int step = 0;
            assert_int_equal(st, DT_E_IO);
            if (strstr(err.text, "step ") != NULL) {
                assert_int_equal(sscanf(strstr(err.text, "step "), "step %d", &step), 1);
                assert_has(err.text, strerror(errors[at % 4 < 2]));
                assert_has(err.text, "disk tier: slot at byte");
                met[step]++;
                if (step > 0)
                    same_weights(after[step], n[step]);
                if (!is_there("out/checkpoints/model.safetensors"))
                    fail_msg("call %ld: no weights were saved: %s", at, err.text);
            }
        }
        restore(NULL);
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
    replace((struct fault){.write = SHORT, .read = SHORT, .at = 1});
    assert_ok(train(RUN, &err), &err);
    same_weights(want, n);
    dt_free(want);
}

static void changed_bytes_are_never_trained_on(void **state) /* case 52 */
{
    NEED_BINARY();
    dt_err err = {0};
    replace((struct fault){.at = 1});
    assert_ok(train(RUN, &err), &err);
    const long late = fault.got - 1;
    remove_all("out");
    replace((struct fault){.read = FLIPS, .at = late});
    assert_fails(train(LENET "checksum = on\n" OUT, &err), DT_E_IO, &err, "checksum");
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
    replace((struct fault){.at = 1});
    assert_ok(train(RUN, &err), &err);
    assert_has(said, "io_uring");
    same_weights(want, n);
    restore(NULL);
    replace((struct fault){.at = 1});
    calls.direct = not_direct;
    assert_ok(train(RUN, &err), &err);
    assert_has(said, "O_DIRECT");
    same_weights(want, n);
    dt_free(want);
}

static void a_slow_disk_is_told(void **state) /* case 55 */
{
    NEED_BINARY();
    dt_err err = {0};
    replace((struct fault){.write = LATE, .at = 1});
    assert_ok(train(RUN, &err), &err);
    assert_has(said, "waiting for the disk");
    assert_has(said, "memory.tier = host");
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

#define T(f) cmocka_unit_test_teardown(f, restore)
DT_TEST_GROUP(disk_runs)
{
    const struct CMUnitTest tests[] = {
        T(a_full_disk_is_known_before_the_first_step),
        T(a_failing_disk_ends_the_run_and_keeps_the_last_step),
        T(short_transfers_are_finished),
        T(changed_bytes_are_never_trained_on),
        T(a_disk_without_direct_access_is_told_and_used),
        T(a_slow_disk_is_told),
        T(a_killed_run_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
