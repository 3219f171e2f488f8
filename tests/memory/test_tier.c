/* Tiers: what is written comes back, whatever its size and address, by all ways there are; nothing
 * is left in the folder; what is not as good as it could be is said. */
#define _GNU_SOURCE /* unshare */

#include "tests/fixture/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "memory/policy.h"
#include "tests/fixture/disk_check.h"
#include "tests/fixture/leaks.h"

enum { MIB = 1 << 20, SPARE = 4096 };

static dt_io_ops calls; /* of the test that runs */

static int teardown(void **state)
{
    (void)state;
    dt_io = &dt_io_system;
    dt_uring_io = &dt_uring_system;
    return 0;
}

static const char *fresh_folder(const char *name)
{
    const char *folder = dt_temp_path(name);
    assert_int_equal(mkdir(folder, 0700), 0);
    return folder;
}

/* Point dt_io at the way's calls and reserve by it. */
static void *reserve(const disk_way *w, uint64_t bytes, bool checksum)
{
    calls = disk_way_calls(w);
    dt_io = &calls;
    const dt_tier_opts o = {.bytes = bytes, .path = dt_temp_path("."), .checksum = checksum};
    void *state;
    const char *note;
    dt_err err = {0};
    assert_ok(dti_disk_reserve(&o, w->way, &state, &note, &err), &err);
    assert_int_equal(((dti_disk *)state)->out.ring != NULL, w->way == DTI_DISK_URING);
    assert_int_equal(((dti_disk *)state)->in.ring != NULL, w->way == DTI_DISK_URING);
    return state;
}

static char *aligned_bytes(size_t n)
{
    char *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
    assert_non_null(p);
    return p;
}

/* --- the registry and the host tier --- */

static void tiers_are_found_by_the_names_that_plans_use(void **state)
{
    (void)state;
    size_t n;
    const dt_tier_desc *const *all = dt_tier_all(&n);
    assert_true(n >= DT_TIERS - 1); /* the input tier is the feed's */
    for (size_t i = 0; i < n; i++) {
        assert_true(all[i]->place == DT_TIER_HOST || all[i]->place == DT_TIER_DISK);
        assert_ptr_equal(dt_tier_desc_find(all[i]->name), all[i]);
    }
    for (dt_tier place = DT_TIER_HOST; place < DT_TIERS; place++) {
        assert_int_equal(dt_tier_standard(place)->place, place);
        assert_string_equal(dt_tier_standard(place)->name, dt_tier_name((int)place));
    }
    assert_null(dt_tier_desc_find("input"));
}

/* Policies whose options are homes go by the numbers of their words. */
static void places_are_called_the_same_everywhere(void **state)
{
    (void)state;
    static const char *const policies[] = {"zero_infinity", "zero_offload"};
    assert_string_equal(dt_place_name(DT_AT_DEVICE), "device");
    assert_int_equal(dt_place_find("input"), -1);
    for (int place = DT_AT_DEVICE; place < DT_TIERS; place++)
        assert_int_equal(dt_place_find(dt_place_name(place)), place);
    for (size_t i = 0; i < DT_COUNT(policies); i++)
        for (const dt_opt *o = dt_policy_find(policies[i])->opts; o->key != NULL; o++)
            for (int k = 0; o->choices != NULL && o->choices[k] != NULL; k++)
                if (strcmp(o->choices[k], "auto") != 0)
                    assert_int_equal(dt_place_find(o->choices[k]), k);
}

static void the_host_tier_is_memory_that_can_be_mapped(void **state)
{
    (void)state;
    const dt_tier_desc *t = dt_tier_desc_find("host");
    const long before = dti_alloc_live();
    dt_err err = {0};
    void *s;
    const char *note = "old";
    assert_ok(t->reserve(&(dt_tier_opts){.bytes = 3 * MIB + 5}, &s, &note, &err), &err);
    assert_null(note);
    char *map = t->map(s);
    assert_non_null(map);
    assert_int_equal((uintptr_t)map % 4096, 0);
    char piece[1000];
    disk_fill(piece, sizeof piece, 1);
    assert_ok(t->write(s, 3 * MIB + 5 - sizeof piece, piece, sizeof piece, &err), &err);
    assert_memory_equal(map + 3 * MIB + 5 - sizeof piece, piece, sizeof piece);
    memset(piece, 0, sizeof piece);
    assert_ok(t->read(s, 3 * MIB + 5 - sizeof piece, piece, sizeof piece, &err), &err);
    assert_true(disk_filled(piece, sizeof piece, 1));
    assert_int_equal(t->staging(s), 0);
    assert_fails(t->write(s, 3 * MIB, piece, 6, &err), DT_E_INTERNAL, &err, "ends past");
    memset(&err, 0, sizeof err);
    assert_fails(t->read(s, UINT64_MAX, piece, 6, &err), DT_E_INTERNAL, &err, "ends past");
    t->release(s);
    t->release(NULL);
    assert_int_equal(dti_alloc_live(), before);
}

static void a_host_tier_of_no_bytes_has_a_map(void **state)
{
    (void)state;
    const dt_tier_desc *t = dt_tier_desc_find("host");
    void *s;
    const char *note;
    assert_ok(t->reserve(&(dt_tier_opts){.bytes = 0}, &s, &note, NULL), NULL);
    assert_non_null(t->map(s));
    t->release(s);
}

static void a_host_tier_beyond_memory_is_refused(void **state)
{
    (void)state;
    const dt_tier_desc *t = dt_tier_desc_find("host");
    const long before = dti_alloc_live();
    dt_err err = {0};
    void *s;
    const char *note;
    const dt_tier_opts o = {.bytes = UINT64_C(1) << 60};
    assert_fails(t->reserve(&o, &s, &note, &err), DT_E_NOMEM, &err, "memory.tier = disk");
    assert_null(s);
    memset(&err, 0, sizeof err);
    dti_alloc_fail_at(1);
    assert_fails(
        t->reserve(&(dt_tier_opts){.bytes = 1}, &s, &note, &err), DT_E_NOMEM, &err, "host");
    assert_int_equal(dti_alloc_live(), before);
}

/* --- the disk tier, by every way --- */

static const size_t sizes[] = {
    0, 1, 63, 64, 4095, 4096, 4097, MIB - 64, MIB, MIB + 1, 2 * MIB + 4096, 5 * MIB + 123};
static const size_t offsets[] = {0, 1, 64, 512};

static void round_trips(const disk_way *w, bool checksum)
{
    uint64_t slot[DT_COUNT(sizes)], end = 0;
    for (size_t i = 0; i < DT_COUNT(sizes); i++) {
        slot[i] = end;
        end += (sizes[i] + 4095) / 4096 * 4096;
    }
    void *s = reserve(w, end, checksum);
    const dt_tier_desc *t = disk_tier();
    char *p = aligned_bytes(6 * MIB + 2 * SPARE);
    dt_err err = {0};
    for (size_t o = 0; o < DT_COUNT(offsets); o++) {
        for (size_t i = 0; i < DT_COUNT(sizes); i++) {
            char *from = p + offsets[o];
            disk_fill(from, sizes[i], (unsigned)(i + o));
            assert_ok(t->write(s, slot[i], from, sizes[i], &err), &err);
        }
        for (size_t i = 0; i < DT_COUNT(sizes); i++) {
            char *to = p + offsets[(o + i) % DT_COUNT(offsets)]; /* bytes may come back elsewhere */
            memset(p, 0x5a, 6 * MIB + 2 * SPARE);
            assert_ok(t->read(s, slot[i], to, sizes[i], &err), &err);
            assert_true(disk_filled(to, sizes[i], (unsigned)(i + o)));
            for (const char *q = p; q < to; q++)
                assert_int_equal(*q, 0x5a);
            for (const char *q = to + sizes[i]; q < to + sizes[i] + SPARE; q++)
                assert_int_equal(*q, 0x5a);
        }
    }
    free(p);
    t->release(s);
}

static void every_size_comes_back_at_every_address(void **state)
{
    const disk_way *w = *state;
    if (!disk_way_works(w))
        skip();
    const int fds = open_files();
    const long live = dti_alloc_live();
    round_trips(w, false);
    round_trips(w, true);
    assert_int_equal(open_files(), fds);
    assert_int_equal(dti_alloc_live(), live);
}

enum { PAIRS = 3, PAIR_BYTES = 3 * MIB + 100, PAIR_SLOT = 4 * MIB };

typedef struct half {
    void *tier;
    char *bytes;
    uint64_t first; /* slot */
    unsigned seed;
    dt_status st;
} half;

static void *write_half(void *arg)
{
    half *h = arg;
    for (unsigned i = 0; i < PAIRS && h->st == DT_OK; i++) {
        disk_fill(h->bytes, PAIR_BYTES, h->seed + i);
        h->st = disk_tier()->write(h->tier, (h->first + i) * PAIR_SLOT, h->bytes, PAIR_BYTES, NULL);
    }
    return NULL;
}

static void one_thread_writes_while_another_reads(void **state)
{
    const disk_way *w = *state;
    if (!disk_way_works(w))
        skip();
    void *s = reserve(w, 2 * PAIRS * (uint64_t)PAIR_SLOT, true);
    char *in = aligned_bytes(PAIR_SLOT), *out = aligned_bytes(PAIR_SLOT);
    half h = {.tier = s, .bytes = out + 64};
    write_half(&h);
    assert_int_equal(h.st, DT_OK);
    dt_err err = {0};
    for (unsigned round = 1; round < 5; round++) {
        const uint64_t there = h.first;
        const unsigned seed = h.seed;
        h.first = PAIRS - there;
        h.seed = round * 10;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, write_half, &h), 0);
        bool right = true;
        for (unsigned i = 0; i < PAIRS; i++) {
            char *to = in + 64 * i;
            assert_ok(disk_tier()->read(s, (there + i) * PAIR_SLOT, to, PAIR_BYTES, &err), &err);
            right = right && disk_filled(to, PAIR_BYTES, seed + i);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(h.st, DT_OK);
        assert_true(right);
    }
    free(in);
    free(out);
    disk_tier()->release(s);
}

/* Change a byte behind the tier's back. */
static void flip(void *s, uint64_t at)
{
    const int fd = ((dti_disk *)s)->file.fd;
    const int flags = fcntl(fd, F_GETFL);
    assert_int_equal(fcntl(fd, F_SETFL, flags & ~O_DIRECT), 0);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte = (char)(byte ^ 0x10);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

static void a_changed_byte_is_found_by_its_checksum(void **state)
{
    const disk_way *w = *state;
    if (!disk_way_works(w))
        skip();
    enum { BYTES = 2 * MIB + 100, SLOT = 8192 };
    void *s = reserve(w, 4 * MIB, true);
    const dt_tier_desc *t = disk_tier();
    char *p = aligned_bytes(3 * MIB);
    const struct {
        uint64_t at;
        const char *says;
    } cases[] = {{SLOT, "checksum of bytes 8192..1056767 of the disk tier differs"},
        {SLOT + MIB + 4711, "checksum of bytes 1056768..2105343 of the disk tier differs"},
        {SLOT + BYTES - 1, "checksum of bytes 2105344..2105443 of the disk tier differs"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err err = {0};
        disk_fill(p, BYTES, 3);
        assert_ok(t->write(s, SLOT, p, BYTES, &err), &err);
        assert_ok(t->write(s, 0, p, 100, &err), &err);
        flip(s, cases[i].at);
        assert_fails(t->read(s, SLOT, p, BYTES, &err), DT_E_IO, &err, cases[i].says);
        assert_fails(DT_E_IO, DT_E_IO, &err, "memory.disk_path");
        assert_ok(t->read(s, 0, p, 100, NULL), NULL); /* its neighbour is whole */
        flip(s, cases[i].at);
        assert_ok(t->read(s, SLOT, p, BYTES, NULL), NULL);
        assert_true(disk_filled(p, BYTES, 3));
    }
    free(p);
    t->release(s);
}

static void a_failed_allocation_leaves_nothing(void **state)
{
    const disk_way *w = *state;
    if (!disk_way_works(w))
        skip();
    calls = disk_way_calls(w);
    dt_io = &calls;
    const dt_tier_opts o = {.bytes = MIB, .path = dt_temp_path("."), .checksum = true};
    const int fds = open_files();
    const long live = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_err err = {0};
        void *s;
        const char *note;
        dti_alloc_fail_at(k);
        const dt_status st = dti_disk_reserve(&o, w->way, &s, &note, &err);
        dti_alloc_fail_at(0);
        bool clean = true;
        if (st == DT_OK) {
            clean =
                note == NULL || strstr(note, "io_uring") == NULL; /* no ring had to do without */
            disk_tier()->release(s);
        } else {
            assert_fails(st, DT_E_NOMEM, &err, "disk tier");
            assert_null(s);
            clean = false;
        }
        assert_int_equal(open_files(), fds);
        assert_int_equal(dti_alloc_live(), live);
        if (clean) {
            assert_true(k > 4);
            break;
        }
    }
}

/* --- the disk tier's file --- */

static void the_file_has_no_name(void **state)
{
    (void)state;
    const char *folder = fresh_folder("nameless");
    const dt_tier_opts o = {.bytes = 10 * MIB, .path = folder};
    void *s;
    const char *note;
    dt_err err = {0};
    assert_ok(disk_tier()->reserve(&o, &s, &note, &err), &err);
    assert_int_equal(files_in(folder), 0);
    struct stat st;
    assert_int_equal(fstat(((dti_disk *)s)->file.fd, &st), 0);
    assert_int_equal(st.st_nlink, 0);
    assert_int_equal(st.st_size, 10 * MIB);
    assert_true(st.st_blocks >= 10 * MIB / 512); /* all of it is there, not a hole */
    disk_tier()->release(s);
    disk_tier()->release(NULL);
}

static int no_tmpfile(const char *path, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return dt_io_system.open(path, flags, mode);
}

static void touch(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void a_file_that_needs_a_name_loses_it_and_those_of_dead_runs(void **state)
{
    (void)state;
    const char *folder = fresh_folder("named");
    static const char *const others[] = {
        ".dnntrain-", ".dnntrain-1", ".dnntrain-1-", ".dnntrain-1-0.bak", "dnntrain-1-0"};
    for (size_t i = 0; i < DT_COUNT(others); i++)
        touch(folder, others[i]);
    touch(folder, ".dnntrain-1-0");
    char mine[64];
    snprintf(mine, sizeof mine, ".dnntrain-%ld-0", (long)getpid());
    touch(folder, mine);
    calls = dt_io_system;
    calls.open = no_tmpfile;
    dt_io = &calls;
    const dt_tier_opts o = {.bytes = MIB, .path = folder};
    void *s;
    const char *note;
    dt_err err = {0};
    assert_ok(disk_tier()->reserve(&o, &s, &note, &err), &err);
    assert_int_equal(files_in(folder), DT_COUNT(others));
    char byte = 7;
    assert_ok(disk_tier()->write(s, 4096, &byte, 1, &err), &err);
    byte = 0;
    assert_ok(disk_tier()->read(s, 4096, &byte, 1, &err), &err);
    assert_int_equal(byte, 7);
    disk_tier()->release(s);
    assert_int_equal(files_in(folder), DT_COUNT(others));
}

static void a_folder_that_will_not_do_is_named(void **state)
{
    (void)state;
    touch(dt_temp_path("."), "a_file");
    const char *paths[] = {dt_temp_path("none"), dt_temp_path("a_file"), "/proc/self"};
    for (size_t i = 0; i < DT_COUNT(paths); i++) {
        const dt_tier_opts o = {.bytes = MIB, .path = paths[i]};
        const int fds = open_files();
        const long live = dti_alloc_live();
        void *s;
        const char *note;
        dt_err err = {0};
        assert_fails(disk_tier()->reserve(&o, &s, &note, &err), DT_E_IO, &err, paths[i]);
        assert_fails(DT_E_IO, DT_E_IO, &err, "memory.disk_path");
        assert_null(s);
        assert_int_equal(open_files(), fds);
        assert_int_equal(dti_alloc_live(), live);
    }
}

static void no_folder_is_a_wrong_configuration(void **state)
{
    (void)state;
    void *s;
    const char *note;
    dt_err err = {0};
    assert_fails(disk_tier()->reserve(&(dt_tier_opts){.bytes = 1}, &s, &note, &err), DT_E_CONFIG,
        &err, "memory.disk_path");
    memset(&err, 0, sizeof err);
    assert_fails(disk_tier()->reserve(&(dt_tier_opts){.path = ""}, &s, &note, &err), DT_E_CONFIG,
        &err, "memory.disk_path");
}

static void more_than_any_file_holds_is_refused(void **state)
{
    (void)state;
    const uint64_t bytes[] = {UINT64_MAX, UINT64_MAX - 4095, (uint64_t)INT64_MAX + 1};
    for (size_t i = 0; i < DT_COUNT(bytes); i++) {
        const dt_tier_opts o = {.bytes = bytes[i], .path = dt_temp_path(".")};
        void *s;
        const char *note;
        dt_err err = {0};
        assert_fails(disk_tier()->reserve(&o, &s, &note, &err), DT_E_IO, &err, "File too large");
        assert_fails(DT_E_IO, DT_E_IO, &err, "take a smaller batch");
    }
}

static void slots_that_are_none_are_refused(void **state)
{
    (void)state;
    void *s = reserve(&disk_ways[DISK_WAYS - 1], 8192, true);
    char p[4096] = {0};
    const struct {
        uint64_t slot, bytes;
    } cases[] = {{1, 10}, {64, 10}, {4096, 4097}, {8192, 1}, {UINT64_MAX - 4095, 4096}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err err = {0};
        assert_fails(disk_tier()->write(s, cases[i].slot, p, cases[i].bytes, &err), DT_E_INTERNAL,
            &err, "is not one of the disk tier");
        assert_fails(
            disk_tier()->read(s, cases[i].slot, p, cases[i].bytes, NULL), DT_E_INTERNAL, &err, "");
    }
    disk_tier()->release(s);
}

static void the_memory_it_takes_is_told(void **state)
{
    (void)state;
    enum { BOUNCE = 2 * DTI_DISK_DEPTH * DTI_DISK_CHUNK + DTI_DISK_BLOCK };
    for (int direct = 0; direct < 2; direct++)
        for (int sums = 0; sums < 2; sums++) {
            const disk_way w = {"", DTI_DISK_THREADS, direct == 0};
            void *s = reserve(&w, 16 * MIB, sums != 0);
            const bool can = ((dti_disk *)s)->file.align > 1; /* the temporary folder's choice */
            assert_true(direct == 1 || !can);
            assert_int_equal(
                disk_tier()->staging(s), (can ? BOUNCE : 0) + (sums ? 16 * MIB / 4096 * 8 : 0));
            disk_tier()->release(s);
        }
}

/* --- remarks --- */

static int tmpfs_everywhere(const char *path, struct statfs *to)
{
    const int r = dt_io_system.statfs(path, to);
    to->f_type = TMPFS_MAGIC;
    return r;
}

static int rings_allowed;

static int few_rings(dti_uring **out, int fd, unsigned depth)
{
    *out = NULL;
    return rings_allowed-- > 0 ? dt_uring_system.open(out, fd, depth) : -EPERM;
}

/* The remark of an ordinary reservation holds the text, or there is none. */
static void assert_note(const char *text)
{
    dt_io = &calls;
    const dt_tier_opts o = {.bytes = MIB, .path = dt_temp_path(".")};
    void *s;
    const char *note;
    dt_err err = {0};
    assert_ok(disk_tier()->reserve(&o, &s, &note, &err), &err);
    if (note == NULL || strstr(note, text) == NULL)
        fail_msg("no '%s' in '%s'", text, note != NULL ? note : "");
    char byte = 9;
    assert_ok(disk_tier()->write(s, 0, &byte, 1, &err), &err);
    byte = 0;
    assert_ok(disk_tier()->read(s, 0, &byte, 1, &err), &err);
    assert_int_equal(byte, 9);
    assert_null(((dti_disk *)s)->out.ring); /* none of these has rings, not even one */
    assert_null(((dti_disk *)s)->in.ring);
    disk_tier()->release(s);
}

static void what_is_not_as_good_as_it_could_be_is_said(void **state)
{
    (void)state;
    calls = disk_way_calls(&disk_ways[3]);
    assert_note("has no O_DIRECT");
    calls = dt_io_system;
    calls.statfs = tmpfs_everywhere;
    assert_note("is a file system in memory");
}

static void a_kernel_without_rings_gets_threads_and_a_reason(void **state)
{
    (void)state;
    void *s = reserve(&disk_ways[2], MIB, false);
    const bool direct = ((dti_disk *)s)->file.align > 1;
    disk_tier()->release(s);
    if (!direct)
        skip(); /* only unbuffered files want rings */
    static dti_uring_calls rings;
    rings = dt_uring_system;
    rings.open = few_rings;
    dt_uring_io = &rings;
    calls = dt_io_system;
    for (int allowed = 0; allowed < (disk_way_works(&disk_ways[0]) ? 2 : 1); allowed++) {
        rings_allowed = allowed;
        assert_note("for want of io_uring: Operation not permitted");
    }
}

/* In a child with mounts of its own: 0 right, 77 cannot mount, else the number of what is wrong. */
static int in_a_small_file_system(const char *folder)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=2m") != 0)
        return 77;
    static dt_err err;
    const int fds = open_files();
    void *s;
    const char *note;
    dt_tier_opts o = {.bytes = 3 * MIB, .path = folder};
    if (disk_tier()->reserve(&o, &s, &note, &err) != DT_E_IO)
        return 1;
    if (strstr(err.text, "the disk tier needs 0.003 GiB in '") == NULL ||
        strstr(err.text, "where 0.002 GiB are free: No space left on device; take a smaller") ==
            NULL)
        return 2;
    if (open_files() != fds || files_in(folder) != 0)
        return 3;
    struct statfs fs;
    if (statfs(folder, &fs) != 0 || fs.f_bfree != fs.f_blocks)
        return 4;
    o.bytes = MIB;
    if (disk_tier()->reserve(&o, &s, &note, &err) != DT_OK || note == NULL ||
        strstr(note, "in memory") == NULL)
        return 5;
    disk_tier()->release(s);
    return 0;
}

static void a_full_disk_is_known_at_once(void **state)
{
    (void)state;
    const char *folder = fresh_folder("small");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(in_a_small_file_system(folder));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: a file system cannot be mounted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define T(f) cmocka_unit_test_teardown(f, teardown)
/* cmocka wants a state that can be written, and writes nothing */
#define ON(f, w)                                                                                   \
    {                                                                                              \
#f, f, NULL, teardown, (void *)(uintptr_t)&disk_ways[w]                                    \
    }
#define ALL(f) ON(f, 0), ON(f, 1), ON(f, 2), ON(f, 3), ON(f, 4)
DT_TEST_GROUP(tier)
{
    const struct CMUnitTest tests[] = {T(tiers_are_found_by_the_names_that_plans_use),
        T(places_are_called_the_same_everywhere), T(the_host_tier_is_memory_that_can_be_mapped),
        T(a_host_tier_of_no_bytes_has_a_map), T(a_host_tier_beyond_memory_is_refused),
        ALL(every_size_comes_back_at_every_address), ALL(one_thread_writes_while_another_reads),
        ALL(a_changed_byte_is_found_by_its_checksum), ALL(a_failed_allocation_leaves_nothing),
        T(the_file_has_no_name), T(a_file_that_needs_a_name_loses_it_and_those_of_dead_runs),
        T(a_folder_that_will_not_do_is_named), T(no_folder_is_a_wrong_configuration),
        T(more_than_any_file_holds_is_refused), T(slots_that_are_none_are_refused),
        T(the_memory_it_takes_is_told), T(what_is_not_as_good_as_it_could_be_is_said),
        T(a_kernel_without_rings_gets_threads_and_a_reason), T(a_full_disk_is_known_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
