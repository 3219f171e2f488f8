/* Files read and written whole, and renamed into place, behind a table of system calls. */
#define _GNU_SOURCE /* O_DIRECT, renameat2, statx */

#include "engine/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/write_behind.h"

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

/* Kernels before 6.1 do not say what they want; a page is enough for all. */
static int direct_align(int fd)
{
    int align = 4096;
#ifdef STATX_DIOALIGN
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 &&
        (st.stx_mask & STATX_DIOALIGN) != 0 && st.stx_dio_mem_align > 0)
        align = (int)st.stx_dio_mem_align;
#else
    (void)fd;
#endif
    return align;
}

static int system_direct(int fd, bool on)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)
        return -1;
    return on ? direct_align(fd) : 0;
}

static int system_exchange(const char *one, const char *other)
{
    return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}

const dt_io_ops dt_io_system = {
    .open = system_open,
    .pread = pread,
    .pwrite = pwrite,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .exchange = system_exchange,
    .unlink = unlink,
    .link = link,
    .fallocate = posix_fallocate,
    .direct = system_direct,
    .statfs = statfs,
    .readdir = readdir,
};
const dt_io_ops *dt_io = &dt_io_system;

/* f_bsize is what it likes to move at a time, on networks and in user space a multiple. */
uint64_t dt_block_bytes(const struct statfs *fs)
{
    return (uint64_t)(fs->f_frsize > 0 ? fs->f_frsize : fs->f_bsize);
}

int dt_open(const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = dt_io->open(path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int dt_sync(int fd)
{
    int r;
    do
        r = dt_io->fsync(fd);
    while (r != 0 && errno == EINTR);
    return r;
}

/* Linux has freed the descriptor even when close says EINTR, and everything was synced before. */
int dt_close(int fd)
{
    return dt_io->close(fd) != 0 && errno != EINTR ? -1 : 0;
}

/* Of a file that was cut meanwhile nothing says that it ends where it was read. */
static dt_status ends_early(int fd, const char *path, int64_t where, size_t wanted, dt_err *err)
{
    struct stat st;
    const bool cut = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < where;
    const int64_t end = cut ? st.st_size : where;
    const uint64_t early = (uint64_t)(where - end) + wanted;
    return DT_FAIL(err, DT_E_DATA, "'%s' ends at byte %" PRId64 ", %" PRIu64 " byte%s early", path,
        end, early, early == 1 ? "" : "s");
}

dt_status dt_read_at(int fd, const char *path, void *to, size_t n, off_t at, dt_err *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = dt_io->pread(fd, (char *)to + done, n - done, at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        const int64_t where = (int64_t)at + (int64_t)done;
        if (got < 0)
            return DT_FAIL(
                err, DT_E_IO, "read '%s' at byte %" PRId64 ": %s", path, where, strerror(errno));
        if (got == 0)
            return ends_early(fd, path, where, n - done, err);
        done += (size_t)got;
    }
    return DT_OK;
}

dt_status dti_write_failed(const char *path, off_t at, int error, dt_err *err)
{
    return DT_FAIL(
        err, DT_E_IO, "write '%s' at byte %" PRId64 ": %s", path, (int64_t)at, strerror(error));
}

dt_status dt_write_at(int fd, const char *path, const void *from, size_t n, off_t at, dt_err *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t put =
            dt_io->pwrite(fd, (const char *)from + done, n - done, at + (off_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return dti_write_failed(path, at + (off_t)done, put < 0 ? errno : ENOSPC, err);
        done += (size_t)put;
    }
    return DT_OK;
}

static const char *kind_of_file(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

dt_status dt_open_regular(int *fd, off_t *bytes, const char *path, dt_status wrong, dt_err *err)
{
    *fd = -1;
    *bytes = 0;
    /* without O_NONBLOCK the open of a FIFO would wait for a writer */
    const int got = dt_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0);
    if (got < 0)
        return DT_FAIL(err, wrong, "open '%s': %s", path, strerror(errno));
    struct stat st;
    dt_status s = DT_OK;
    if (fstat(got, &st) != 0)
        s = DT_FAIL(err, DT_E_IO, "stat '%s': %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        s = DT_FAIL(err, wrong, "'%s' is %s, not a regular file", path, kind_of_file(st.st_mode));
    if (s != DT_OK) {
        const int error = errno; /* for who is told nothing but that */
        (void)dt_close(got);
        errno = error;
        return s;
    }
    *fd = got;
    *bytes = st.st_size;
    return DT_OK;
}

dt_status dt_read_file(
    char **text, size_t *bytes, const char *path, size_t cap, dt_status wrong, dt_err *err)
{
    *text = NULL;
    *bytes = 0;
    int fd;
    off_t size;
    DT_CHECK(dt_open_regular(&fd, &size, path, wrong, err));
    const size_t n = (size_t)size;
    char *p = NULL;
    dt_status st = DT_OK;
    if (n > cap)
        st = DT_FAIL(err, wrong, "'%s' has %zu bytes; at most %zu are read", path, n, cap);
    else if ((p = dt_alloc(n + 1, 1)) == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for the %zu bytes of '%s'", n, path);
    else
        st = dt_read_at(fd, path, p, n, 0, err);
    (void)dt_close(fd); /* nothing was written: a failing close loses nothing */
    if (st != DT_OK) {
        dt_free(p);
        return st;
    }
    *text = p;
    *bytes = n;
    return DT_OK;
}

struct dt_file_writer {
    int fd;
    char *path, *temp, *folder;
    dti_behind *bytes;
};

enum { TEMP_BYTES = 48, TEMP_TRIES = 1000 }; /* what a temporary name has more; tries at one */

static void writer_free(dt_file_writer *w)
{
    dt_free(w->path);
    dt_free(w->temp);
    dt_free(w->folder);
    dt_free(w);
}

void dt_writer_abandon(dt_file_writer *w)
{
    if (w == NULL)
        return;
    dti_behind_close(w->bytes);
    if (w->fd >= 0)
        (void)dt_close(w->fd);
    if (w->temp != NULL)
        (void)dt_io->unlink(w->temp);
    writer_free(w);
}

/* "a/b" becomes folder "a" and room for a temporary name. */
static bool writer_names(dt_file_writer *w, const char *path)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash != NULL ? (int)(slash - path) + 1 : 0; /* with its slash */
    const size_t room = strlen(path) + TEMP_BYTES;
    w->path = dt_strdup(path);
    w->folder = dt_alloc(room, 1);
    char *temp = dt_alloc(room, 1);
    if (w->path == NULL || w->folder == NULL || temp == NULL) {
        dt_free(temp);
        return false;
    }
    snprintf(w->folder, room, "%.*s", folder > 0 ? folder : 1, folder > 0 ? path : ".");
    w->temp = temp;
    return true;
}

/* "a/.b.tmp-PID", and where that is taken "a/.b.tmp-PID-2" and so on: by another thread of ours, by
 * a process of that number on another machine, or by one that is gone. Of a long name the begin. */
static void name_temp(dt_file_writer *w, int try)
{
    const size_t room = strlen(w->path) + TEMP_BYTES;
    const char *slash = strrchr(w->path, '/');
    const int folder = slash != NULL ? (int)(slash - w->path) + 1 : 0;
    char more[16] = "";
    if (try > 1)
        snprintf(more, sizeof more, "-%d", try);
    snprintf(w->temp, room, "%.*s.%.*s.tmp-%ld%s", folder, w->path, NAME_MAX - TEMP_BYTES,
        w->path + folder, (long)getpid(), more);
}

/* Exclusive, so that no link laid there is followed, and nothing that another writes. */
static int open_temp(dt_file_writer *w)
{
    int fd = -1;
    for (int try = 1; fd < 0 && try <= TEMP_TRIES; try++) {
        name_temp(w, try);
        fd = dt_open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

dt_status dt_next_name(const char **name, DIR *d, const char *path, dt_err *err)
{
    errno = 0;
    const struct dirent *e = dt_io->readdir(d);
    *name = e != NULL ? e->d_name : NULL;
    if (e == NULL && errno != 0)
        return DT_FAIL(err, DT_E_IO, "read folder '%s': %s", path, strerror(errno));
    return DT_OK;
}

bool dt_is_temporary(const char *name)
{
    const char *end = name[0] == '.' ? strstr(name, ".tmp-") : NULL;
    for (const char *more; end != NULL && (more = strstr(end + 1, ".tmp-")) != NULL;)
        end = more;
    if (end == NULL)
        return false;
    static const char digits[] = "0123456789";
    const size_t process = strspn(end += strlen(".tmp-"), digits);
    end += process;
    const size_t try = *end == '-' ? strspn(end + 1, digits) : 0;
    return process > 0 && end[try > 0 ? try + 1 : 0] == '\0';
}

/* The rename would put a file in the place of a device, which root may do to /dev/null, or of a
 * link such as /dev/stdout, which stands for what is open. */
dt_status dt_check_target(const char *path, dt_err *err)
{
    static const char open_files[] = "/proc/";
    char to[sizeof open_files];
    struct stat st;
    if (lstat(path, &st) != 0 || S_ISREG(st.st_mode))
        return DT_OK;
    if (!S_ISLNK(st.st_mode))
        return DT_FAIL(
            err, DT_E_IO, "'%s' is %s; name a regular file", path, kind_of_file(st.st_mode));
    if (readlink(path, to, sizeof to) >= (ssize_t)strlen(open_files) &&
        memcmp(to, open_files, strlen(open_files)) == 0)
        return DT_FAIL(err, DT_E_IO, "'%s' is a link to an open file; name a regular file", path);
    return DT_OK;
}

dt_status dt_writer_open(dt_file_writer **out, const char *path, dt_err *err)
{
    *out = NULL;
    DT_CHECK(dt_check_target(path, err));
    dt_file_writer *w = dt_alloc(1, sizeof *w);
    if (w == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", path);
    w->fd = -1;
    dt_status st = DT_OK;
    if (!writer_names(w, path))
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", path);
    if (st == DT_OK && (w->fd = open_temp(w)) < 0) {
        st = DT_FAIL(err, DT_E_IO, "create '%s': %s", w->temp, strerror(errno));
        dt_free(w->temp); /* nothing to remove */
        w->temp = NULL;
    }
    if (st == DT_OK && (w->bytes = dti_behind_open(w->fd, w->temp)) == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", path);
    if (st != DT_OK) {
        dt_writer_abandon(w);
        return st;
    }
    *out = w;
    return DT_OK;
}

void dti_writer_sum(dt_file_writer *w, dt_sha256 *sum)
{
    dti_behind_sum(w->bytes, sum);
}

dt_status dt_writer_put(dt_file_writer *w, const void *from, size_t n, dt_err *err)
{
    return dti_behind_put(w->bytes, from, n, err);
}

static dt_status writer_close(dt_file_writer *w, bool sync, dt_err *err)
{
    DT_CHECK(dti_behind_end(w->bytes, err));
    if (sync && dt_sync(w->fd) != 0)
        return DT_FAIL(err, DT_E_IO, "sync '%s': %s", w->temp, strerror(errno));
    const int fd = w->fd;
    w->fd = -1;
    if (dt_close(fd) != 0)
        return DT_FAIL(err, DT_E_IO, "close '%s': %s", w->temp, strerror(errno));
    return DT_OK;
}

static dt_status writer_rename(dt_file_writer *w, dt_err *err)
{
    if (dt_io->rename(w->temp, w->path) != 0)
        return DT_FAIL(err, DT_E_IO, "rename '%s' to '%s': %s", w->temp, w->path, strerror(errno));
    dt_free(w->temp);
    w->temp = NULL;
    return DT_OK;
}

/* The rename itself lasts only once the folder is synced, which is opened first, so that one that
 * cannot be is found while there is nothing to take back. */
static dt_status writer_rename_synced(dt_file_writer *w, dt_err *err)
{
    const int folder = dt_open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (folder < 0)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", w->folder, strerror(errno));
    dt_status st = writer_rename(w, err);
    if (st == DT_OK && dt_sync(folder) != 0 && errno != EINVAL)
        st = DT_FAIL(err, DT_E_IO, "sync folder '%s': %s", w->folder, strerror(errno));
    (void)dt_close(folder);
    return st;
}

dt_status dt_writer_commit(dt_file_writer *w, dt_err *err)
{
    dt_status st = writer_close(w, true, err);
    if (st == DT_OK)
        st = writer_rename_synced(w, err);
    dt_writer_abandon(w);
    return st;
}

dt_status dt_writer_rename(dt_file_writer *w, dt_err *err)
{
    dt_status st = writer_close(w, false, err);
    if (st == DT_OK)
        st = writer_rename(w, err);
    dt_writer_abandon(w);
    return st;
}

dt_status dt_sync_path(const char *path, dt_err *err)
{
    const int fd = dt_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return DT_FAIL(err, DT_E_IO, "open '%s': %s", path, strerror(errno));
    dt_status st = DT_OK;
    if (dt_sync(fd) != 0 && errno != EINVAL)
        st = DT_FAIL(err, DT_E_IO, "sync '%s': %s", path, strerror(errno));
    (void)dt_close(fd);
    return st;
}

/* A second name beside, then renamed over. Where both are names of one file already the rename does
 * nothing, and the name beside is still there. */
static dt_status link_beside(dt_file_writer *w, const char *from, dt_err *err)
{
    int made = -1;
    for (int try = 1; made != 0 && try <= TEMP_TRIES; try++) {
        name_temp(w, try);
        made = dt_io->link(from, w->temp);
        if (made != 0 && errno != EEXIST)
            break;
    }
    if (made != 0) {
        (void)DT_FAIL(err, DT_E_IO, "link '%s' to '%s': %s", from, w->temp, strerror(errno));
        dt_free(w->temp); /* whose name it is, if any's, is not known */
        w->temp = NULL;
        return DT_E_IO;
    }
    char *temp = dt_strdup(w->temp);
    if (temp == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", w->path);
    const dt_status st = writer_rename_synced(w, err);
    if (st == DT_OK)
        (void)dt_io->unlink(temp);
    dt_free(temp);
    return st;
}

dt_status dt_write_file(const char *path, const void *from, size_t n, dt_err *err)
{
    dt_file_writer *w = NULL;
    dt_status st = dt_writer_open(&w, path, err);
    if (st == DT_OK)
        st = dt_writer_put(w, from, n, err);
    if (st == DT_OK)
        return dt_writer_commit(w, err);
    dt_writer_abandon(w);
    return st;
}

dt_status dt_make_above(const char *path, dt_err *err)
{
    char *p = dt_strdup(path);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to make folders");
    dt_status st = DT_OK;
    for (char *slash = p; st == DT_OK && (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        if (mkdir(p, 0777) != 0 && errno != EEXIST)
            st = DT_FAIL(err, DT_E_IO, "make folder '%s': %s", p, strerror(errno));
    }
    dt_free(p);
    return st;
}

dt_status dti_link_over(const char *from, const char *to, dt_err *err)
{
    dt_file_writer *w = dt_alloc(1, sizeof *w);
    if (w == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", to);
    w->fd = -1;
    const dt_status st = writer_names(w, to)
                             ? link_beside(w, from, err)
                             : DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", to);
    dt_writer_abandon(w);
    return st;
}
