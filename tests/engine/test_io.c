/* Files: transfers are completed, odd files refused, and a write that fails at any call leaves the
 * old file and nothing else. */
#define _GNU_SOURCE /* O_DIRECT */
#include "tests/fixture/check.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/read_ahead.h"
#include "tests/fixture/leaks.h"

enum call { OPEN, PREAD, PWRITE, FSYNC, CLOSE, RENAME, CALLS };

/* The n-th call of one kind fails; transfers are short or interrupted on request. */
static struct fault {
    enum call kind;
    int nth, error, seen;
    bool fired;
    size_t most;   /* bytes a transfer moves; 0: all */
    int interrupt; /* every n-th call is interrupted; 0: none */
    int calls;
    bool buffered; /* the file system knows no other way */
    bool refuses;  /* what goes past the page cache, only when it is to be read or written */
} fault;

static bool fails(enum call kind)
{
    if (fault.interrupt > 0 && kind != CLOSE && kind != RENAME &&
        fault.calls++ % fault.interrupt == 0) {
        errno = EINTR;
        return true;
    }
    if (fault.nth == 0 || kind != fault.kind || ++fault.seen != fault.nth)
        return false;
    fault.fired = true;
    errno = fault.error;
    return true;
}

static size_t cut(size_t n)
{
    return fault.most > 0 && n > fault.most ? fault.most : n;
}

static int bad_open(const char *path, int flags, mode_t mode)
{
    return fails(OPEN) ? -1 : dt_io_system.open(path, flags, mode);
}

static bool refused(int fd)
{
    return fault.refuses && (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

static ssize_t bad_pread(int fd, void *to, size_t n, off_t at)
{
    if (fails(PREAD))
        return -1;
    if (refused(fd)) {
        errno = EINVAL;
        return -1;
    }
    return dt_io_system.pread(fd, to, cut(n), at);
}

static ssize_t bad_pwrite(int fd, const void *from, size_t n, off_t at)
{
    if (fails(PWRITE))
        return -1;
    if (refused(fd)) {
        errno = EINVAL;
        return -1;
    }
    return dt_io_system.pwrite(fd, from, cut(n), at);
}

static int bad_fsync(int fd)
{
    return fails(FSYNC) ? -1 : dt_io_system.fsync(fd);
}

/* As Linux does it: the descriptor is gone even when close fails. */
static int bad_close(int fd)
{
    const int r = dt_io_system.close(fd);
    return fails(CLOSE) ? -1 : r;
}

static int bad_rename(const char *from, const char *to)
{
    return fails(RENAME) ? -1 : dt_io_system.rename(from, to);
}

static int bad_direct(int fd, bool on)
{
    return fault.buffered && on ? -1 : dt_io_system.direct(fd, on);
}

static const dt_io_ops faulty = {.open = bad_open,
    .pread = bad_pread,
    .pwrite = bad_pwrite,
    .fsync = bad_fsync,
    .close = bad_close,
    .rename = bad_rename,
    .direct = bad_direct,
    .unlink = unlink};

static int teardown(void **state)
{
    (void)state;
    dt_io = &dt_io_system;
    memset(&fault, 0, sizeof fault);
    return 0;
}

/* Blocks enough to go around the writer's ring, and a rest that is no whole unit. */
enum { OLD = 'o', NEW = 'n', NEW_BYTES = DT_WRITER_BYTES + (3 << 20) + 77 };

static dt_status write_file(const char *path, int byte, size_t n, dt_err *err)
{
    char *bytes = malloc(n + 1);
    assert_non_null(bytes);
    memset(bytes, byte, n + 1);
    dt_file_writer *w;
    dt_status st = dt_writer_open(&w, path, err);
    if (st == DT_OK) {
        /* a small piece, one that needs no buffer, one that does */
        const size_t small = n / 100, large = n / 2, parts[] = {small, large, n - small - large};
        for (size_t i = 0; i < DT_COUNT(parts) && st == DT_OK; i++)
            st = dt_writer_put(w, bytes, parts[i], err);
        if (st == DT_OK)
            st = dt_writer_commit(w, err);
        else
            dt_writer_abandon(w);
    }
    free(bytes);
    return st;
}

/* The file's only byte value, or -1 when it is not n equal bytes. */
static int content(const char *path, size_t n)
{
    char *text;
    size_t got;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &got, path, NEW_BYTES, DT_E_DATA, &err), &err);
    int byte = got == n && n > 0 ? text[0] : -1;
    for (size_t i = 0; i < got; i++)
        if (text[i] != byte)
            byte = -1;
    assert_int_equal(text[got], '\0');
    dt_free(text);
    return byte;
}

static const char *folder_of_one(const char *name, const char **path)
{
    const char *folder = dt_temp_path(name);
    assert_int_equal(mkdir(folder, 0700), 0);
    char below[128];
    snprintf(below, sizeof below, "%s/file", name);
    *path = dt_temp_path(below);
    dt_err err = {0};
    assert_ok(write_file(*path, OLD, 10, &err), &err);
    return folder;
}

static void a_written_file_reads_back(void **state)
{
    (void)state;
    dt_err err = {0};
    const char *path = dt_temp_path("plain");
    assert_ok(write_file(path, NEW, NEW_BYTES, &err), &err);
    assert_int_equal(content(path, NEW_BYTES), NEW);
    assert_ok(write_file(path, OLD, 1, &err), &err);
    assert_int_equal(content(path, 1), OLD);
}

static void short_and_interrupted_transfers_are_completed(void **state)
{
    (void)state;
    static const size_t most[] = {60001, 5000, 4095}; /* more than a unit, just one, none */
    for (size_t i = 0; i < 2 * DT_COUNT(most); i++) {
        dt_err err = {0};
        const char *path = dt_temp_path("short");
        dt_io = &faulty;
        fault = (struct fault){.most = most[i / 2], .interrupt = 3, .buffered = i % 2 != 0};
        assert_ok(write_file(path, NEW, NEW_BYTES, &err), &err);
        assert_int_equal(content(path, NEW_BYTES), NEW);
        assert_true(fault.calls > 100);
    }
}

/* Every byte has its own place, whoever wrote it and by which way, and is in the sum once. */
static void what_is_written_behind_is_in_its_place_and_in_the_sum(void **state)
{
    (void)state;
    enum { PARTS = 7 };
    const size_t n = 3 * (size_t)DT_WRITER_BYTES + 4321;
    const char *path = dt_temp_path("behind");
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int way = 0; way < 3; way++) {
        char want[DT_SHA256_TEXT], got[DT_SHA256_TEXT], kept[DT_SHA256_TEXT];
        dt_sha256 all, sum;
        dt_file_writer *w;
        dt_err err = {0};
        uint64_t length;
        dt_io = &faulty;
        fault = (struct fault){.buffered = way == 1, .refuses = way == 2};
        dt_sha256_init(&all);
        dt_sha256_add(&all, bytes, n);
        dt_sha256_text(&all, want);
        dt_sha256_init(&sum);
        assert_ok(dt_writer_open(&w, path, &err), &err);
        dti_writer_sum(w, &sum);
        for (int i = 0; i < PARTS; i++) {
            const size_t at = n * (size_t)i / PARTS, end = n * ((size_t)i + 1) / PARTS;
            assert_ok(dt_writer_put(w, bytes + at, end - at, &err), &err);
        }
        assert_ok(dt_writer_commit(w, &err), &err);
        dt_sha256_text(&sum, got);
        assert_string_equal(got, want);
        assert_ok(dti_sha256_file(path, kept, &length, DT_E_DATA, &err), &err);
        assert_int_equal(length, n);
        assert_string_equal(kept, want);
    }
    free(bytes);
}

static void check_one_fault(
    enum call kind, int nth, int error, const char *folder, const char *path)
{
    dt_err err = {0};
    const int fds = open_files();
    const long blocks = dti_alloc_live();
    fault = (struct fault){.kind = kind, .nth = nth, .error = error};
    dt_io = &faulty;
    const dt_status st = write_file(path, NEW, NEW_BYTES, &err);
    const struct fault f = fault;
    teardown(NULL);
    assert_int_equal(open_files(), fds);
    assert_int_equal(dti_alloc_live(), blocks);
    assert_int_equal(files_in(folder), 1);
    if (!f.fired) {
        assert_ok(st, &err);
        assert_int_equal(content(path, NEW_BYTES), NEW);
        return;
    }
    const bool synced_late = kind == FSYNC && nth == 2; /* the folder, after the rename */
    const bool closed_late = kind == CLOSE && nth == 2; /* again the folder: nothing can be lost */
    if (closed_late) {
        assert_ok(st, &err);
    } else {
        assert_fails(st, DT_E_IO, &err, strerror(error));
        assert_fails(st, DT_E_IO, &err, folder); /* the path is named */
    }
    if (synced_late || closed_late) {
        assert_int_equal(content(path, NEW_BYTES), NEW);
        assert_ok(write_file(path, OLD, 10, NULL), &err);
    } else {
        assert_int_equal(content(path, 10), OLD);
    }
}

static void a_fault_at_any_call_keeps_the_old_file(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("faults", &path);
    static const int errors[] = {EIO, ENOSPC};
    for (int kind = 0; kind < CALLS; kind++) {
        if (kind == PREAD)
            continue; /* writing reads nothing */
        int n = 1;
        for (;; n++) {
            for (size_t e = 0; e < DT_COUNT(errors); e++)
                if (dt_sampled((uint64_t)n + e, DT_COUNT(errors)))
                    check_one_fault((enum call)kind, n, errors[e], folder, path);
            if (content(path, 10) != OLD)
                break; /* no fault fired any more */
        }
        assert_true(n > 1); /* at least one did */
        assert_ok(write_file(path, OLD, 10, NULL), NULL);
    }
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("nomem", &path);
    const long before = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_err err = {0};
        dti_alloc_fail_at(k);
        const dt_status st = write_file(path, NEW, 10, &err);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), before);
        assert_int_equal(files_in(folder), 1);
        if (st == DT_OK) {
            assert_true(k > 1);
            break;
        }
        assert_fails(st, DT_E_NOMEM, &err, path);
        assert_int_equal(content(path, 10), OLD);
    }
}

/* ---- reading ahead ---- */

enum { AHEAD = 3 * DTI_AHEAD_BYTES / 2 + 4321 }; /* once around its ring, and no whole unit */

static uint8_t *file_of_places(const char *path, size_t n)
{
    dt_err err = {0};
    uint8_t *bytes = malloc(n + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_ok(dt_write_file(path, bytes, n, &err), &err);
    return bytes;
}

static void check_blocks(const char *path, const uint8_t *bytes, size_t n)
{
    dti_ahead *a;
    dt_err err = {0};
    const void *p;
    size_t at = 0, some;
    assert_ok(dti_ahead_open(&a, path, DT_E_DATA, &err), &err);
    assert_int_equal(dti_ahead_bytes(a), n);
    for (;; at += some) {
        assert_ok(dti_ahead_next(a, &p, &some, &err), &err);
        if (some == 0)
            break;
        assert_in_range(some, 1, n - at);
        assert_memory_equal(p, bytes + at, some);
    }
    assert_int_equal(at, n);
    assert_ok(dti_ahead_next(a, &p, &some, &err), &err);
    assert_int_equal(some, 0); /* the end stays the end */
    dti_ahead_close(a);
}

static void what_is_read_ahead_is_the_file(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 4097, 2 << 20, (2 << 20) + 1, AHEAD};
    static const size_t most[] = {0, 60001, 4095};
    const char *path = dt_temp_path("ahead");
    for (size_t i = 0; i < DT_COUNT(sizes); i++) {
        dt_io = &dt_io_system;
        uint8_t *bytes = file_of_places(path, sizes[i]);
        dt_io = &faulty;
        for (size_t k = 0; k < 3 * DT_COUNT(most); k++) {
            fault = (struct fault){.most = most[k / 3],
                .interrupt = k >= 3 ? 3 : 0,
                .buffered = k % 3 == 1,
                .refuses = k % 3 == 2};
            check_blocks(path, bytes, sizes[i]);
        }
        free(bytes);
    }
}

/* Pieces of any length, some bytes left out between them; what is behind or far ahead is refused.
 */
static void pieces_are_read_in_their_order(void **state)
{
    (void)state;
    const char *path = dt_temp_path("pieces");
    uint8_t *bytes = file_of_places(path, AHEAD), *to = malloc(AHEAD);
    dti_ahead *a;
    dt_err err = {0};
    bool had;
    assert_non_null(to);
    assert_ok(dti_ahead_open(&a, path, DT_E_DATA, &err), &err);
    for (size_t at = 5, n = 1; at + n <= AHEAD; at += n + n / 9, n = n * 3 % 3000017 + 1) {
        assert_ok(dti_ahead_read(a, (off_t)at, to, n, &had, &err), &err);
        assert_true(had);
        assert_memory_equal(to, bytes + at, n);
    }
    to[0] = 7;
    assert_ok(dti_ahead_read(a, 0, to, 1, &had, &err), &err);
    assert_false(had);
    assert_ok(dti_ahead_read(a, AHEAD, to, 1, &had, &err), &err); /* past the end */
    assert_false(had);
    assert_int_equal(to[0], 7);
    dti_ahead_close(a);
    free(bytes);
    free(to);
}

static dt_status read_all(const char *path, dt_err *err)
{
    char sum[DT_SHA256_TEXT];
    uint64_t n;
    return dti_sha256_file(path, sum, &n, DT_E_CONFIG, err);
}

static void a_fault_at_any_read_ahead_is_told(void **state)
{
    (void)state;
    const char *path = dt_temp_path("ahead_faults");
    free(file_of_places(path, AHEAD));
    const int fds = open_files();
    const long blocks = dti_alloc_live();
    int n = 0;
    do {
        dt_err err = {0};
        dt_io = &faulty;
        fault = (struct fault){.kind = PREAD, .nth = ++n, .error = EIO};
        const dt_status st = read_all(path, &err);
        if (fault.fired)
            assert_fails(st, DT_E_IO, &err, "Input/output error");
        else
            assert_ok(st, &err);
        assert_int_equal(open_files(), fds);
        assert_int_equal(dti_alloc_live(), blocks);
    } while (fault.fired);
    assert_true(n > 5); /* every block's */
}

static void a_file_that_shrinks_ahead_is_bad_data(void **state)
{
    (void)state;
    const char *path = dt_temp_path("ahead_shrinks");
    dti_ahead *a;
    const void *p;
    size_t n;
    dt_err err = {0};
    free(file_of_places(path, AHEAD));
    assert_ok(dti_ahead_open(&a, path, DT_E_DATA, &err), &err);
    assert_int_equal(truncate(path, (2 << 20) + 100), 0);
    assert_ok(dti_ahead_next(a, &p, &n, &err), &err);
    assert_fails(dti_ahead_next(a, &p, &n, &err), DT_E_DATA, &err, "ends at byte 2097252");
    dti_ahead_close(a);
}

static void no_memory_to_read_ahead_is_reported(void **state)
{
    (void)state;
    const char *path = dt_temp_path("ahead_nomem");
    free(file_of_places(path, 10));
    const long before = dti_alloc_live();
    long k = 0;
    dt_status st;
    do {
        dt_err err = {0};
        dti_alloc_fail_at(++k);
        st = read_all(path, &err);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), before);
        if (st != DT_OK)
            assert_fails(st, DT_E_NOMEM, &err, path);
    } while (st != DT_OK);
    assert_true(k > 1);
}

static void reading_stops_at_faults(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("reads", &path);
    (void)folder;
    char *text;
    size_t n;
    dt_io = &faulty;
    dt_err err = {0};
    fault = (struct fault){.kind = PREAD, .nth = 1, .error = EIO};
    assert_fails(dt_read_file(&text, &n, path, 100, DT_E_CONFIG, &err), DT_E_IO, &err,
        "at byte 0: Input/output error");
    assert_null(text);
    memset(&err, 0, sizeof err);
    fault = (struct fault){.kind = OPEN, .nth = 1, .error = EACCES};
    assert_fails(dt_read_file(&text, &n, path, 100, DT_E_CONFIG, &err), DT_E_CONFIG, &err,
        "Permission denied");
}

static void a_file_that_ends_early_is_bad_data(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("early", &path);
    (void)folder;
    int fd;
    off_t bytes;
    dt_err err = {0};
    char to[20];
    assert_ok(dt_open_regular(&fd, &bytes, path, DT_E_DATA, &err), &err);
    assert_int_equal(bytes, 10);
    assert_fails(
        dt_read_at(fd, path, to, 20, 3, &err), DT_E_DATA, &err, "ends at byte 10, 13 bytes early");
    dt_err_clear(&err); /* what was cut meanwhile is read behind its end */
    assert_fails(
        dt_read_at(fd, path, to, 20, 30, &err), DT_E_DATA, &err, "ends at byte 10, 40 bytes early");
    dt_err_clear(&err);
    assert_fails(
        dt_read_at(fd, path, to, 1, 10, &err), DT_E_DATA, &err, "ends at byte 10, 1 byte early");
    close(fd);
}

static void a_file_over_the_cap_is_refused(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("cap", &path);
    (void)folder;
    char *text;
    size_t n;
    dt_err err = {0};
    assert_fails(dt_read_file(&text, &n, path, 9, DT_E_DATA, &err), DT_E_DATA, &err,
        "has 10 bytes; at most 9");
}

/* Each must be refused at once: opening a FIFO could wait for ever. */
static void only_regular_files_are_read(void **state)
{
    (void)state;
    const char *fifo = dt_temp_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const struct {
        const char *path, *says;
    } cases[] = {{fifo, "is a FIFO"}, {dt_temp_path("."), "is a folder"},
        {"/dev/null", "is a device"}, {dt_temp_path("none"), "No such file"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err err = {0};
        int fd;
        off_t bytes;
        const int fds = open_files();
        assert_fails(dt_open_regular(&fd, &bytes, cases[i].path, DT_E_DATA, &err), DT_E_DATA, &err,
            cases[i].says);
        assert_fails(DT_E_DATA, DT_E_DATA, &err, cases[i].path);
        assert_int_equal(fd, -1);
        assert_int_equal(open_files(), fds);
    }
}

static void an_abandoned_write_leaves_nothing(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("abandoned", &path);
    dt_err err = {0};
    dt_file_writer *w;
    assert_ok(dt_writer_open(&w, path, &err), &err);
    assert_ok(dt_writer_put(w, "new", 3, &err), &err);
    assert_int_equal(files_in(folder), 2);
    dt_writer_abandon(w);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(content(path, 10), OLD);
    dt_writer_abandon(NULL);
}

static void a_temporary_file_of_another_is_left_alone(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("leftover", &path);
    char below[64];
    struct stat st;
    snprintf(below, sizeof below, "leftover/.file.tmp-%ld", (long)getpid());
    /* a link that somebody laid there must not be written through */
    assert_int_equal(symlink("nowhere", dt_temp_path(below)), 0);
    dt_err err = {0};
    assert_ok(write_file(path, NEW, 100, &err), &err);
    assert_int_equal(content(path, 100), NEW);
    assert_int_equal(files_in(folder), 2);
    assert_true(lstat(dt_temp_path(below), &st) == 0 && S_ISLNK(st.st_mode));
}

/* Two threads of one process may write one file: whichever comes last, it is whole. */
static void two_writers_of_one_file_do_not_meet(void **state)
{
    (void)state;
    const char *path, *folder = folder_of_one("two", &path);
    dt_err err = {0};
    dt_file_writer *one, *other;
    assert_ok(dt_writer_open(&one, path, &err), &err);
    assert_ok(dt_writer_open(&other, path, &err), &err);
    assert_ok(dt_writer_put(one, "first", 5, &err), &err);
    assert_ok(dt_writer_put(other, "sec", 3, &err), &err);
    assert_ok(dt_writer_commit(one, &err), &err);
    struct stat st;
    assert_true(stat(path, &st) == 0 && st.st_size == 5);
    assert_ok(dt_writer_put(other, "ond", 3, &err), &err);
    assert_ok(dt_writer_commit(other, &err), &err);
    assert_true(stat(path, &st) == 0 && st.st_size == 6);
    assert_int_equal(files_in(folder), 1);
}

/* As long as a name may be, of which a temporary one has to leave out some. */
static void the_longest_name_is_written(void **state)
{
    (void)state;
    char name[NAME_MAX + 1], path[PATH_MAX];
    const char *first, *folder = folder_of_one("longest", &first);
    dt_err err = {0};
    dt_file_writer *w;
    memset(name, 'a', NAME_MAX);
    name[NAME_MAX] = '\0';
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
    assert_ok(dt_writer_open(&w, path, &err), &err);
    assert_ok(dt_writer_put(w, "long", 4, &err), &err);
    assert_ok(dt_writer_commit(w, &err), &err);
    struct stat st;
    assert_true(stat(path, &st) == 0 && st.st_size == 4);
    assert_int_equal(files_in(folder), 2);
}

static void temporary_names_are_told_from_others(void **state)
{
    (void)state;
    static const char *const temporary[] = {".a.tmp-1", ".a.tmp-12-3", "..tmp-x.tmp-7"};
    static const char *const other[] = {"a.tmp-1", ".a.tmp-", ".a.tmp-1x", ".a.tmp-1-",
        ".a.tmp-1-x", ".notes.tmp-draft", ".a.tmp-1.txt", "", "."};
    for (size_t i = 0; i < DT_COUNT(temporary); i++)
        assert_true(dt_is_temporary(temporary[i]));
    for (size_t i = 0; i < DT_COUNT(other); i++)
        assert_false(dt_is_temporary(other[i]));
}

static void a_second_name_takes_the_place_of_a_file(void **state)
{
    (void)state;
    char from[512], to[512];
    struct stat a, b;
    dt_err err = {0};
    dt_file_writer *w;
    snprintf(from, sizeof from, "%s", dt_temp_path("first"));
    snprintf(to, sizeof to, "%s", dt_temp_path("second"));
    assert_fails(dti_link_over(from, to, &err), DT_E_IO, &err, "link '");
    for (int i = 0; i < 2; i++) {
        assert_ok(dt_writer_open(&w, i == 0 ? to : from, &err), &err);
        assert_ok(dt_writer_commit(w, &err), &err);
    }
    for (int i = 0; i < 2; i++) { /* the second time it is that file already */
        assert_ok(dti_link_over(from, to, &err), &err);
        assert_int_equal(stat(from, &a), 0);
        assert_int_equal(stat(to, &b), 0);
        assert_true(a.st_ino == b.st_ino && a.st_nlink == 2);
    }
    assert_int_equal(unlink(from), 0);
    assert_int_equal(unlink(to), 0);
}

static void a_missing_folder_is_named(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_file_writer *w;
    const char *path = dt_temp_path("no/such/file");
    assert_fails(dt_writer_open(&w, path, &err), DT_E_IO, &err, "No such file or directory");
    assert_null(w);
}

static void a_name_without_a_folder_works(void **state)
{
    (void)state;
    char *here = getcwd(NULL, 0);
    assert_non_null(here);
    assert_int_equal(chdir(dt_temp_path(".")), 0);
    dt_err err = {0};
    const dt_status st = write_file("bare", NEW, 5, &err);
    assert_int_equal(chdir(here), 0);
    free(here);
    assert_ok(st, &err);
    assert_int_equal(content(dt_temp_path("bare"), 5), NEW);
}

/* Renaming over them would put a file where a device was, or the link that stands for one. */
static void only_regular_files_are_replaced(void **state)
{
    (void)state;
    const char *fifo = dt_temp_path("pipe"), *link = dt_temp_path("out");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("/proc/self/fd/1", link), 0);
    const struct {
        const char *path, *says;
    } cases[] = {{fifo, "is a FIFO"}, {dt_temp_path("."), "is a folder"},
        {"/dev/null", "is a device"}, {link, "is a link to an open file"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err err = {0};
        dt_file_writer *w;
        assert_fails(dt_writer_open(&w, cases[i].path, &err), DT_E_IO, &err, cases[i].says);
        assert_null(w);
    }
}

#define T(f) cmocka_unit_test_teardown(f, teardown)
DT_TEST_GROUP(io)
{
    const struct CMUnitTest tests[] = {T(a_written_file_reads_back),
        T(short_and_interrupted_transfers_are_completed),
        T(what_is_written_behind_is_in_its_place_and_in_the_sum),
        T(a_fault_at_any_call_keeps_the_old_file), T(a_failed_allocation_is_reported),
        T(what_is_read_ahead_is_the_file), T(pieces_are_read_in_their_order),
        T(a_fault_at_any_read_ahead_is_told), T(a_file_that_shrinks_ahead_is_bad_data),
        T(no_memory_to_read_ahead_is_reported), T(reading_stops_at_faults),
        T(a_file_that_ends_early_is_bad_data), T(a_file_over_the_cap_is_refused),
        T(only_regular_files_are_read), T(only_regular_files_are_replaced),
        T(an_abandoned_write_leaves_nothing), T(a_temporary_file_of_another_is_left_alone),
        T(two_writers_of_one_file_do_not_meet), T(the_longest_name_is_written),
        T(temporary_names_are_told_from_others), T(a_missing_folder_is_named),
        T(a_name_without_a_folder_works), T(a_second_name_takes_the_place_of_a_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
