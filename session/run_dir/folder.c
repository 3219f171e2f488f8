/* A folder of one's own: its name, who may have it, and where it went when it was moved. */
#define _GNU_SOURCE /* O_PATH */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "session/run_dir/run_dir_internal.h"

enum { WORD_BYTES = 97, MOST_NUMBER = 1000000000, FILE_NAME_BYTES = 64, OLD_BYTES = 32 };
_Static_assert(DTI_PREFIX_BYTES == 2 * WORD_BYTES, "two words");

/* ---- names ---- */

/* A word of a folder's name: no blanks, "a, b" becomes "a+b", odd bytes '_'. */
static void word(char to[WORD_BYTES], const char *from)
{
    size_t n = 0;
    for (; *from != '\0' && n + 1 < WORD_BYTES; from++) {
        const char c = *from;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+' ||
                           (c == '.' && n > 0);
        if (c != ' ' && c != '\t')
            to[n++] = plain ? c : c == ',' ? '+' : '_';
    }
    to[n] = '\0';
}

void dti_run_prefix(char to[DTI_PREFIX_BYTES], const char *model, const char *policy)
{
    char a[WORD_BYTES], b[WORD_BYTES];
    word(a, model);
    word(b, policy);
    snprintf(to, DTI_PREFIX_BYTES, "%s-%s", a, b);
}

/* 0: it is none that a run was given, as that of a copy with more behind it. */
static long number_of(const char *text)
{
    char *end;
    const long number = *text >= '1' && *text <= '9' ? strtol(text, &end, 10) : 0;
    return number > 0 && *end == '\0' && number < MOST_NUMBER ? number : 0;
}

dt_status dti_run_last(long *last, const char *prefix, dt_err *err)
{
    const size_t n = strlen(prefix);
    const char *name;
    *last = 0;
    DIR *dir = opendir(DTI_RUNS);
    if (dir == NULL && (errno == ENOENT || errno == ENOTDIR)) /* who makes one there tells more */
        return DT_OK;
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '" DTI_RUNS "': %s", strerror(errno));
    dt_status st;
    while ((st = dt_next_name(&name, dir, DTI_RUNS, err)) == DT_OK && name != NULL) {
        struct stat is;
        if (strncmp(name, prefix, n) != 0 || name[n] != '-')
            continue;
        const long number = number_of(name + n + 1);
        if (number > *last && fstatat(dirfd(dir), name, &is, 0) == 0 && S_ISDIR(is.st_mode))
            *last = number;
    }
    closedir(dir);
    return st;
}

static dt_status cannot_make(const char *what, const char *path, dt_err *err)
{
    return DT_FAIL(err, DT_E_IO, "make %s '%s': %s; set run.dir to a folder that can be made", what,
        path, strerror(errno));
}

/* ---- claiming a folder ---- */

/* runs/MODEL-POLICY-N: mkdir decides between processes that want the same number. */
static dt_status claim_next(dt_run_dir *d, const char *model, const char *policy, dt_err *err)
{
    char prefix[DTI_PREFIX_BYTES], path[sizeof prefix + 32];
    dti_run_prefix(prefix, model, policy);
    if (mkdir(DTI_RUNS, 0777) != 0 && errno != EEXIST)
        return cannot_make("run directory", DTI_RUNS, err);
    long last;
    DT_CHECK(dti_run_last(&last, prefix, err));
    for (long n = last + 1;; n++) {
        snprintf(path, sizeof path, DTI_RUNS "/%s-%ld", prefix, n);
        d->made = mkdir(path, 0777) == 0;
        if (d->made)
            break;
        if (errno != EEXIST)
            return cannot_make("run directory", path, err);
    }
    d->path = dt_strdup(path);
    return d->path != NULL ? DT_OK : dti_run_no_memory(err);
}

dt_status dti_run_look(const char *path, dti_content *c, dt_err *err)
{
    *c = (dti_content){0};
    DIR *dir = opendir(path);
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open run directory '%s': %s", path, strerror(errno));
    dt_status st;
    const char *name;
    while ((st = dt_next_name(&name, dir, path, err)) == DT_OK && name != NULL) {
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        c->run |= strcmp(name, DT_RUN_CONFIG) == 0 || strcmp(name, DT_RUN_METRICS) == 0 ||
                  strcmp(name, DT_RUN_LOCK) == 0;
        c->any |= strcmp(name, DT_RUN_LOCK) != 0;
    }
    closedir(dir);
    return st;
}

static dt_status run_used(const char *path, const dti_content *c, dt_err *err)
{
    char holder[DTI_HOLDER_BYTES];
    const bool held = dti_run_lock_held(path, holder);
    if (held)
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' is in use by %s; set run.dir to another folder", path, holder);
    if (!c->run)
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' holds files that are no run's; set run.dir to another folder",
            path);
    if (*holder != '\0')
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' holds a run that did not finish (%s is gone); --resume goes on "
            "with "
            "it; else set run.dir to another folder, or run.overwrite = on to move it aside",
            path, holder);
    return DT_FAIL(err, DT_E_BUSY,
        "run directory '%s' holds a run; --resume goes on with it; else set run.dir to another "
        "folder, or run.overwrite = on to move it aside",
        path);
}

/* Rename to the next free PATH.old-K: an empty folder of that name is made, which only one process
 * can, and replaced. */
static dt_status move_to_free(const char *path, char *moved, size_t room, dt_err *err)
{
    for (long k = 1;; k++) {
        snprintf(moved, room, "%s.old-%ld", path, k);
        if (mkdir(moved, 0777) == 0)
            break;
        if (errno != EEXIST)
            return DT_FAIL(err, DT_E_IO, "make folder '%s': %s", moved, strerror(errno));
    }
    if (dt_io->rename(path, moved) == 0)
        return DT_OK;
    const dt_status st =
        DT_FAIL(err, DT_E_IO, "move '%s' to '%s': %s", path, moved, strerror(errno));
    (void)rmdir(moved);
    return st;
}

static dt_status move_aside(dt_run_dir *d, dt_err *err)
{
    const size_t room = strlen(d->path) + OLD_BYTES;
    struct stat link;
    if (lstat(d->path, &link) == 0 && S_ISLNK(link.st_mode))
        return DT_FAIL(err, DT_E_IO,
            "run directory '%s' is a link, and only a folder is moved aside; set run.dir to the "
            "folder that it leads to",
            d->path);
    char *moved = dt_alloc(room, 1);
    if (moved == NULL)
        return dti_run_no_memory(err);
    const dt_status st = move_to_free(d->path, moved, room, err);
    if (st == DT_OK)
        d->moved = moved;
    else
        dt_free(moved);
    return st;
}

/* Where it was, before our own folder was followed anywhere. */
static const char *old_place(const dt_run_dir *d)
{
    return d->n_older > 0 ? d->older[0] : d->path;
}

void dti_run_dir_tell_moved(const dt_run_dir *d, dt_err *err)
{
    if (d->moved != NULL)
        (void)DT_FAIL(err, DT_E_IO, "the run that was in '%s' is now '%s'", old_place(d), d->moved);
}

/* The old run, once our own folder is gone. Something else may be in its place: then it stays. */
static void put_back(dt_run_dir *d, dt_err *err)
{
    if (d->moved == NULL)
        return;
    if (dt_io->rename(d->moved, old_place(d)) != 0) {
        dti_run_dir_tell_moved(d, err);
        return;
    }
    dt_free(d->moved);
    d->moved = NULL;
}

/* Whether "." or ".." stands behind a name in a path, and leads nowhere once that is moved. */
static bool has_dots(const char *path)
{
    bool named = false;
    for (const char *at = path; *at != '\0'; at += *at == '/') {
        const size_t n = strcspn(at, "/");
        const bool dots = (n == 1 || n == 2) && strncmp(at, "..", n) == 0;
        if (dots && named)
            return true;
        named |= n > 0 && !dots;
        at += n;
    }
    return false;
}

static dt_status without_dots(dt_run_dir *d, dt_err *err)
{
    if (!has_dots(d->path))
        return DT_OK;
    char *real = realpath(d->path, NULL);
    if (real == NULL)
        return DT_FAIL(err, DT_E_IO, "run directory '%s': %s", d->path, strerror(errno));
    dt_free(d->path);
    d->path = dt_strdup(real);
    free(real);
    return d->path != NULL ? DT_OK : dti_run_no_memory(err);
}

/* Holding its lock proves that the run in it is over. */
static dt_status replace_old(dt_run_dir *d, dt_err *err)
{
    int lock;
    DT_CHECK(without_dots(d, err));
    DT_CHECK(dti_run_lock_take(&lock, d->path, err));
    const dt_status st = move_aside(d, err);
    dti_run_lock_drop(lock, st == DT_OK ? d->moved : d->path);
    DT_CHECK(st);
    d->made = mkdir(d->path, 0777) == 0;
    return d->made ? DT_OK : cannot_make("run directory", d->path, err);
}

/* Before a folder is made on the way to one that cannot be. */
static dt_status check_length(const char *path, dt_err *err)
{
    enum { BELOW = 128 }; /* bytes of the longest name of a file in it */
    const size_t all = strlen(path);
    size_t longest = 0;
    for (const char *at = path; *at != '\0'; at += *at == '/') {
        const size_t n = strcspn(at, "/");
        longest = n > longest ? n : longest;
        at += n;
    }
    if (all + BELOW <= PATH_MAX && longest <= NAME_MAX)
        return DT_OK;
    return DT_FAIL(err, DT_E_IO,
        "run.dir = %.40s...: a path of %zu bytes, the longest name in it of %zu, is too long; set "
        "it to one of %d at most, and names of %d",
        path, all, longest, PATH_MAX - BELOW, NAME_MAX);
}

static dt_status claim_given(dt_run_dir *d, const dt_dir_opts *o, dt_err *err)
{
    d->path = dt_strdup(o->dir);
    if (d->path == NULL)
        return dti_run_no_memory(err);
    for (size_t n = strlen(d->path); n > 1 && d->path[n - 1] == '/'; n--)
        d->path[n - 1] = '\0';
    DT_CHECK(check_length(d->path, err));
    DT_TRY(err, dt_make_above(d->path, err), "set run.dir to a folder that can be made");
    d->made = mkdir(d->path, 0777) == 0;
    if (d->made)
        return DT_OK;
    if (errno != EEXIST)
        return cannot_make("run directory", d->path, err);
    struct stat st;
    if (stat(d->path, &st) != 0 || !S_ISDIR(st.st_mode))
        return DT_FAIL(
            err, DT_E_IO, "run directory '%s' is no folder; set run.dir to another name", d->path);
    dti_content c;
    DT_CHECK(dti_run_look(d->path, &c, err));
    if (!c.any)
        return DT_OK;
    return o->overwrite && c.run ? replace_old(d, err) : run_used(d->path, &c, err);
}

/* Between the first look and the lock another process may have been here, from start to end. */
static dt_status take(dt_run_dir *d, dt_err *err)
{
    dti_content c;
    DT_CHECK(dti_run_lock_take(&d->lock, d->path, err));
    DT_CHECK(dti_run_look(d->path, &c, err));
    if (c.any)
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' was used by another process just now; set run.dir to another "
            "folder",
            d->path);
    return DT_OK;
}

/* ---- trying it out ---- */

dt_status dti_run_probe(dt_run_dir *d, dt_err *err)
{
    dt_file_writer *w = NULL;
    const char *path = dti_run_dir_file(d, "probe");
    dt_status st = dt_writer_open(&w, path, err);
    if (st == DT_OK) {
        st = dt_writer_put(w, "probe\n", 6, err);
        if (st == DT_OK)
            st = d->begins ? dt_writer_rename(w, err) : dt_writer_commit(w, err);
        else
            dt_writer_abandon(w);
        (void)dt_io->unlink(path);
    }
    DT_TRY(err, st, "run directory '%s' cannot be written; set run.dir to another folder", d->path);
    return DT_OK;
}

static dt_status begin(dt_run_dir *d, dt_err *err)
{
    DT_CHECK(dti_run_probe(d, err));
    if (mkdir(dti_run_dir_file(d, DT_CHECKPOINTS), 0777) != 0)
        return cannot_make("folder", dti_run_dir_file(d, DT_CHECKPOINTS), err);
    const dt_status st = dti_metrics_open(d, false, err);
    if (st != DT_OK)
        (void)rmdir(dti_run_dir_file(d, DT_CHECKPOINTS));
    return st;
}

dt_status dti_run_named(dt_run_dir *d, dt_err *err)
{
    d->file = dt_alloc(strlen(d->path) + FILE_NAME_BYTES, 1);
    if (d->file == NULL)
        return dti_run_no_memory(err);
    d->folder = open(d->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return d->folder >= 0
               ? DT_OK
               : DT_FAIL(err, DT_E_IO, "open run directory '%s': %s", d->path, strerror(errno));
}

static bool is_folder(const dt_run_dir *d, const char *path)
{
    struct stat a, b;
    return fstat(d->folder, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* A path by which the folder is known now, in place of the one that it had. Without memory the old
 * one stays, and what is written by it fails, or shows. */
static void rename_to(dt_run_dir *d, const char *path)
{
    char *now = dt_strdup(path);
    char *file = dt_alloc(strlen(path) + FILE_NAME_BYTES, 1);
    if (now == NULL || file == NULL ||
        !dt_grow(&d->older, &d->cap_older, d->n_older + 1, sizeof *d->older)) {
        dt_free(now);
        dt_free(file);
        return;
    }
    d->older[d->n_older++] = d->path;
    d->older[d->n_older++] = d->file;
    d->path = now;
    d->file = file;
}

/* Whether the folder is still where its files are looked for. One that was moved meanwhile is
 * followed, so that nothing is written into another that has taken its place. */
static bool follow(dt_run_dir *d)
{
    char link[64], path[4096];
    if (is_folder(d, d->path))
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", d->folder);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (n <= 0 || !is_folder(d, path))
        return false;
    rename_to(d, path);
    return strcmp(d->path, path) == 0;
}

dt_status dt_run_dir_there(dt_run_dir *d, dt_err *err)
{
    char holder[DTI_HOLDER_BYTES];
    if (!follow(d))
        return DT_FAIL(
            err, DT_E_IO, "run directory '%s' was removed while the run went on", d->path);
    if (dti_run_lock_lasts(d->lock, d->path))
        return DT_OK;
    if (dti_run_lock_held(d->path, holder))
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' is in use by %s, as its lock was removed while the run went on",
            d->path, holder);
    return DT_FAIL(err, DT_E_BUSY,
        "run directory '%s': its lock was removed while the run went on, and another run may have "
        "begun there",
        d->path);
}

static dt_status prepare(dt_run_dir *d, dt_err *err)
{
    DT_CHECK(dti_run_named(d, err));
    DT_CHECK(take(d, err));
    return begin(d, err);
}

/* Leave nothing of ours where nothing was, and what was there in its place. */
static void undo(dt_run_dir *d, dt_err *err)
{
    dti_run_lock_drop(d->lock, d->path);
    d->lock = -1;
    if (d->made)
        (void)rmdir(d->path);
    put_back(d, err);
}

dt_status dti_run_dir_open(
    dt_run_dir **out, const dt_dir_opts *o, const char *model, const char *policy, dt_err *err)
{
    *out = NULL;
    dt_run_dir *d = dt_alloc(1, sizeof *d);
    if (d == NULL)
        return dti_run_no_memory(err);
    d->lock = d->metrics = d->folder = -1;
    d->begins = true;
    dt_status st = o->dir != NULL ? claim_given(d, o, err) : claim_next(d, model, policy, err);
    if (st == DT_OK)
        st = prepare(d, err);
    if (st != DT_OK) {
        undo(d, err);
        dti_run_dir_close(d);
        return st;
    }
    *out = d;
    return DT_OK;
}

void dti_run_dir_close(dt_run_dir *d)
{
    if (d == NULL)
        return;
    dti_metrics_close(d);
    if (d->folder >= 0)
        (void)follow(d);
    dti_run_lock_drop(d->lock, d->path);
    if (d->folder >= 0)
        (void)close(d->folder);
    for (size_t i = 0; i < d->n_older; i++)
        dt_free(d->older[i]);
    dt_free(d->older);
    dt_free(d->path);
    dt_free(d->file);
    dt_free(d->moved);
    dt_free(d);
}

static void let_go(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void dti_run_dir_let_go(dt_run_dir *d)
{
    if (d == NULL)
        return;
    let_go(&d->metrics);
    let_go(&d->lock);
    let_go(&d->folder);
}

void dti_run_dir_discard(dt_run_dir *d, dt_err *err)
{
    static const char *const ours[] = {DT_RUN_CONFIG, DT_RUN_ENV, DT_RUN_PLAN, DT_RUN_CLASSES,
        DT_RUN_METRICS, DT_RUN_SUMMARY, DT_RUN_WEIGHTS};
    if (dt_run_dir_there(d, NULL) != DT_OK) {
        put_back(d, err);
        return;
    }
    dti_metrics_close(d);
    for (size_t i = 0; i < DT_COUNT(ours); i++)
        (void)dt_io->unlink(dti_run_dir_file(d, ours[i]));
    (void)rmdir(dti_run_dir_file(d, DT_CHECKPOINTS));
    undo(d, err);
}

const char *dt_run_dir_path(const dt_run_dir *d)
{
    return d->path;
}

const char *dt_run_dir_moved(const dt_run_dir *d)
{
    return d->moved;
}

const char *dti_run_dir_file(dt_run_dir *d, const char *name)
{
    const size_t room = strlen(d->path) + FILE_NAME_BYTES;
    const int n = snprintf(d->file, room, "%s/%s", d->path, name);
    DT_ASSERT(n > 0 && (size_t)n < room);
    return d->file;
}
