/* Checkpoints: what is saved comes back to the bit, no failure of any call harms what was there,
 * and nothing that is not whole is ever taken. */
#define _GNU_SOURCE

#include "tests/fixture/check.h"

#include <errno.h>
#include <math.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/leaks.h"
#include "tests/fixture/trainee.h"

static dt_trainee trainee; /* two steps done */
static char folder[512];

static const dt_fact facts[] = {{"train.batch", "8"}, {"odd \"key\"\\", "va\nlue \xC3\xA9"}};

static dt_trained what(const dt_trainee *t)
{
    return (dt_trained){t->runner, t->graph, t->map};
}

static dt_course course_of(int64_t step)
{
    return (dt_course){.step = step,
        .epoch = 3,
        .at = 17,
        .evaluated = 1,
        .samples = 8 * step,
        .skipped = 2,
        .reruns = 1,
        .seconds = 1.5,
        .first_loss = 2.25,
        .last_loss = 0.1,
        .best_step = 1,
        .best_by = 2,
        .best = -0.5,
        .eval = {.step = 1,
            .epoch = 2,
            .samples = 99,
            .loss = 0.3,
            .top1 = 0.7,
            .top5 = 0.9,
            .mean_iou = 0.25}};
}

static dt_status save_step(int64_t step, dt_err *err)
{
    const dt_trained w = what(&trainee);
    const dt_course c = course_of(step);
    return dt_checkpoint_save(folder, &w, &c, facts, DT_COUNT(facts), err);
}

static void save(int64_t step)
{
    dt_err err = {0};
    assert_ok(save_step(step, &err), &err);
}

static const char *path_of(const char *below)
{
    static char path[4][1024];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof *path, "%s/%s", folder, below);
    return path[next];
}

/* Lines that were told, one after the other. */
static char told[1 << 16];

static void tell(void *self, const char *line)
{
    (void)self;
    const size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s\n", line);
}

static const dt_teller teller = {NULL, tell};

/* The step of the newest whole checkpoint; -1: none. */
static int64_t newest(void)
{
    dt_err err = {0};
    dt_checkpoint *c;
    told[0] = '\0';
    assert_ok(dt_checkpoint_newest(&c, folder, &teller, &err), &err);
    const int64_t step = c != NULL ? dt_checkpoint_course(c)->step : -1;
    dt_checkpoint_close(c);
    return step;
}

static void assert_told(const char *text)
{
    if (strstr(told, text) == NULL)
        fail_msg("'%s' was not told, but:\n%s", text, told);
}

/* ---- files ---- */

static char *get(const char *path, size_t *n)
{
    char *text;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, n, path, 64 << 20, DT_E_DATA, &err), &err);
    return text;
}

static void put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- all of it ---- */

static void all_of_a_checkpoint_comes_back(void **state)
{
    (void)state;
    const dt_trainee_opts o = {.policies = "keep_all"};
    dt_trainee other = dt_trainee_open(dt_trainee_resnet(), &o);
    const dt_trained to = what(&other);
    const dt_course want = course_of(2);
    dt_checkpoint *c;
    dt_err err = {0};
    save(2);
    assert_ok(dt_checkpoint_newest(&c, folder, NULL, &err), &err);
    assert_ok(dt_checkpoint_load(c, &to, &err), &err);
    assert_memory_equal(dt_checkpoint_course(c), &want, sizeof want);
    assert_int_equal(dt_checkpoint_facts(c), DT_COUNT(facts));
    for (size_t i = 0; i < DT_COUNT(facts); i++)
        assert_string_equal(dt_checkpoint_fact(c, facts[i].key), facts[i].value);
    assert_null(dt_checkpoint_fact(c, "train"));
    dt_checkpoint_close(c);
    /* gradients are not part of it, so both make new ones */
    assert_ok(dt_trainee_step(&trainee, 2, &err), &err);
    assert_ok(dt_trainee_step(&other, 2, &err), &err);
    assert_true(dt_trainee_same(&other, dt_runner_home(trainee.runner, 0),
        dt_runner_home(other.runner, 0), "after one more step"));
    dt_trainee_close(&other);
}

static void another_network_is_refused_before_anything_changes(void **state)
{
    (void)state;
    const dt_trainee_opts o = {.policies = "keep_all"};
    dt_trainee other = dt_trainee_open(dt_trainee_plain(), &o);
    const dt_trained to = what(&other);
    dt_checkpoint *c;
    dt_err err = {0};
    save(2);
    unsigned char *before = dt_alloc(other.map->bytes, 1);
    assert_non_null(before);
    memcpy(before, dt_runner_home(other.runner, 0), other.map->bytes);
    assert_ok(dt_checkpoint_newest(&c, folder, NULL, &err), &err);
    assert_fails(dt_checkpoint_load(c, &to, &err), DT_E_DATA, &err, "do not fit network");
    assert_memory_equal(before, dt_runner_home(other.runner, 0), other.map->bytes);
    dt_free(before);
    dt_checkpoint_close(c);
    dt_trainee_close(&other);
}

/* ---- calls that fail ---- */

static struct {
    int calls, fail; /* the fail-th call fails; 0: none */
    bool dead;       /* and all after it */
    int error;
    bool met;
} fault;

static bool fails_now(void)
{
    fault.calls++;
    const bool now =
        fault.fail > 0 && (fault.calls == fault.fail || (fault.dead && fault.calls > fault.fail));
    fault.met |= now;
    errno = now ? fault.error : errno;
    return now;
}

static int bad_open(const char *path, int flags, mode_t mode)
{
    return fails_now() ? -1 : dt_io_system.open(path, flags, mode);
}

static ssize_t bad_pread(int fd, void *to, size_t n, off_t at)
{
    return fails_now() ? -1 : dt_io_system.pread(fd, to, n, at);
}

/* Half of it is written before the disk is full. */
static ssize_t bad_pwrite(int fd, const void *from, size_t n, off_t at)
{
    if (!fails_now())
        return dt_io_system.pwrite(fd, from, n, at);
    (void)dt_io_system.pwrite(fd, from, n / 2, at);
    errno = fault.error;
    return -1;
}

static int bad_fsync(int fd)
{
    (void)fd; /* nothing is lost here by not waiting */
    return fails_now() ? -1 : 0;
}

static int bad_close(int fd)
{
    const int r = dt_io_system.close(fd);
    return fails_now() ? -1 : r;
}

static int bad_rename(const char *from, const char *to)
{
    return fails_now() ? -1 : dt_io_system.rename(from, to);
}

static int bad_exchange(const char *one, const char *other)
{
    return fails_now() ? -1 : dt_io_system.exchange(one, other);
}

static int bad_direct(int fd, bool on)
{
    return fails_now() ? -1 : dt_io_system.direct(fd, on);
}

static int no_exchange(const char *one, const char *other)
{
    (void)one, (void)other;
    errno = EINVAL;
    return -1;
}

static int bad_unlink(const char *path)
{
    return fails_now() ? -1 : dt_io_system.unlink(path);
}

static int bad_statfs(const char *path, struct statfs *to)
{
    return fails_now() ? -1 : dt_io_system.statfs(path, to);
}

static struct dirent *bad_readdir(DIR *d)
{
    return fails_now() ? NULL : dt_io_system.readdir(d);
}

/* Nothing fails, and nothing waits for the disk. */
static dt_io_ops quick;

static void all_is_well(void)
{
    quick = dt_io_system;
    quick.fsync = bad_fsync;
    fault.fail = 0;
    dt_io = &quick;
}

static const dt_io_ops faulty = {.open = bad_open,
    .pread = bad_pread,
    .pwrite = bad_pwrite,
    .fsync = bad_fsync,
    .close = bad_close,
    .rename = bad_rename,
    .exchange = bad_exchange,
    .direct = bad_direct,
    .unlink = bad_unlink,
    .statfs = bad_statfs,
    .readdir = bad_readdir};

/* Save @step while the n-th call fails. False once all calls have been tried. */
static bool save_failing_at(int n, int64_t step, bool dead, int error, dt_status *st, dt_err *err)
{
    fault.calls = 0;
    fault.fail = n;
    fault.dead = dead;
    fault.error = error;
    fault.met = false;
    dt_io = &faulty;
    *st = save_step(step, err);
    all_is_well();
    return fault.met;
}

static void empty_the_folder(void)
{
    char command[2048];
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", folder, folder);
    assert_int_equal(system(command), 0);
}

/* One call fails: the older checkpoint is there, nothing is left beside, and saving again works. */
/* Of the calls of saving one in so many is tried, others with each seed. */
static int every_so_many(void)
{
    return dt_scaled(3, 3, 1);
}

static int first_call(int by)
{
    return 1 + (int)(dt_test_seed() % (uint64_t)by);
}

static void a_fault_at_any_call_keeps_the_older_one(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EIO};
    int failed = 0;
    const int by = every_so_many();
    for (int n = first_call(by);; n += by) {
        dt_status st;
        dt_err err = {0};
        const long live = dti_alloc_live();
        const int files = open_files();
        empty_the_folder();
        save(1);
        if (!save_failing_at(n, 2, false, errors[n / by % 2], &st, &err))
            break;
        assert_int_equal(dti_alloc_live(), live);
        assert_int_equal(open_files(), files);
        if (st != DT_OK && st != DT_E_IO)
            fail_msg("call %d: '%s': %s", n, dt_status_name(st), err.text);
        failed += st != DT_OK;
        const int64_t found = newest();
        assert_true(found == 2 || (found == 1 && st != DT_OK));
        assert_string_equal(told, "");
        if (files_in(folder) != (found == 2 ? 2 : 1))
            fail_msg("call %d leaves something behind", n);
        save(2);
        assert_int_equal(newest(), 2);
    }
    assert_true(failed > 20 / by);
}

/* The process ends at some call: nothing after it is done. */
static void an_end_at_any_call_leaves_a_whole_one(void **state)
{
    (void)state;
    int tried = 0;
    const int by = every_so_many();
    for (int replaces = 0; replaces < 2; replaces++)
        for (int n = first_call(by);; n += by, tried++) {
            dt_status st;
            dt_err err = {0};
            empty_the_folder();
            save(1);
            if (replaces)
                save(2);
            if (!save_failing_at(n, 2, true, EIO, &st, &err))
                break;
            const int64_t found = newest();
            assert_true(found == 1 || found == 2);
            assert_string_equal(told, "");
            assert_ok(dt_checkpoint_tidy(folder, found, -1, &teller, &err), &err);
            assert_int_equal(files_in(folder), found);
            assert_int_equal(newest(), found);
        }
    assert_true(tried > 50 / by);
}

static void save_newer(void *self, const char *line)
{
    (void)self, (void)line;
    save(3);
}

/* A run that goes on beside who reads has another one by the time that the first is looked at. */
static void a_newer_one_is_taken_that_came_meanwhile(void **state)
{
    (void)state;
    const dt_teller busy = {NULL, save_newer};
    char model[4200];
    dt_checkpoint *c = NULL;
    dt_err err = {0};
    empty_the_folder();
    save(2);
    snprintf(model, sizeof model, "%s/step-00000002/" DT_CHECKPOINT_MODEL, folder);
    assert_int_equal(truncate(model, 100), 0);
    assert_ok(dt_checkpoint_newest(&c, folder, &busy, &err), &err);
    assert_int_equal(dt_checkpoint_course(c)->step, 3);
    assert_int_equal(err.n, 0);
    dt_checkpoint_close(c);
}

/* That of the folder of checkpoints, which comes last. */
static int no_folder_sync(int fd)
{
    struct stat at, of;
    if (fstat(fd, &at) != 0 || stat(folder, &of) != 0 || at.st_ino != of.st_ino)
        return 0;
    errno = EIO;
    return -1;
}

/* The disk may have kept either name. */
static void what_was_replaced_is_kept_until_that_is_synced(void **state)
{
    (void)state;
    dt_io_ops io = dt_io_system;
    dt_err err = {0};
    empty_the_folder();
    save(2);
    io.fsync = no_folder_sync;
    dt_io = &io;
    const dt_status st = save_step(2, &err);
    all_is_well();
    assert_int_equal(st, DT_E_IO);
    assert_int_equal(files_in(folder), 2);
    assert_int_equal(newest(), 2);
    dt_err_clear(&err);
    assert_ok(dt_checkpoint_tidy(folder, 2, -1, NULL, &err), &err);
    assert_int_equal(files_in(folder), 1);
}

/* The only one there is gives way to a new one of its step. */
static void an_end_while_replacing_leaves_one_of_that_step(void **state)
{
    (void)state;
    int tried = 0;
    const int by = every_so_many();
    for (int n = first_call(by);; n += by, tried++) {
        dt_status st;
        dt_err err = {0};
        empty_the_folder();
        save(2);
        if (!save_failing_at(n, 2, true, EIO, &st, &err))
            break;
        assert_int_equal(newest(), 2);
        assert_ok(dt_checkpoint_tidy(folder, 2, -1, &teller, &err), &err);
        assert_int_equal(files_in(folder), 1);
        assert_int_equal(newest(), 2);
    }
    assert_true(tried > 20 / by);
}

static void one_replaces_another_where_names_cannot_change_places(void **state)
{
    (void)state;
    save(2);
    quick.exchange = no_exchange;
    save(2);
    assert_int_equal(newest(), 2);
    assert_int_equal(files_in(folder), 1);
}

static void every_allocation_of_saving_may_fail(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    for (int k = 1;; k++) {
        dt_err err = {0};
        dti_alloc_fail_at(k);
        const dt_status st = save_step(2, &err);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), live);
        if (st == DT_OK) {
            assert_true(k > 5);
            break;
        }
        assert_int_equal(st, DT_E_NOMEM);
        assert_int_equal(files_in(folder), 0);
    }
}

static int full_statfs(const char *path, struct statfs *to)
{
    const int r = dt_io_system.statfs(path, to);
    to->f_bavail = 3;
    return r;
}

static void a_full_disk_is_seen_before_anything_is_written(void **state)
{
    (void)state;
    dt_io_ops full = faulty;
    full.statfs = full_statfs;
    dt_err err = {0};
    fault.fail = fault.calls = 0;
    dt_io = &full;
    const dt_status st = save_step(2, &err);
    all_is_well();
    assert_fails(st, DT_E_IO, &err, "bytes free, a checkpoint takes up to");
    assert_int_equal(fault.calls, 0);
    assert_int_equal(files_in(folder), 0);
}

/* What it is said to take, by which it is refused, is enough and little more. */
static void what_a_checkpoint_takes_is_known_before(void **state)
{
    (void)state;
    static const char *const files[] = {
        DT_CHECKPOINT_MODEL, DT_CHECKPOINT_STATE, DT_CHECKPOINT_MANIFEST};
    dt_graph *const graphs[] = {dt_trainee_plain(), dt_trainee_resnet()};
    const dt_trainee_opts o = {.policies = "keep_all"};
    const dt_course c = course_of(2);
    for (size_t i = 0; i < DT_COUNT(graphs); i++) {
        dt_trainee t = dt_trainee_open(graphs[i], &o);
        const dt_trained w = what(&t);
        const uint64_t room = dt_checkpoint_bytes(&w);
        uint64_t taken = 0;
        dt_err err = {0};
        assert_ok(dt_checkpoint_save(folder, &w, &c, facts, DT_COUNT(facts), &err), &err);
        for (size_t k = 0; k < DT_COUNT(files); k++) {
            char below[64];
            struct stat st;
            snprintf(below, sizeof below, "step-00000002/%s", files[k]);
            assert_int_equal(stat(path_of(below), &st), 0);
            taken += (uint64_t)st.st_blocks * 512;
        }
        assert_true(taken <= room);
        assert_true(room - taken < (128 << 10));
        dt_trainee_close(&t);
    }
}

static const char *long_text(size_t n)
{
    static char text[DTI_MANIFEST_BYTES + 1];
    memset(text, 'x', n);
    text[n] = '\0';
    return text;
}

/* Facts that reading would refuse: told before a run, and nothing is written with them. */
static void what_could_not_be_read_again_is_not_written(void **state)
{
    (void)state;
    static dt_fact many[DT_CHECKPOINT_FACTS + 1];
    static char key[DT_CHECKPOINT_FACTS + 1][8];
    for (size_t i = 0; i < DT_COUNT(many); i++) {
        snprintf(key[i], sizeof key[i], "k%zu", i);
        many[i] = (dt_fact){key[i], "v"};
    }
    const dt_fact twice[] = {{"a", "1"}, {"a", "2"}}, latin[] = {{"a", "caf\xE9"}};
    const dt_fact large[] = {{"a", long_text(DTI_MANIFEST_BYTES)}};
    const struct {
        const dt_fact *fact;
        size_t n;
        const char *says;
    } cases[] = {{many, DT_COUNT(many), "'run' is missing or too long"}, {twice, 2, "'a'"},
        {latin, 1, "UTF-8"}, {large, 1, " bytes; at most 1048576 are read"}};
    const dt_trained w = what(&trainee);
    const dt_course c = course_of(2);
    save(1);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err before = {0}, err = {0};
        const long live = dti_alloc_live();
        assert_fails(dt_checkpoint_check_facts(cases[i].fact, cases[i].n, &before), DT_E_CONFIG,
            &before, cases[i].says);
        assert_fails(dt_checkpoint_save(folder, &w, &c, cases[i].fact, cases[i].n, &err),
            DT_E_CONFIG, &err, cases[i].says);
        assert_int_equal(dti_alloc_live(), live);
        assert_int_equal(files_in(folder), 1);
    }
    dt_err err = {0};
    assert_ok(dt_checkpoint_check_facts(many, DT_CHECKPOINT_FACTS, &err), &err);
    assert_ok(dt_checkpoint_save(folder, &w, &c, many, DT_CHECKPOINT_FACTS, &err), &err);
    assert_int_equal(newest(), 2);
}

/* ---- damage ---- */

static const char *const names[] = {
    DT_CHECKPOINT_MANIFEST, DT_CHECKPOINT_MODEL, DT_CHECKPOINT_STATE};

static const char *file_of(int64_t step, const char *name)
{
    char below[128];
    snprintf(below, sizeof below, "step-%08" PRId64 "/%s", step, name);
    return path_of(below);
}

static void damaged_ones_are_passed_over(void **state)
{
    (void)state;
    save(1);
    save(2);
    for (size_t f = 0; f < DT_COUNT(names); f++) {
        const char *path = file_of(2, names[f]);
        char at[1024];
        size_t n;
        snprintf(at, sizeof at, "%s", path);
        char *text = get(at, &n);
        /* some bits of every part; of the manifest one of each byte */
        const size_t parts = (size_t)dt_scaled(20, 20, 40);
        const size_t by = f == 0 ? (size_t)dt_scaled(3, 3, 1) : n / parts + 1;
        for (size_t i = dt_test_seed() % by; i < n; i += by) {
            text[i] = (char)(text[i] ^ (1 << i % 8));
            put(at, text, n);
            if (newest() != 1)
                fail_msg("%s with another bit in byte %zu is taken", names[f], i);
            assert_told("passed over ");
            text[i] = (char)(text[i] ^ (1 << i % 8));
        }
        const size_t cuts[] = {0, 1, n / 2, n - 1};
        for (size_t i = 0; i < DT_COUNT(cuts); i++) {
            put(at, text, cuts[i]);
            assert_int_equal(newest(), 1);
        }
        put(at, text, n);
        assert_int_equal(newest(), 2);
        dt_free(text);
    }
}

static void missing_files_and_links_are_passed_over(void **state)
{
    (void)state;
    save(1);
    save(2);
    for (size_t f = 0; f < DT_COUNT(names); f++) {
        char at[1024], away[1040];
        snprintf(at, sizeof at, "%s", file_of(2, names[f]));
        snprintf(away, sizeof away, "%s.away", at);
        assert_int_equal(rename(at, away), 0);
        assert_int_equal(newest(), 1);
        if (f > 0) {
            assert_int_equal(symlink(away, at), 0);
            assert_int_equal(newest(), 1);
            assert_told("is a link");
            assert_int_equal(unlink(at), 0);
        }
        assert_int_equal(mkdir(at, 0777), 0);
        assert_int_equal(newest(), 1);
        assert_int_equal(rmdir(at), 0);
        assert_int_equal(rename(away, at), 0);
    }
    assert_int_equal(newest(), 2);
    assert_int_equal(symlink(path_of("step-00000002"), path_of("step-00000003")), 0);
    assert_int_equal(newest(), 2);
    assert_told("is no folder");
    assert_int_equal(unlink(path_of("step-00000003")), 0);
    /* a copy under another step's name */
    assert_int_equal(rename(path_of("step-00000002"), path_of("step-00000009")), 0);
    assert_int_equal(newest(), 1);
    assert_told("it is of step 2");
}

static void nothing_is_written_through_a_link(void **state)
{
    (void)state;
    char kept[1024];
    dt_err err = {0};
    save(1);
    snprintf(kept, sizeof kept, "%s.kept", folder);
    assert_int_equal(rename(folder, kept), 0);
    assert_int_equal(symlink(kept, folder), 0);
    assert_fails(save_step(2, &err), DT_E_IO, &err, "is no folder");
    assert_fails(dt_checkpoint_prune(folder, 0, -1, &err), DT_E_IO, &err, "is no folder");
    assert_int_equal(unlink(folder), 0);
    assert_fails(save_step(2, &err), DT_E_IO, &err, "No such file");
    assert_int_equal(rename(kept, folder), 0);
    assert_int_equal(newest(), 1);
    assert_false(dt_checkpoint_there(folder, 2));
}

static void other_names_are_none(void **state)
{
    (void)state;
    static const char *const odd[] = {"step-1", "step-0000000x", "step-00000001x", "step-",
        "step-000000001", "step-99999999999999999", ".step-00000001.tmp-1", "aside-step-00000001"};
    for (size_t i = 0; i < DT_COUNT(odd); i++)
        assert_int_equal(mkdir(path_of(odd[i]), 0777), 0);
    assert_int_equal(newest(), -1);
    assert_string_equal(told, "");
}

static void when_none_is_whole_all_reasons_are_given(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_checkpoint *c;
    save(1);
    save(2);
    put(file_of(1, DT_CHECKPOINT_MANIFEST), "{}", 2);
    assert_int_equal(truncate(file_of(2, DT_CHECKPOINT_STATE), 100), 0);
    assert_fails(dt_checkpoint_newest(&c, folder, &teller, &err), DT_E_DATA, &err,
        "none of the 2 checkpoints");
    assert_null(c);
    assert_non_null(strstr(err.text, "step-00000001/manifest.json: its checksum is wrong"));
    assert_non_null(strstr(err.text, "state.safetensors' has 100 bytes, was written with "));
}

/* ---- what others may have written ---- */

/* Write a manifest with a right checksum. */
static void put_manifest(const char *rest)
{
    char text[8192], sum[DT_SHA256_TEXT];
    dt_sha256 s;
    dt_sha256_init(&s);
    dt_sha256_add(&s, rest, strlen(rest));
    dt_sha256_text(&s, sum);
    const int n = snprintf(text, sizeof text, "{\"checksum\": \"%s\",\n%s", sum, rest);
    put(file_of(2, DT_CHECKPOINT_MANIFEST), text, (size_t)n);
}

static void hostile_manifests_are_refused(void **state)
{
    (void)state;
#define SUM "0123456789012345678901234567890123456789012345678901234567890123"
#define FILES                                                                                      \
    "\"model.safetensors\": {\"bytes\": 1, \"sha256\": \"" SUM "\"}, "                             \
    "\"state.safetensors\": {\"bytes\": 1, \"sha256\": \"" SUM "\"}"
    static const char *const cases[][2] = {
        {"", "unexpected"},
        {"\"format\": 1}", "'step' is no whole number"},
        {"\"format\": 2, \"step\": 2, \"epoch\": 0}", "has format 2, this program reads 1"},
        {"\"format\": 1, \"step\": -2}", "'step' is no whole number"},
        {"\"format\": 1, \"step\": 1e300}", "'step' is no whole number"},
        {"\"format\": 1, \"step\": 2.5}", "'step' is no whole number"},
        {"\"format\": 1, \"step\": \"2\"}", "'step' is no whole number"},
        {"\"format\": 1, \"step\": 2, \"epoch\": 0}", "'model.safetensors' is missing"},
        {"\"format\": 1, \"step\": 2, \"epoch\": 0, \"model.safetensors\": {\"bytes\": 3}}",
            "'sha256' is no SHA-256"},
        {"\"format\": 1, \"step\": 2, \"epoch\": 0, " FILES "}", "'run' is missing"},
        {"\"format\": 1, \"step\": 2, \"epoch\": 0, " FILES ", \"run\": []}", "'run' is missing"},
        {"\"format\": 1, \"step\": 2, \"epoch\": 0, " FILES ", \"run\": {\"a\": 1}}",
            "'a' is no text"},
        {"\"format\": 1, \"step\": 2, \"epoch\": 0, " FILES ", \"run\": {\"a\": [[[[]]]]}}",
            "deep"},
        {"\"format\": 1, \"step\": 2, \"epoch\": 0, " FILES ", \"run\": {}}",
            "model.safetensors' has "},
    };
    save(1);
    save(2);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const long live = dti_alloc_live();
        put_manifest(cases[i][0]);
        assert_int_equal(newest(), 1);
        if (i > 0)
            assert_told(cases[i][1]);
        assert_int_equal(dti_alloc_live(), live);
    }
}

/* A state of one tensor less, more, or other: all named. The manifest fits what is there. */
static dt_status put_state(const dt_st_out *out, size_t n, int64_t value, dt_err *err);

static int64_t state_value;
static char zeros[1 << 20];

static dt_status state_data(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    const dt_st_out *out = arg;
    (void)at, (void)n, (void)err; /* at once */
    *bytes = strcmp(out[i].name, "run.at") == 0 ? (const void *)&state_value : zeros;
    return DT_OK;
}

static dt_status put_state(const dt_st_out *out, size_t n, int64_t value, dt_err *err)
{
    state_value = value;
    return dt_st_write(file_of(2, DT_CHECKPOINT_STATE), out, n, NULL, 0, state_data,
        (void *)(uintptr_t)out, NULL, err);
}

/* A folder that cannot be read to its end may hold any: it is not one that holds none. */
static void a_folder_that_cannot_be_read_is_no_empty_one(void **state)
{
    (void)state;
    save(2);
    save(4);
    bool met = true;
    for (int n = 1; met; n++) {
        dt_err err = {0};
        dt_checkpoint *c;
        dt_io_ops one = dt_io_system;
        one.readdir = bad_readdir;
        fault.calls = 0;
        fault.fail = n;
        fault.dead = fault.met = false;
        fault.error = EIO;
        dt_io = &one;
        const dt_status st = dt_checkpoint_newest(&c, folder, NULL, &err);
        met = fault.met;
        all_is_well();
        if (met)
            assert_fails(st, DT_E_IO, &err, "read folder '");
        else
            assert_int_equal(dt_checkpoint_course(c)->step, 4);
        dt_checkpoint_close(c);
    }
}

/* What a saved state holds, and room for one more; their names live as long as the file. */
static dt_st_out *saved_state(dt_st_file **f, size_t *n)
{
    dt_err err = {0};
    save(2);
    assert_ok(dt_st_open(f, file_of(2, DT_CHECKPOINT_STATE), &err), &err);
    *n = dti_st_count(*f);
    dt_st_out *out = dt_alloc(*n + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < *n; i++) {
        const dt_st_entry *e = dti_st_at(*f, i);
        out[i] = (dt_st_out){.name = e->name, .type = e->type, .rank = e->rank};
        memcpy(out[i].d, e->d, sizeof e->d);
    }
    return out;
}

/* What versions before did not write is not known, and all else is taken. */
static void a_state_of_an_older_version_is_read(void **state)
{
    (void)state;
    const dt_trained to = what(&trainee);
    dt_st_file *f;
    dt_course c;
    dt_err err = {0};
    size_t n, kept = 0;
    dt_st_out *out = saved_state(&f, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(out[i].name, "run.best_by") != 0 &&
            strcmp(out[i].name, "run.eval_mean_iou") != 0)
            out[kept++] = out[i];
    assert_int_equal(kept, n - 2);
    assert_ok(put_state(out, kept, 0, &err), &err);
    assert_ok(dti_state_load(file_of(2, DT_CHECKPOINT_STATE), &to, &c, &err), &err);
    assert_int_equal(c.best_by, 0);
    assert_true(isnan(c.eval.mean_iou));
    dt_st_close(f);
    dt_free(out);
}

static void hostile_states_are_refused(void **state)
{
    (void)state;
    const dt_trained to = what(&trainee);
    dt_st_file *f;
    dt_course c;
    dt_err err = {0};
    size_t n;
    dt_st_out *out = saved_state(&f, &n);
    size_t at = n, momentum = n;
    for (size_t i = 0; i < n; i++) {
        at = strcmp(out[i].name, "run.at") == 0 ? i : at;
        momentum = strncmp(out[i].name, "optimizer.0.", 12) == 0 ? i : momentum;
    }
    assert_true(at < n && momentum < n);
    const struct {
        size_t change;
        dt_st_out to;
        size_t n;
        int64_t value;
        const char *says;
    } cases[] = {
        {n, {0}, n, -1, "run.at is -1"},
        {n, {0}, n, INT64_MAX, "run.at is 9223372036854775807"},
        {at, {.name = "run.at", .type = DT_ST_F64}, n, 0, "another shape or type"},
        {at, {.name = "run.at", .type = DT_ST_I64, .rank = 1, .d = {1}}, n, 0, "another shape"},
        {at, {.name = "run.it", .type = DT_ST_I64}, n, 0, "has no 'run.at'"},
        {momentum, {.name = "optimizer.0.none", .type = DT_ST_F32}, n, 0, "has no 'optimizer.0."},
        {momentum, {.name = out[momentum].name, .type = DT_ST_F32, .rank = 1, .d = {3}}, n, 0,
            "another shape"},
        {n, {.name = "optimizer.1.more", .type = DT_ST_F32}, n + 1, 0, "tensors; the optimizer"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_st_out before = out[cases[i].change];
        if (cases[i].to.name != NULL)
            out[cases[i].change] = cases[i].to;
        assert_ok(put_state(out, cases[i].n, cases[i].value, &err), &err);
        out[cases[i].change] = before;
        dt_err why = {0};
        assert_fails(dti_state_load(file_of(2, DT_CHECKPOINT_STATE), &to, &c, &why), DT_E_DATA,
            &why, cases[i].says);
    }
    dt_st_close(f);
    dt_free(out);
}

/* ---- old ones ---- */

static void prune(int64_t keep, int64_t best)
{
    dt_err err = {0};
    assert_ok(dt_checkpoint_prune(folder, keep, best, &err), &err);
}

static bool there(const char *below)
{
    struct stat st;
    return lstat(path_of(below), &st) == 0;
}

static void the_newest_and_the_best_are_kept(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 5; step++)
        save(step);
    prune(2, 1);
    assert_int_equal(files_in(folder), 3);
    assert_true(there("step-00000001") && there("step-00000004") && there("step-00000005"));
    prune(1, -1);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(newest(), 5);
}

/* By whoever evaluates a run while it trains. */
static void what_is_read_stays_until_it_is_let_go(void **state)
{
    (void)state;
    dt_checkpoint *one, *other;
    dt_err err = {0};
    save(1);
    assert_ok(dt_checkpoint_newest(&one, folder, NULL, &err), &err);
    assert_ok(dt_checkpoint_newest(&other, folder, NULL, &err), &err);
    save(2);
    save(3);
    prune(1, -1);
    assert_true(there("step-00000001") && there("step-00000003"));
    assert_false(there("step-00000002"));
    dt_checkpoint_let_go(one);
    prune(1, -1);
    assert_true(there("step-00000001"));
    dt_checkpoint_close(other);
    prune(1, -1);
    assert_false(there("step-00000001"));
    assert_int_equal(dt_checkpoint_course(one)->step, 1);
    dt_checkpoint_close(one);
}

static void what_is_being_removed_is_not_read(void **state)
{
    (void)state;
    dt_checkpoint *c;
    dt_err err = {0};
    int alone;
    save(1);
    save(2);
    assert_true(dti_hold_alone(&alone, path_of("step-00000002")));
    assert_fails(dt_checkpoint_open(&c, path_of("step-00000002"), &err), DT_E_DATA, &err,
        "step-00000002' is being removed");
    assert_int_equal(newest(), 1);
    assert_told("step-00000002: ");
    dti_let_go(&alone);
    assert_int_equal(newest(), 2);
}

static void damaged_ones_do_not_count_as_kept(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 4; step++)
        save(step);
    assert_int_equal(truncate(file_of(4, DT_CHECKPOINT_MODEL), 100), 0);
    assert_int_equal(unlink(file_of(3, DT_CHECKPOINT_MANIFEST)), 0);
    prune(1, -1);
    assert_true(there("step-00000004") && there("step-00000003") && there("step-00000002"));
    assert_false(there("step-00000001"));
    assert_int_equal(newest(), 2);
}

static void what_cannot_be_removed_does_no_harm(void **state)
{
    (void)state;
    for (int n = 1;; n++) {
        dt_err err = {0};
        empty_the_folder();
        save(1);
        save(2);
        fault.calls = 0;
        fault.fail = n;
        fault.dead = fault.met = false;
        fault.error = EIO;
        dt_io = &faulty;
        const dt_status st = dt_checkpoint_prune(folder, 1, -1, &err);
        all_is_well();
        assert_true(st == DT_OK || st == DT_E_IO);
        assert_int_equal(newest(), 2);
        assert_string_equal(told, "");
        if (!fault.met)
            break;
    }
}

static void a_run_that_goes_on_finds_a_tidy_folder(void **state)
{
    (void)state;
    dt_err err = {0};
    save(1);
    save(2);
    save(3);
    assert_int_equal(mkdir(path_of(".step-00000004.tmp-77"), 0777), 0);
    put(path_of(".step-00000004.tmp-77/model.safetensors"), "x", 1);
    assert_int_equal(mkdir(path_of(".step-00000001.old-77"), 0777), 0);
    put(path_of(".model.safetensors.tmp-77"), "x", 1);
    put(path_of("model.safetensors"), "x", 1);
    assert_int_equal(mkdir(path_of("aside-step-00000003"), 0777), 0);
    assert_int_equal(symlink("/", path_of(".step-00000005.tmp-1")), 0);
    told[0] = '\0';
    assert_ok(dt_checkpoint_tidy(folder, 2, -1, &teller, &err), &err);
    assert_told("left by a save that was cut short");
    assert_told("aside-2-step-00000003");
    assert_int_equal(files_in(folder), 5);
    assert_true(there("aside-2-step-00000003/manifest.json") && there("model.safetensors"));
    assert_int_equal(newest(), 2);
    assert_true(there("step-00000001"));
}

/* Where names cannot change places a run may end between two renames. What is not named as ours is
 * left alone. */
static void what_is_whole_and_lost_its_name_gets_it_back(void **state)
{
    (void)state;
    static const char *const gone[] = {".step-00000002.tmp-77", ".step-00000003.old-77"};
    static const char *const other[] = {".step-draft", ".step-00000001.old-",
        ".step-00000001.old-7x", ".step-1.old-77", "step-00000001.old-77", ".step-00000001"};
    dt_err err = {0};
    save(1);
    save(2);
    assert_int_equal(rename(path_of("step-00000002"), path_of(".step-00000002.old-77")), 0);
    for (size_t i = 0; i < DT_COUNT(gone); i++)
        assert_int_equal(mkdir(path_of(gone[i]), 0777), 0);
    for (size_t i = 0; i < DT_COUNT(other); i++)
        assert_int_equal(mkdir(path_of(other[i]), 0777), 0);
    told[0] = '\0';
    assert_ok(dt_checkpoint_tidy(folder, 2, -1, &teller, &err), &err);
    assert_told(".step-00000002.old-77 is whole, and the checkpoint of step 2 again");
    for (size_t i = 0; i < DT_COUNT(gone); i++)
        assert_false(there(gone[i]));
    for (size_t i = 0; i < DT_COUNT(other); i++)
        assert_true(there(other[i]));
    assert_int_equal(files_in(folder), 2 + DT_COUNT(other));
    assert_int_equal(newest(), 2);
}

/* ---- main ---- */

static int fresh(void **state)
{
    (void)state;
    static int next;
    char name[32];
    all_is_well();
    snprintf(name, sizeof name, "c%d", next++);
    snprintf(folder, sizeof folder, "%s", dt_temp_path(name));
    return mkdir(folder, 0777);
}

static int open_trainee(void **state)
{
    (void)state;
    const dt_trainee_opts o = {.policies = "vdnn_all"};
    trainee = dt_trainee_open(dt_trainee_resnet(), &o);
    dt_free(dt_trainee_train(&trainee, 2));
    return 0;
}

static int close_trainee(void **state)
{
    (void)state;
    dt_trainee_close(&trainee);
    return 0;
}

#define T(f) cmocka_unit_test_setup(f, fresh)
DT_TEST_GROUP(checkpoint)
{
    const struct CMUnitTest tests[] = {
        T(all_of_a_checkpoint_comes_back),
        T(another_network_is_refused_before_anything_changes),
        T(a_fault_at_any_call_keeps_the_older_one),
        T(an_end_at_any_call_leaves_a_whole_one),
        T(a_newer_one_is_taken_that_came_meanwhile),
        T(what_was_replaced_is_kept_until_that_is_synced),
        T(an_end_while_replacing_leaves_one_of_that_step),
        T(one_replaces_another_where_names_cannot_change_places),
        T(every_allocation_of_saving_may_fail),
        T(a_full_disk_is_seen_before_anything_is_written),
        T(what_a_checkpoint_takes_is_known_before),
        T(what_could_not_be_read_again_is_not_written),
        T(damaged_ones_are_passed_over),
        T(missing_files_and_links_are_passed_over),
        T(nothing_is_written_through_a_link),
        T(other_names_are_none),
        T(when_none_is_whole_all_reasons_are_given),
        T(hostile_manifests_are_refused),
        T(a_folder_that_cannot_be_read_is_no_empty_one),
        T(a_state_of_an_older_version_is_read),
        T(hostile_states_are_refused),
        T(the_newest_and_the_best_are_kept),
        T(what_is_read_stays_until_it_is_let_go),
        T(what_is_being_removed_is_not_read),
        T(damaged_ones_do_not_count_as_kept),
        T(what_cannot_be_removed_does_no_harm),
        T(a_run_that_goes_on_finds_a_tidy_folder),
        T(what_is_whole_and_lost_its_name_gets_it_back),
    };
    return cmocka_run_group_tests(tests, open_trainee, close_trainee);
}
