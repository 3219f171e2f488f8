/* The disk tier when the system fails it: each call, the n-th of its kind for every n, by every
 * way. Either the bytes that come back are right, or the failure is one of I/O, with the folder and
 * the remedy; and nothing is left. */
#define _GNU_SOURCE /* O_TMPFILE */

#include "tests/fixture/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tests/fixture/disk_check.h"
#include "tests/fixture/leaks.h"

enum call {
    OPEN,
    FALLOCATE,
    DIRECT,
    STATFS,
    UNLINK,
    PREAD,
    PWRITE,
    CLOSE,
    R_OPEN,
    R_SUBMIT,
    R_WAIT,
    R_RESULT,
    CALLS
};
static const char *const names[] = {"open", "fallocate", "direct", "statfs", "unlink", "pread",
    "pwrite", "close", "ring open", "ring submit", "ring wait", "ring result"};
_Static_assert(DT_COUNT(names) == CALLS, "a name a call");

/* What a faulty call gives: an error, or, below 0, a transfer cut short. */
enum { NOTHING = -1, HALF = -2, ODD = -3, SECTOR = -4 };

/* Calls of one kind from the n-th to the last fail. Lanes and their threads share this. */
static struct fault {
    enum call kind;
    int first, last, effect;
    int seen, fired;
    bool named; /* files must have a name */
} fault;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static dt_io_ops real;
static int under_way; /* in rings; each is used by one thread here */

/* 0, or the effect of this call. */
static int effect_of(enum call kind)
{
    int effect = 0;
    pthread_mutex_lock(&fault_lock);
    if (kind == fault.kind && ++fault.seen >= fault.first && fault.seen <= fault.last) {
        fault.fired++;
        effect = fault.effect;
    }
    pthread_mutex_unlock(&fault_lock);
    return effect;
}

static bool fails(enum call kind)
{
    const int effect = effect_of(kind);
    if (effect > 0)
        errno = effect;
    return effect > 0;
}

static size_t cut(size_t n, int effect)
{
    switch (effect) {
    case NOTHING:
        return 0;
    case HALF:
        return n / 2;
    case ODD:
        return n > 1 ? n - 1 : n;
    case SECTOR:
        return n < 512 ? n : 512;
    default:
        return n;
    }
}

static int bad_open(const char *path, int flags, mode_t mode)
{
    if (fault.named && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return fails(OPEN) ? -1 : real.open(path, flags, mode);
}

static int bad_fallocate(int fd, off_t at, off_t n)
{
    const int effect = effect_of(FALLOCATE);
    return effect > 0 ? effect : real.fallocate(fd, at, n);
}

static int bad_direct(int fd, bool on)
{
    return fails(DIRECT) ? -1 : real.direct(fd, on);
}

static int bad_statfs(const char *path, struct statfs *to)
{
    return fails(STATFS) ? -1 : real.statfs(path, to);
}

static int bad_unlink(const char *path)
{
    return fails(UNLINK) ? -1 : real.unlink(path);
}

static ssize_t bad_pread(int fd, void *to, size_t n, off_t at)
{
    const int effect = effect_of(PREAD);
    errno = effect;
    if (effect > 0)
        return -1;
    const ssize_t got = real.pread(fd, to, n, at);
    if (got <= 0 || effect == 0)
        return got;
    const size_t kept = cut((size_t)got, effect);
    memset((char *)to + kept, 0x77, (size_t)got - kept);
    return (ssize_t)kept;
}

static ssize_t bad_pwrite(int fd, const void *from, size_t n, off_t at)
{
    const int effect = effect_of(PWRITE);
    errno = effect;
    if (effect < 0) { /* what is told short was still written, and may be written again */
        const ssize_t put = real.pwrite(fd, from, n, at);
        return put < 0 ? put : (ssize_t)cut(n, effect);
    }
    return effect > 0 ? -1 : real.pwrite(fd, from, n, at);
}

/* As Linux does it: the descriptor is gone even when close fails. */
static int bad_close(int fd)
{
    const int r = real.close(fd);
    return fails(CLOSE) ? -1 : r;
}

static int bad_ring_open(dti_uring **out, int fd, unsigned depth)
{
    const int effect = effect_of(R_OPEN);
    *out = NULL;
    return effect > 0 ? -effect : dt_uring_system.open(out, fd, depth);
}

static int bad_ring_submit(
    dti_uring *r, const void *from, void *to, unsigned bytes, uint64_t offset, unsigned tag)
{
    int got = -effect_of(R_SUBMIT);
    if (got == 0)
        got = dt_uring_system.submit(r, from, to, bytes, offset, tag);
    under_way += got == 0;
    return got;
}

static int bad_ring_wait(dti_uring *r, unsigned *tag, int *result)
{
    int got = -effect_of(R_WAIT);
    if (got == 0)
        got = dt_uring_system.wait(r, tag, result);
    if (got != 0)
        return got;
    under_way--;
    const int effect = effect_of(R_RESULT);
    if (effect > 0)
        *result = -effect;
    else if (*result > 0)
        *result = (int)cut((size_t)*result, effect);
    return 0;
}

/* A ring may only be closed when the kernel is done with it. */
static void checked_ring_close(dti_uring *r)
{
    assert_int_equal(under_way, 0);
    dt_uring_system.close(r);
}

static const dti_uring_calls bad_rings = {
    bad_ring_open, checked_ring_close, bad_ring_submit, bad_ring_wait};

static dt_io_ops faulty;

static void arm(const disk_way *w, struct fault f)
{
    real = disk_way_calls(w);
    faulty = real;
    faulty.open = bad_open;
    faulty.fallocate = bad_fallocate;
    faulty.direct = bad_direct;
    faulty.statfs = bad_statfs;
    faulty.unlink = bad_unlink;
    faulty.pread = bad_pread;
    faulty.pwrite = bad_pwrite;
    faulty.close = bad_close;
    fault = f;
    under_way = 0;
    dt_io = &faulty;
    dt_uring_io = &bad_rings;
}

static int teardown(void **state)
{
    (void)state;
    dt_io = &dt_io_system;
    dt_uring_io = &dt_uring_system;
    return 0;
}

enum { MIB = 1 << 20, FEW = 5000, SLOT = 8192, ROOM = 5 * MIB };

/* More chunks than are under way at once, with a last one that is no whole block. */
static size_t many(const disk_way *w)
{
    return (w->way == DTI_DISK_URING ? (size_t)DTI_DISK_DEPTH : 2) * MIB + 200;
}

static char *bytes_of_page(void)
{
    static char *p; /* one for all tests: a large block is slow to get under sanitizers */
    if (p == NULL)
        p = aligned_alloc(4096, ROOM);
    assert_non_null(p);
    return p;
}

static int free_page(void **state)
{
    (void)state;
    free(bytes_of_page());
    return 0;
}

static dt_status transfer(void *s, char *p, size_t n, unsigned seed, dt_err *err)
{
    disk_fill(p, n, seed);
    dt_status st = disk_tier()->write(s, SLOT, p, n, err);
    assert_int_equal(under_way, 0);
    if (st != DT_OK)
        return st;
    memset(p, 0, n);
    st = disk_tier()->read(s, SLOT, p, n, err);
    assert_int_equal(under_way, 0);
    if (st == DT_OK && !disk_filled(p, n, seed))
        fail_msg(
            "%s, call %d, effect %d: wrong bytes", names[fault.kind], fault.first, fault.effect);
    return st;
}

static bool moves(enum call kind)
{
    return kind == PREAD || kind == PWRITE || kind == R_RESULT;
}

/* Such a fault is no reason to fail: a transfer goes on, and what is only better than its
 * substitute is done without. */
static bool must_pass(const struct fault *f)
{
    if (moves(f->kind))
        return f->effect == EINTR || f->effect == EAGAIN || f->effect == HALF || f->effect == ODD ||
               f->effect == SECTOR;
    if (f->kind == OPEN)
        return f->effect == EINTR || !f->named;
    return f->kind != FALLOCATE || f->effect == EINTR;
}

/* True if the fault happened. */
static bool check_one(const disk_way *w, struct fault f, size_t offset, const char *folder)
{
    const int fds = open_files();
    const long live = dti_alloc_live();
    arm(w, f);
    const size_t n = f.kind < PREAD || f.kind == CLOSE || f.kind == R_OPEN ? FEW : many(w);
    const dt_tier_opts o = {.bytes = SLOT + many(w), .path = folder};
    void *s;
    const char *note;
    static dt_err err;
    memset(&err, 0, sizeof err);
    char *p = bytes_of_page() + offset;
    dt_status st = dti_disk_reserve(&o, w->way, &s, &note, &err);
    if (st == DT_OK) {
        st = transfer(s, p, n, 1, &err);
        if (f.last == f.first && fault.fired > 0) /* it passed, and all is well again */
            assert_int_equal(transfer(s, p, FEW, 2, NULL), DT_OK);
        disk_tier()->release(s);
    } else {
        assert_null(s);
    }
    if (st != DT_OK && st != DT_E_IO && !(st == DT_E_NOMEM && f.effect == ENOMEM))
        fail_msg("%s, call %d, effect %d: %s", names[f.kind], f.first, f.effect, err.text);
    if (st != DT_OK && fault.fired > 0 && must_pass(&f))
        fail_msg(
            "%s, call %d, effect %d: not survived: %s", names[f.kind], f.first, f.effect, err.text);
    if (st == DT_E_IO &&
        (strstr(err.text, folder) == NULL || strstr(err.text, "memory.disk_path") == NULL ||
            strstr(err.text, "memory.tier = host") == NULL))
        fail_msg("%s: no folder or remedy in: %s", names[f.kind], err.text);
    dt_io = &dt_io_system;
    assert_int_equal(open_files(), fds);
    assert_int_equal(dti_alloc_live(), live);
    assert_int_equal(files_in(folder), 0);
    return fault.fired > 0;
}

static const int effects[] = {
    EIO, ENOSPC, EINTR, EAGAIN, EINVAL, ENOMEM, NOTHING, HALF, ODD, SECTOR, EDQUOT, EPERM, ENOSYS};

static bool makes_sense(enum call kind, int effect)
{
    if (effect == EDQUOT || effect == EPERM || effect == ENOSYS)
        return !moves(kind) && kind != R_SUBMIT && kind != R_WAIT; /* no other than EIO there */
    return effect > 0 || moves(kind);
}

/* How often calls of one kind failed, over all n and effects. */
static int check_kind(const disk_way *w, enum call kind, bool named, const char *folder)
{
    int fired = 0;
    for (size_t e = 0; e < DT_COUNT(effects); e++) {
        struct fault f = {.kind = kind, .effect = effects[e], .named = named};
        if (!makes_sense(kind, effects[e]))
            continue;
        for (int n = 1;; n++) {
            f.first = f.last = n;
            const size_t offset = n % 2 == 0 ? 0 : 64; /* straight, and through bounce buffers */
            if (!check_one(w, f, offset, folder))
                break;
            fired++;
        }
    }
    return fired;
}

static const char *fresh_folder(void)
{
    static int n;
    char name[32];
    snprintf(name, sizeof name, "faults%d", n++);
    const char *folder = dt_temp_path(name);
    assert_int_equal(mkdir(folder, 0700), 0);
    return folder;
}

static void a_fault_at_any_call_is_survived_or_reported(void **state)
{
    const disk_way *w = *state;
    if (!disk_way_works(w))
        skip();
    const char *folder = fresh_folder();
    const bool rings = w->way == DTI_DISK_URING;
    for (int kind = 0; kind < CALLS; kind++) {
        if (kind == UNLINK)
            continue;
        const int fired = check_kind(w, (enum call)kind, false, folder);
        const bool must = kind >= R_OPEN ? rings : !rings || (kind != PREAD && kind != PWRITE);
        assert_true(fired > 0 || !must || kind == DIRECT || kind == STATFS);
    }
}

static void a_fault_at_any_call_leaves_no_name(void **state)
{
    const disk_way *w = *state;
    const char *folder = fresh_folder();
    static const enum call kinds[] = {OPEN, FALLOCATE, UNLINK, CLOSE};
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        assert_true(check_kind(w, kinds[i], true, folder) > 0);
}

/* Of a fault that stays: status and text. */
static void stays(const disk_way *w, enum call kind, int first, int effect, const char *says)
{
    const char *folder = fresh_folder();
    arm(w, (struct fault){.kind = kind, .first = first, .last = 1000000, .effect = effect});
    const dt_tier_opts o = {.bytes = SLOT + many(w), .path = folder};
    void *s;
    const char *note;
    dt_err err = {0};
    dt_status st = dti_disk_reserve(&o, w->way, &s, &note, &err);
    if (st == DT_OK) {
        st = transfer(s, bytes_of_page() + 64, many(w), 1, &err);
        disk_tier()->release(s);
    }
    assert_fails(st, DT_E_IO, &err, says);
    assert_fails(st, DT_E_IO, &err, folder);
}

static void a_fault_that_stays_is_reported_with_its_reason(void **state)
{
    (void)state;
    static const disk_way one = {"one thread", DTI_DISK_ALONE, true}; /* one first failure */
    stays(&one, FALLOCATE, 1, ENOSPC, "GiB are free: No space left on device; take a smaller");
    stays(&one, FALLOCATE, 1, EDQUOT, "Disk quota exceeded");
    stays(&one, PWRITE, 2, EIO, "Input/output error");
    stays(&one, PWRITE, 1, ENOSPC, "write 1048576 bytes at byte 8192 of the disk tier's file in");
    stays(&one, PWRITE, 1, NOTHING, "No space left on device");
    stays(&one, PREAD, 1, NOTHING, "the file ends there");
    stays(&one, PREAD, 2, EIO, "read ");
    stays(&one, PREAD, 1, EAGAIN, "Resource temporarily unavailable"); /* not for ever */
    stays(&one, OPEN, 1, EROFS, "Read-only file system");
}

/* Nothing can take the name away, so the run must not start with a file that would stay. */
static void a_name_that_cannot_be_removed_is_reported(void **state)
{
    (void)state;
    const char *folder = fresh_folder();
    const int fds = open_files();
    arm(&disk_ways[3],
        (struct fault){.kind = UNLINK, .first = 1, .last = 1000, .effect = EPERM, .named = true});
    const dt_tier_opts o = {.bytes = MIB, .path = folder};
    void *s;
    const char *note;
    dt_err err = {0};
    assert_fails(disk_tier()->reserve(&o, &s, &note, &err), DT_E_IO, &err, folder);
    assert_int_equal(open_files(), fds);
    /* the next start clears what is left */
    fault = (struct fault){.named = true};
    assert_int_equal(files_in(folder), 1);
    assert_ok(disk_tier()->reserve(&o, &s, &note, &err), &err);
    assert_int_equal(files_in(folder), 0);
    disk_tier()->release(s);
}

static void a_ring_that_stays_broken_is_done_without(void **state)
{
    const disk_way *w = *state;
    if (!disk_way_works(w))
        skip();
    const char *folder = fresh_folder();
    for (int first = 1; first < 12; first++) {
        const struct fault f = {.kind = R_SUBMIT, .first = first, .last = 1000000, .effect = EBADF};
        assert_true(check_one(w, f, 64, folder));
    }
}

#define T(f) cmocka_unit_test_teardown(f, teardown)
/* cmocka wants a state that can be written, and writes nothing */
#define ON(f, w)                                                                                   \
    {                                                                                              \
#f, f, NULL, teardown, (void *)(uintptr_t)&disk_ways[w]                                    \
    }
DT_TEST_GROUP(tier_faults)
{
    const struct CMUnitTest tests[] = {ON(a_fault_at_any_call_is_survived_or_reported, 0),
        ON(a_fault_at_any_call_is_survived_or_reported, 1),
        ON(a_fault_at_any_call_is_survived_or_reported, 2),
        ON(a_fault_at_any_call_is_survived_or_reported, 3),
        ON(a_fault_at_any_call_is_survived_or_reported, 4),
        ON(a_fault_at_any_call_leaves_no_name, 2),
        T(a_fault_that_stays_is_reported_with_its_reason),
        T(a_name_that_cannot_be_removed_is_reported),
        ON(a_ring_that_stays_broken_is_done_without, 0),
        ON(a_ring_that_stays_broken_is_done_without, 1)};
    return cmocka_run_group_tests(tests, NULL, free_page);
}
