/* The folder of a run: it is claimed once, nothing in it is ever lost, and what is written there
 * can be read by others. */
#define _GNU_SOURCE

#include "tests/fixture/check.h"
#include "tests/fixture/few_addresses.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/sanitizer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "session/run_dir.h"
#include "session/run_dir/run_dir_internal.h"

/* Each test works in a fresh folder. */
static int in_new_folder(void **state)
{
    static int next;
    char name[32];
    (void)state;
    snprintf(name, sizeof name, "t%d", next++);
    const char *path = dt_temp_path(name);
    return mkdir(path, 0777) != 0 || chdir(path) != 0;
}

static dt_run_dir *open_dir(const char *dir, bool overwrite)
{
    dt_err err = {0};
    dt_run_dir *d = NULL;
    const dt_dir_opts o = {.dir = dir, .overwrite = overwrite};
    assert_ok(dti_run_dir_open(&d, &o, "lenet5", "keep_all", &err), &err);
    return d;
}

static void refused(const char *dir, bool overwrite, dt_status status, const char *says)
{
    const long live = dti_alloc_live();
    dt_err err = {0};
    dt_run_dir *d = NULL;
    const dt_dir_opts o = {.dir = dir, .overwrite = overwrite};
    assert_fails(dti_run_dir_open(&d, &o, "lenet5", "keep_all", &err), status, &err, says);
    assert_null(d);
    assert_int_equal(dti_alloc_live(), live);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static char *read_text(const char *path)
{
    char *text;
    size_t n;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &n, path, 1 << 20, DT_E_DATA, &err), &err);
    return text;
}

/* ---- names ---- */

static void default_names_count_up(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++) {
        char want[64];
        snprintf(want, sizeof want, "runs/lenet5-keep_all-%d", i);
        dt_run_dir *d = open_dir(NULL, false);
        assert_string_equal(dt_run_dir_path(d), want);
        dti_run_dir_close(d);
    }
}

static void a_new_run_comes_after_all_that_are_there(void **state)
{
    (void)state;
    assert_int_equal(mkdir("runs", 0777), 0);
    assert_int_equal(mkdir("runs/lenet5-keep_all-11", 0777), 0);
    assert_int_equal(mkdir("runs/lenet5-keep_all-x", 0777), 0);
    assert_int_equal(mkdir("runs/lenet5-keep_all-99999999999999999999", 0777), 0);
    assert_int_equal(mkdir("runs/lenet5-keep_all_too-40", 0777), 0);
    dt_run_dir *d = open_dir(NULL, false);
    assert_string_equal(dt_run_dir_path(d), "runs/lenet5-keep_all-12");
    dti_run_dir_close(d);
}

static void names_hold_no_odd_bytes(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = NULL;
    const dt_dir_opts o = {0};
    assert_ok(
        dti_run_dir_open(&d, &o, "../a b/\n\xC3\xA9", "gist_lossless, vdnn_conv", &err), &err);
    assert_string_equal(dt_run_dir_path(d), "runs/_._ab____-gist_lossless+vdnn_conv-1");
    dti_run_dir_close(d);
}

static void long_names_are_cut(void **state)
{
    (void)state;
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    dt_err err = {0};
    dt_run_dir *d = NULL;
    const dt_dir_opts o = {0};
    assert_ok(dti_run_dir_open(&d, &o, name, name, &err), &err);
    assert_true(strlen(dt_run_dir_path(d)) < 220);
    dti_run_dir_close(d);
}

static void a_named_folder_is_made_with_those_above_it(void **state)
{
    (void)state;
    dt_run_dir *d = open_dir("a/b/c//", false);
    assert_string_equal(dt_run_dir_path(d), "a/b/c");
    assert_true(exists("a/b/c/checkpoints"));
    assert_string_equal(dti_run_dir_file(d, DT_RUN_WEIGHTS), "a/b/c/checkpoints/model.safetensors");
    dti_run_dir_close(d);
}

static void an_empty_folder_is_used(void **state)
{
    (void)state;
    assert_int_equal(mkdir("mine", 0777), 0);
    dti_run_dir_close(open_dir("mine", false));
}

/* ---- used folders ---- */

static void a_used_folder_is_refused(void **state)
{
    (void)state;
    dti_run_dir_close(open_dir("r", false));
    refused("r", false, DT_E_BUSY,
        "'r' holds a run; --resume goes on with it; else set run.dir to another folder, or "
        "run.overwrite = on to move it aside");
}

static void a_folder_in_use_names_the_process(void **state)
{
    (void)state;
    char says[64];
    dt_run_dir *d = open_dir("r", false);
    snprintf(says, sizeof says, "'r' is in use by process %ld on ", (long)getpid());
    refused("r", false, DT_E_BUSY, says);
    refused("r", true, DT_E_BUSY, says);
    assert_true(exists("r/lock"));
    dti_run_dir_close(d);
    assert_false(exists("r/lock"));
}

/* Another run may have the folder then, and only one of them writes there. */
static void a_lock_that_is_gone_is_noticed(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false), *other = NULL;
    assert_ok(dt_run_dir_there(d, &err), &err);
    assert_int_equal(unlink("r/lock"), 0);
    assert_ok(dti_run_dir_continue(&other, "r", &err), &err);
    assert_fails(dt_run_dir_there(d, &err), DT_E_BUSY, &err, "is in use by process");
    err = (dt_err){0};
    assert_ok(dt_run_dir_there(other, &err), &err);
    dti_run_dir_close(d);
    assert_true(exists("r/lock"));
    dti_run_dir_close(other);
    d = open_dir("s", false);
    assert_int_equal(unlink("s/lock"), 0);
    assert_fails(dt_run_dir_there(d, &err), DT_E_BUSY, &err, "lock was removed");
    dti_run_dir_close(d);
}

static void another_process_holds_the_folder(void **state)
{
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20); /* should the parent fail and never kill it */
        dt_run_dir *d = NULL;
        const dt_dir_opts o = {.dir = "r"};
        if (dti_run_dir_open(&d, &o, "a", "b", NULL) != DT_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(1);
    }
    char c, says[64];
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    snprintf(says, sizeof says, "in use by process %ld", (long)child);
    refused("r", false, DT_E_BUSY, says);
    refused("r", true, DT_E_BUSY, says);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    /* killed: the lock is gone, its file tells whose it was */
    snprintf(says, sizeof says, "did not finish (process %ld on ", (long)child);
    refused("r", false, DT_E_BUSY, says);
    dt_run_dir *d = open_dir("r", true);
    assert_string_equal(dt_run_dir_moved(d), "r.old-1");
    assert_true(exists("r.old-1/metrics.jsonl"));
    dti_run_dir_close(d);
}

static void overwriting_moves_the_old_run_aside(void **state)
{
    (void)state;
    dti_run_dir_close(open_dir("r", false));
    for (int i = 1; i <= 3; i++) {
        char mark[32], moved[48];
        snprintf(mark, sizeof mark, "r/mark%d", i);
        put_file(mark, "kept");
        dt_run_dir *d = open_dir("r/", true);
        snprintf(moved, sizeof moved, "r.old-%d", i);
        assert_string_equal(dt_run_dir_moved(d), moved);
        dti_run_dir_close(d);
        snprintf(moved, sizeof moved, "r.old-%d/mark%d", i, i);
        assert_true(exists(moved));
        assert_false(exists(mark));
    }
}

static void overwriting_takes_the_next_free_number(void **state)
{
    (void)state;
    dti_run_dir_close(open_dir("r", false));
    put_file("r.old-1", "a file");
    assert_int_equal(mkdir("r.old-2", 0777), 0);
    dt_run_dir *d = open_dir("r", true);
    assert_string_equal(dt_run_dir_moved(d), "r.old-3");
    dti_run_dir_close(d);
    char *text = read_text("r.old-1");
    assert_string_equal(text, "a file");
    dt_free(text);
}

/* Dots behind the folder itself lead nowhere once it is moved. */
static void overwriting_finds_its_place_again(void **state)
{
    (void)state;
    static const char *const ways[] = {"a/r/../r", "a/r/.", "a/./r/", "a/r/../../a/r/."};
    assert_int_equal(mkdir("a", 0777), 0);
    dti_run_dir_close(open_dir("a/r", false));
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        char mark[32];
        put_file("a/r/mark", "kept");
        dti_run_dir_close(open_dir(ways[i], true));
        snprintf(mark, sizeof mark, "a/r.old-%zu/mark", i + 1);
        assert_true(exists(mark));
        assert_true(exists("a/r/metrics.jsonl"));
        assert_false(exists("a/r/mark"));
    }
}

static void overwriting_moves_only_runs(void **state)
{
    (void)state;
    assert_int_equal(mkdir("home", 0777), 0);
    put_file("home/letter.txt", "dear");
    refused("home", true, DT_E_BUSY, "holds files that are no run's");
    assert_true(exists("home/letter.txt"));
    assert_false(exists("home/lock"));
    assert_false(exists("home.old-1"));
}

static void a_lock_file_of_anyones_making_is_harmless(void **state)
{
    (void)state;
    assert_int_equal(mkdir("r", 0777), 0);
    put_file("r/config.ini", "[model]\n");
    put_file("r/lock", "12 bad\x1B[2Jhost\n and more");
    refused("r", false, DT_E_BUSY, "(process 12 on bad is gone)");
    put_file("r/lock", "");
    refused("r", false, DT_E_BUSY, "(another process is gone)");
}

/* No other folder helps where this process may open no file more. */
static void too_many_open_files_are_told_with_their_limit(void **state)
{
    (void)state;
    struct rlimit before, none;
    dt_err err = {0};
    int fd;
    assert_int_equal(mkdir("r", 0777), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const dt_status st = dti_run_lock_take(&fd, "r", &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_fails(st, DT_E_IO, &err, "create 'r/lock': Too many open files; raise RLIMIT_NOFILE");
}

static void a_lock_that_is_a_link_is_not_followed(void **state)
{
    (void)state;
    assert_int_equal(mkdir("r", 0777), 0);
    put_file("victim", "precious");
    assert_int_equal(symlink("../victim", "r/lock"), 0);
    refused("r", false, DT_E_IO,
        "cannot be written: create 'r/lock': Too many levels of symbolic links; make it writable, "
        "or set run.dir to another folder");
    char *text = read_text("victim");
    assert_string_equal(text, "precious");
    dt_free(text);
}

/* ---- what cannot be written ---- */

static void a_file_in_the_way_is_named(void **state)
{
    (void)state;
    put_file("f", "text");
    refused("f", false, DT_E_IO, "'f' is no folder");
    refused("f/below", false, DT_E_IO,
        "make run directory 'f/below': Not a directory; set run.dir to ");
    refused("f/far/below", false, DT_E_IO, "make folder 'f/far': Not a directory\nset run.dir to ");
    put_file("runs", "text");
    refused(NULL, false, DT_E_IO,
        "make run directory 'runs/lenet5-keep_all-1': Not a directory; set run.dir to ");
    assert_int_equal(unlink("runs"), 0);
    assert_int_equal(symlink("gone", "runs"), 0);
    refused(NULL, false, DT_E_IO, "keep_all-1': No such file or directory; set run.dir to ");
}

/* As a whole, in one of its names, or by what a run writes into it: no folder is made on the way.
 */
static void a_path_that_is_too_long_is_refused_before_it_is_made(void **state)
{
    (void)state;
    char path[PATH_MAX + 1024];
    const size_t lengths[] = {PATH_MAX - 100, PATH_MAX - 1, PATH_MAX + 1000};
    for (size_t i = 0; i < DT_COUNT(lengths); i++) {
        memset(path, 'd', lengths[i]);
        path[lengths[i]] = '\0';
        for (size_t k = 1; k < lengths[i] - 1; k += 2)
            path[k] = '/';
        refused(path, false, DT_E_IO, "is too long; set it to one of 3968 at most");
        assert_false(exists("d"));
    }
    snprintf(path, sizeof path, "d/d/%0*d/d", NAME_MAX + 1, 0);
    refused(path, false, DT_E_IO, "the longest name in it of 256, is too long");
    assert_false(exists("d"));
}

/* The n-th call of one kind fails. */
static struct fault {
    int open, write, sync, rename; /* calls left until it fails; 0: never */
    int error;
} fault;

static bool fails(int *left)
{
    if (*left == 0 || --*left > 0)
        return false;
    *left = 1; /* and again */
    errno = fault.error;
    return true;
}

static int bad_open(const char *path, int flags, mode_t mode)
{
    return (flags & O_CREAT) != 0 && fails(&fault.open) ? -1 : dt_io_system.open(path, flags, mode);
}

static ssize_t bad_pwrite(int fd, const void *from, size_t n, off_t at)
{
    if (!fails(&fault.write))
        return dt_io_system.pwrite(fd, from, n, at);
    /* a full disk takes a part of it */
    (void)!dt_io_system.pwrite(fd, from, n / 2, at);
    errno = fault.error;
    return -1;
}

static int bad_fsync(int fd)
{
    return fails(&fault.sync) ? -1 : dt_io_system.fsync(fd);
}

static int bad_rename(const char *from, const char *to)
{
    return fails(&fault.rename) ? -1 : dt_io_system.rename(from, to);
}

static void begin_faults(struct fault f)
{
    static dt_io_ops ops;
    ops = dt_io_system;
    ops.open = bad_open;
    ops.pwrite = bad_pwrite;
    ops.fsync = bad_fsync;
    ops.rename = bad_rename;
    fault = f;
    dt_io = &ops;
}

static int end_faults(void **state)
{
    (void)state;
    dt_io = &dt_io_system;
    cJSON_InitHooks(NULL);
    return 0;
}

static void a_folder_that_cannot_be_written_is_left_as_it_was(void **state)
{
    (void)state;
    static const struct fault cases[] = {
        {.open = 1, .error = EROFS},
        {.open = 2, .error = EACCES},
        {.open = 3, .error = ENOSPC}, /* the metrics */
        {.write = 1, .error = ENOSPC},
        {.write = 2, .error = EDQUOT},
        {.rename = 1, .error = EIO},
    };
    assert_int_equal(mkdir("mine", 0777), 0);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        begin_faults(cases[i]);
        refused("new", false, DT_E_IO, strerror(cases[i].error));
        begin_faults(cases[i]);
        refused("mine", false, DT_E_IO, strerror(cases[i].error));
        begin_faults(cases[i]);
        refused(NULL, false, DT_E_IO, strerror(cases[i].error));
        assert_false(exists("new"));
        assert_int_equal(rmdir("runs"), 0); /* so it is empty */
        assert_int_equal(rmdir("mine"), 0);
        assert_int_equal(mkdir("mine", 0777), 0);
    }
}

static struct dirent *unreadable(DIR *folder)
{
    (void)folder;
    errno = EIO;
    return NULL;
}

/* Of which nobody knows that it is empty, or which runs are in it. */
static void a_folder_that_cannot_be_read_to_its_end_is_not_used(void **state)
{
    (void)state;
    static dt_io_ops ops;
    assert_int_equal(mkdir("mine", 0777), 0);
    put_file("mine/letter.txt", "mine");
    ops = dt_io_system;
    ops.readdir = unreadable;
    dt_io = &ops;
    refused("mine", false, DT_E_IO, "read folder 'mine': Input/output error");
    refused("mine", true, DT_E_IO, "read folder 'mine'");
    refused(NULL, false, DT_E_IO, "read folder 'runs'");
    assert_true(exists("mine/letter.txt") && !exists("mine/lock"));
    assert_int_equal(rmdir("runs"), 0); /* so it is empty */
}

static int syncs;

static int count_syncs(int fd)
{
    syncs++;
    return bad_fsync(fd);
}

/* A new run as it is before its first step. */
static dt_run_dir *described(void)
{
    static dt_io_ops ops;
    dt_err err = {0};
    dt_config *c = NULL;
    begin_faults((struct fault){0});
    ops = *dt_io;
    ops.fsync = count_syncs;
    dt_io = &ops;
    syncs = 0;
    dt_run_dir *d = open_dir("r", false);
    put_file("given.ini", "[train]\nbatch = 8\n");
    assert_ok(dt_config_load(&c, "given.ini", &err), &err);
    assert_ok(dti_run_dir_config(d, c, &err), &err);
    assert_ok(dti_run_dir_facts(d, &(dti_run_facts){.version = "0"}, &err), &err);
    dt_config_destroy(c);
    return d;
}

static void before_the_first_step_nothing_waits_for_the_disk(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = described();
    assert_int_equal(syncs, 0);
    assert_ok(dti_run_dir_settle(d, &err), &err);
    assert_int_equal(syncs, 3); /* two files and their folder */
    assert_ok(dti_run_dir_settle(d, &err), &err);
    assert_int_equal(syncs, 3);
    assert_ok(dti_run_dir_facts(d, &(dti_run_facts){.version = "1"}, &err), &err);
    assert_int_equal(syncs, 5); /* what is written later lasts at once */
    dti_run_dir_close(d);
}

/* The files in it are no links, but the way to it may be one, as to a larger disk. */
static void a_folder_that_a_link_leads_to_is_written_and_synced(void **state)
{
    (void)state;
    dt_err err = {0};
    assert_int_equal(mkdir("elsewhere", 0777), 0);
    assert_int_equal(symlink("elsewhere", "r"), 0);
    dt_run_dir *d = described();
    assert_ok(dti_run_dir_settle(d, &err), &err);
    assert_int_equal(syncs, 3);
    assert_int_equal(access("elsewhere/config.ini", F_OK), 0);
    dti_run_dir_close(d);
    refused("r", true, DT_E_IO, "'r' is a link, and only a folder is moved aside; set run.dir to");
    assert_false(exists("r.old-1"));
}

static void a_summary_says_that_the_disk_lost_what_came_before_it(void **state)
{
    (void)state;
    for (int k = 1; k <= 3; k++) {
        dt_err err = {0};
        dt_run_dir *d = described();
        fault = (struct fault){.sync = k, .error = EIO};
        assert_fails(dti_run_dir_summary(d, &(dti_run_summary){.model = "m", .policy = "p"}, &err),
            DT_E_IO, &err, "run directory 'r' cannot be written; set run.dir to another folder");
        assert_false(exists("r/summary.json"));
        assert_int_equal(syncs, k);
        dt_io = &dt_io_system;
        dti_run_dir_discard(d, &err);
        dti_run_dir_close(d);
    }
}

static void a_move_that_fails_leaves_the_old_run(void **state)
{
    (void)state;
    dti_run_dir_close(open_dir("r", false));
    begin_faults((struct fault){.rename = 1, .error = EXDEV});
    refused("r", true, DT_E_IO, "move 'r' to 'r.old-1'");
    assert_true(exists("r/metrics.jsonl"));
    assert_false(exists("r.old-1"));
}

static void an_overwriting_run_that_fails_puts_the_old_one_back(void **state)
{
    (void)state;
    static const struct fault cases[] = {
        {.open = 3, .error = EACCES},
        {.write = 1, .error = ENOSPC},
        {.write = 2, .error = EDQUOT},
    };
    dti_run_dir_close(open_dir("r", false));
    put_file("r/mark", "kept");
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        begin_faults(cases[i]);
        refused("r", true, DT_E_IO, strerror(cases[i].error));
        end_faults(NULL);
        assert_true(exists("r/mark"));
        assert_true(exists("r/metrics.jsonl"));
        assert_false(exists("r/lock"));
        assert_false(exists("r.old-1"));
    }
    begin_faults((struct fault){.rename = 2, .error = EIO}); /* and that back, too */
    refused("r", true, DT_E_IO, "the run that was in 'r' is now 'r.old-1'");
    end_faults(NULL);
    assert_true(exists("r.old-1/mark"));
}

static void a_run_that_is_discarded_puts_the_old_one_back(void **state)
{
    (void)state;
    dt_err err = {0};
    dti_run_dir_close(open_dir("r", false));
    put_file("r/mark", "kept");
    dt_run_dir *d = open_dir("r", true);
    dti_run_dir_discard(d, &err);
    dti_run_dir_close(d);
    assert_int_equal(err.n, 0);
    assert_true(exists("r/mark"));
    assert_false(exists("r.old-1"));
    d = open_dir("r", true);
    put_file("r/mine", "somebody's"); /* so the place is taken */
    dti_run_dir_discard(d, &err);
    dti_run_dir_close(d);
    assert_non_null(strstr(err.text, "the run that was in 'r' is now 'r.old-1'"));
    assert_true(exists("r/mine"));
    assert_true(exists("r.old-1/mark"));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    dti_run_dir_close(open_dir("old", false));
    for (long k = 1;; k++) {
        dt_run_dir *d = NULL;
        const dt_dir_opts o = {.dir = "old", .overwrite = true};
        dti_alloc_fail_at(k);
        const dt_status st = dti_run_dir_open(&d, &o, "a", "b", NULL);
        dti_alloc_fail_at(0);
        dti_run_dir_close(d);
        assert_int_equal(dti_alloc_live(), live);
        if (st == DT_OK) {
            assert_true(k > 4);
            break;
        }
        assert_int_equal(st, DT_E_NOMEM);
        assert_true(exists("old/metrics.jsonl"));
        assert_false(exists("old.old-1"));
    }
}

/* ---- metrics ---- */

static void step(dt_run_dir *d, int64_t i, double loss)
{
    const dt_step_report r = {.step = i,
        .steps = 9,
        .epoch = 1,
        .samples = 32,
        .loss = loss,
        .lr = 0.1,
        .step_seconds = 0.5,
        .wait_seconds = 0.125};
    dti_run_dir_step(d, &r);
}

/* Line @i of the metrics, parsed; NULL when there are fewer. */
static cJSON *metric(const char *path, int i)
{
    char *text = read_text(path), *line = text;
    for (; i > 0 && line != NULL; i--) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    cJSON *j = line != NULL && *line != '\0' ? json_of(line, strcspn(line, "\n")) : NULL;
    dt_free(text);
    return j;
}

static void a_step_is_a_line(void **state)
{
    (void)state;
    dt_run_dir *d = open_dir("r", false);
    step(d, 1, 2.302585092994046);
    char *text = read_text("r/metrics.jsonl"); /* while the run is going */
    assert_string_equal(text,
        "{\"step\": 1, \"epoch\": 1, \"split\": \"train\", \"loss\": 2.30258509, \"lr\": 0.1, "
        "\"images_per_second\": 64, \"step_seconds\": 0.5, \"wait_seconds\": 0.125}\n");
    dt_free(text);
    dti_run_dir_close(d);
}

static void an_evaluation_is_a_line(void **state)
{
    (void)state;
    dt_run_dir *d = open_dir("r", false);
    const dt_eval_report r = {.step = 9,
        .epoch = 2,
        .samples = 10000,
        .loss = 1.25,
        .top1 = 0.5,
        .top5 = 0.75,
        .seconds = 3};
    dti_run_dir_eval(d, &r);
    dti_run_dir_close(d);
    char *text = read_text("r/metrics.jsonl");
    assert_string_equal(text,
        "{\"step\": 9, \"epoch\": 2, \"split\": \"eval\", \"loss\": 1.25, "
        "\"top1\": 0.5, \"top5\": 0.75, \"samples\": 10000, \"seconds\": 3}\n");
    dt_free(text);
}

static void numbers_json_has_no_word_for_are_text(void **state)
{
    (void)state;
    dt_run_dir *d = open_dir("r", false);
    step(d, 1, (double)NAN);
    step(d, 2, (double)INFINITY);
    step(d, 3, -(double)INFINITY);
    dti_run_dir_close(d);
    static const char *const want[] = {"nan", "inf", "-inf"};
    for (int i = 0; i < 3; i++) {
        cJSON *j = metric("r/metrics.jsonl", i);
        assert_string_equal(json_text(j, "loss"), want[i]);
        cJSON_Delete(j);
    }
}

static void losses_have_nine_digits(void **state)
{
    (void)state;
    dt_run_dir *d = open_dir("r", false);
    static const double losses[] = {1.0 / 3, 6.90775527898, 1e-300, 123456789012.0, -0.0};
    for (int i = 0; i < (int)DT_COUNT(losses); i++)
        step(d, i + 1, losses[i]);
    dti_run_dir_close(d);
    for (int i = 0; i < (int)DT_COUNT(losses); i++) {
        cJSON *j = metric("r/metrics.jsonl", i);
        assert_true(fabs(json_number(j, "loss") - losses[i]) <= 1e-9 * fabs(losses[i]));
        cJSON_Delete(j);
    }
}

static void a_full_disk_loses_lines_and_nothing_else(void **state)
{
    (void)state;
    dt_run_dir *d = open_dir("r", false);
    const char *why;
    assert_int_equal(dt_run_dir_lost(d, &why), 0);
    assert_string_equal(why, "");
    step(d, 1, 1);
    begin_faults((struct fault){.write = 1, .error = ENOSPC});
    step(d, 2, 2);
    step(d, 3, 3);
    end_faults(NULL);
    step(d, 4, 4);
    begin_faults((struct fault){.write = 1, .error = EIO});
    step(d, 5, 5);
    end_faults(NULL);
    assert_int_equal(dt_run_dir_lost(d, &why), 3);
    assert_non_null(strstr(why, "No space left"));
    dti_run_dir_close(d);
    cJSON *j = metric("r/metrics.jsonl", 0);
    assert_true(json_number(j, "step") == 1);
    cJSON_Delete(j);
    j = metric("r/metrics.jsonl", 1);
    assert_true(json_number(j, "step") == 4);
    cJSON_Delete(j);
    assert_null(metric("r/metrics.jsonl", 2));
}

/* Lines go on in a file that others see, and those that went with the other are told. */
static void metrics_that_are_replaced_are_begun_anew(void **state)
{
    (void)state;
    for (int put = 0; put < 2; put++) {
        const char *name = put == 1 ? "s" : "r", *why;
        char file[32];
        dt_run_dir *d = open_dir(name, false);
        snprintf(file, sizeof file, "%s/metrics.jsonl", name);
        step(d, 1, 1);
        step(d, 2, 2);
        assert_int_equal(unlink(file), 0);
        if (put == 1)
            put_file(file, "somebody's\n");
        dti_run_dir_sync(d);
        assert_int_equal(dt_run_dir_lost(d, &why), 2);
        assert_non_null(strstr(why, "metrics.jsonl' was removed or replaced"));
        step(d, 3, 3);
        dti_run_dir_sync(d);
        assert_int_equal(dt_run_dir_lost(d, &why), put == 1 ? 3 : 2);
        dti_run_dir_close(d);
        char *text = read_text(file);
        if (put == 1)
            assert_string_equal(text, "somebody's\n");
        else
            assert_non_null(strstr(text, "{\"step\": 3"));
        dt_free(text);
    }
}

static void lines_need_no_memory(void **state)
{
    (void)state;
    dt_run_dir *d = open_dir("r", false);
    dti_alloc_fail_at(1);
    step(d, 1, 1);
    dti_alloc_fail_at(0);
    assert_int_equal(dt_run_dir_lost(d, NULL), 0);
    dti_run_dir_close(d);
}

/* ---- other files ---- */

static dt_status print_word(const void *arg, FILE *f, dt_err *err)
{
    (void)err;
    fprintf(f, "plan of %s\n", (const char *)arg);
    return DT_OK;
}

static void a_file_is_written_whole_or_not_at_all(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false);
    assert_ok(dti_run_dir_write(d, "plan.txt", print_word, "lenet5", &err), &err);
    begin_faults((struct fault){.write = 1, .error = ENOSPC});
    assert_fails(dti_run_dir_write(d, "plan.txt", print_word, "other", &err), DT_E_IO, &err,
        "No space left");
    end_faults(NULL);
    char *text = read_text("r/plan.txt");
    assert_string_equal(text, "plan of lenet5\n");
    dt_free(text);
    dti_run_dir_close(d);
}

enum { TEXT_MIB = 96, LEFT_MIB = 40 };

static dt_status print_much(const void *arg, FILE *f, dt_err *err)
{
    (void)arg, (void)err;
    for (int64_t i = 0; i < ((int64_t)TEXT_MIB << 20) / 16; i++)
        fprintf(f, "fifteen letters\n");
    return DT_OK;
}

static void a_text_that_memory_cuts_is_not_written(void **state)
{
    (void)state;
    if (DT_OWN_HEAP)
        skip();
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false);
    const struct rlimit before = dt_leave_addresses((rlim_t)LEFT_MIB << 20);
    const dt_status st = dti_run_dir_write(d, "plan.txt", print_much, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_fails(st, DT_E_NOMEM, &err, "no memory for plan.txt");
    assert_false(exists("r/plan.txt"));
    dti_run_dir_close(d);
}

static void the_effective_configuration_reads_back(void **state)
{
    (void)state;
    static const char ini[] = "[model]\nname = lenet5\n[train]\nbatch = 8\n";
    dt_err err = {0};
    dt_config *c = NULL;
    dt_run_options o, back;
    assert_ok(parse_config(&c, "x.ini", ini, sizeof ini - 1, &err), &err);
    assert_ok(dt_run_options_bind(c, &o, &err), &err);
    dt_run_dir *d = open_dir("r", false);
    assert_ok(dti_run_dir_config(d, c, &err), &err);
    dt_config *again = NULL;
    assert_ok(dt_config_load(&again, "r/config.ini", &err), &err);
    assert_ok(dt_run_options_bind(again, &back, &err), &err);
    assert_int_equal(back.train.batch, 8);
    assert_true(back.train.lr == o.train.lr);
    dt_config_destroy(again);
    dt_config_destroy(c);
    dti_run_dir_close(d);
}

static void facts_name_the_machine(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false);
    const dti_run_facts f = {.network = "chain",
        .version = "0.1.0",
        .library = "oneDNN 2.6.3",
        .device = "cpu",
        .isa = "avx2",
        .threads = 2,
        .seed = 18446744073709551615u};
    assert_ok(dti_run_dir_facts(d, &f, &err), &err);
    dti_run_dir_close(d);
    cJSON *j = json_file("r/env.json");
    assert_string_equal(json_text(j, "library"), "oneDNN 2.6.3");
    assert_true(strlen(json_text(j, "cpu")) > 0);
    assert_true(json_number(j, "threads") == 2);
    cJSON_Delete(j);
    char *text = read_text("r/env.json");
    assert_non_null(strstr(text, "18446744073709551615"));
    dt_free(text);
}

/* It becomes part of the names of folders. */
static void a_network_is_called_what_its_run_says_if_files_may_be_called_so(void **state)
{
    (void)state;
    static const char *const no[] = {"", "{}", "[]", "{\"network\": 3}", "{\"network\": \"\"}",
        "{\"network\": \"../x\"}", "{\"network\": \"a/b\"}", "{\"network\": \".a\"}",
        "{\"network\": \"a b\"}", "{\"network\": \"12345678\"}"};
    char name[8] = "config";
    for (size_t i = 0; i < DT_COUNT(no); i++) {
        put_file("env.json", no[i]);
        assert_false(dti_run_dir_network(".", name, sizeof name));
        assert_string_equal(name, "config");
    }
    assert_false(dti_run_dir_network("nowhere", name, sizeof name));
    put_file("env.json", "{\"network\": \"my-2.x\"}");
    assert_true(dti_run_dir_network(".", name, sizeof name));
    assert_string_equal(name, "my-2.x");
}

static dti_run_summary sample_summary(void)
{
    return (dti_run_summary){.model = "lenet5",
        .policy = "keep_all",
        .device = "cpu",
        .precision = "fp32",
        .exact = true,
        .batch = 32,
        .micro_batch = 16,
        .threads = 2,
        .steps = 30,
        .steps_planned = 30,
        .samples = 960,
        .seconds = 1.5,
        .images_per_second = 640,
        .first_loss = 2.3,
        .final_loss = 0.25,
        .device_peak_planned = 9007199254740993u,
        .device_peak_measured = 9007199254740993u,
        .process_peak = 1,
        .outside_arena_bytes = 2};
}

static void the_summary_holds_exact_bytes(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false);
    const dti_run_summary s = sample_summary();
    assert_ok(dti_run_dir_summary(d, &s, &err), &err);
    dti_run_dir_close(d);
    char *text = read_text("r/summary.json");
    assert_non_null(strstr(text, "\"device_peak_planned\":\t9007199254740993"));
    assert_non_null(strstr(text, "\"device_peak_measured\":\t9007199254740993"));
    dt_free(text);
    cJSON *j = json_file("r/summary.json");
    assert_string_equal(json_text(j, "status"), "done");
    assert_true(json_number(j, "exit_code") == 0);
    assert_true(json_number(j, "final_loss") == 0.25);
    assert_true(json_number(j, "steps") == 30);
    assert_true(json_number(j, "metrics_lost") == 0);
    assert_null(cJSON_GetObjectItemCaseSensitive(j, "error"));
    assert_null(cJSON_GetObjectItemCaseSensitive(j, "eval_loss"));
    cJSON_Delete(j);
}

static void a_failed_run_has_a_summary_too(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false);
    dti_run_summary s = sample_summary();
    s.status = DT_E_NONFINITE;
    s.error = "step 3: the \"loss\" is \xFF not finite\n";
    s.steps = 0;
    s.device_peak_measured = 0;
    assert_ok(dti_run_dir_summary(d, &s, &err), &err);
    dti_run_dir_close(d);
    cJSON *j = json_file("r/summary.json");
    assert_string_equal(json_text(j, "status"), "failed");
    assert_string_equal(json_text(j, "error"), "step 3: the \"loss\" is ? not finite\n");
    assert_true(json_number(j, "exit_code") == 7);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "final_loss")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "device_peak_measured")));
    cJSON_Delete(j);
}

static void a_stopped_run_says_so_and_holds_its_evaluation(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false);
    const dt_eval_report e = {
        .step = 20, .samples = 100, .loss = (double)NAN, .top1 = 0.5, .top5 = 1};
    dti_run_summary s = sample_summary();
    s.status = DT_E_STOPPED;
    s.eval = &e;
    assert_ok(dti_run_dir_summary(d, &s, &err), &err);
    dti_run_dir_close(d);
    cJSON *j = json_file("r/summary.json");
    assert_string_equal(json_text(j, "status"), "stopped");
    assert_true(json_number(j, "exit_code") == 75);
    assert_true(json_number(j, "eval_top1") == 0.5);
    assert_string_equal(json_text(j, "eval_loss"), "nan");
    cJSON_Delete(j);
}

/* A process that went on and had no step to do measured neither; those of an older version did not
 * keep the scores of pixels. */
static void what_a_process_does_not_know_is_left_open(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run_dir *d = open_dir("r", false);
    const dt_eval_report e = {
        .step = 30, .samples = 100, .top1 = 0.5, .pixels = true, .mean_iou = (double)NAN};
    dti_run_summary s = sample_summary();
    s.images_per_second = (double)NAN;
    s.eval = &e;
    assert_ok(dti_run_dir_summary(d, &s, &err), &err);
    dti_run_dir_close(d);
    cJSON *j = json_file("r/summary.json");
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "images_per_second")));
    assert_null(cJSON_GetObjectItemCaseSensitive(j, "eval_mean_iou"));
    assert_true(json_number(j, "final_loss") == 0.25 && json_number(j, "eval_top1") == 0.5);
    cJSON_Delete(j);
}

/* cJSON's memory, which is ours to fail in one test. */
static void *counted(size_t n)
{
    return dt_alloc(n, 1);
}

static void a_summary_without_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    dt_run_dir *d = open_dir("r", false);
    const dti_run_summary s = sample_summary();
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = counted, .free_fn = dt_free});
    for (long k = 1;; k++) {
        dti_alloc_fail_at(k);
        const dt_status st = dti_run_dir_summary(d, &s, NULL);
        dti_alloc_fail_at(0);
        if (st == DT_OK) {
            assert_true(k > 20);
            break;
        }
        assert_int_equal(st, DT_E_NOMEM);
        assert_false(exists("r/summary.json"));
    }
    dti_run_dir_close(d);
    assert_int_equal(dti_alloc_live(), live);
}

#define T(f) cmocka_unit_test_setup_teardown(f, in_new_folder, end_faults)

DT_TEST_GROUP(run_dir)
{
    const struct CMUnitTest tests[] = {
        T(default_names_count_up),
        T(a_new_run_comes_after_all_that_are_there),
        T(names_hold_no_odd_bytes),
        T(long_names_are_cut),
        T(a_named_folder_is_made_with_those_above_it),
        T(an_empty_folder_is_used),
        T(a_used_folder_is_refused),
        T(a_folder_in_use_names_the_process),
        T(a_lock_that_is_gone_is_noticed),
        T(another_process_holds_the_folder),
        T(overwriting_moves_the_old_run_aside),
        T(overwriting_takes_the_next_free_number),
        T(overwriting_finds_its_place_again),
        T(overwriting_moves_only_runs),
        T(a_lock_file_of_anyones_making_is_harmless),
        T(too_many_open_files_are_told_with_their_limit),
        T(a_lock_that_is_a_link_is_not_followed),
        T(a_file_in_the_way_is_named),
        T(a_path_that_is_too_long_is_refused_before_it_is_made),
        T(a_folder_that_cannot_be_written_is_left_as_it_was),
        T(a_folder_that_cannot_be_read_to_its_end_is_not_used),
        T(before_the_first_step_nothing_waits_for_the_disk),
        T(a_folder_that_a_link_leads_to_is_written_and_synced),
        T(a_summary_says_that_the_disk_lost_what_came_before_it),
        T(a_move_that_fails_leaves_the_old_run),
        T(an_overwriting_run_that_fails_puts_the_old_one_back),
        T(a_run_that_is_discarded_puts_the_old_one_back),
        T(every_allocation_may_fail),
        T(a_step_is_a_line),
        T(an_evaluation_is_a_line),
        T(numbers_json_has_no_word_for_are_text),
        T(losses_have_nine_digits),
        T(a_full_disk_loses_lines_and_nothing_else),
        T(metrics_that_are_replaced_are_begun_anew),
        T(lines_need_no_memory),
        T(a_file_is_written_whole_or_not_at_all),
        T(a_text_that_memory_cuts_is_not_written),
        T(the_effective_configuration_reads_back),
        T(facts_name_the_machine),
        T(a_network_is_called_what_its_run_says_if_files_may_be_called_so),
        T(the_summary_holds_exact_bytes),
        T(a_failed_run_has_a_summary_too),
        T(a_stopped_run_says_so_and_holds_its_evaluation),
        T(what_a_process_does_not_know_is_left_open),
        T(a_summary_without_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
