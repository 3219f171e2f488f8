/* The lock: Linux's of an open file, not of a process, so it works within one process too, and ends
 * with the process however that ends; the file's text only names it. */
#define _GNU_SOURCE /* locks of open files */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/io.h"
#include "session/run_dir/run_dir_internal.h"

enum { PATH_BYTES = 4096 };

/* False: the path is too long to exist. */
static bool lock_path(char to[PATH_BYTES], const char *folder)
{
    return snprintf(to, PATH_BYTES, "%s/" DT_RUN_LOCK, folder) < PATH_BYTES;
}

/* "PID HOST" as "process PID on HOST"; a file of anyone's making is cut down to that. */
static void read_holder(int fd, char to[DTI_HOLDER_BYTES])
{
    char text[DTI_HOLDER_BYTES] = "", *end;
    const ssize_t n = pread(fd, text, 100, 0);
    text[n > 0 ? n : 0] = '\0';
    const long pid = strtol(text, &end, 10);
    if (end == text || pid <= 0) {
        snprintf(to, DTI_HOLDER_BYTES, "another process");
        return;
    }
    char *host = end + strspn(end, " ");
    for (char *c = host; *c != '\0'; c++)
        if (*c < '!' || *c > '~')
            *c = '\0';
    snprintf(to, DTI_HOLDER_BYTES, "process %ld%s%.64s", pid, *host != '\0' ? " on " : "", host);
}

static bool same_file(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* Whether it was removed or replaced: a file system that does not answer says neither. */
static bool is_gone(int fd, const char *path)
{
    struct stat a, b;
    if (lstat(path, &b) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return fstat(fd, &a) == 0 && (a.st_ino != b.st_ino || a.st_dev != b.st_dev);
}

/* Lock and sign. A file that was removed or replaced meanwhile locks nothing. */
static dt_status lock_file(int fd, const char *path, const char *folder, bool *locked, dt_err *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char text[DTI_HOLDER_BYTES], host[64] = "";
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        if (errno != EAGAIN && errno != EACCES)
            return DT_FAIL(err, DT_E_IO,
                "lock '%s': %s; this file system has no locks: set run.dir to a folder on another",
                path, strerror(errno));
        read_holder(fd, text);
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' is in use by %s; set run.dir to another folder", folder, text);
    }
    *locked = true;
    if (!same_file(fd, path))
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' was taken by another process just now; set run.dir to another "
            "folder",
            folder);
    (void)gethostname(host, sizeof host - 1);
    const int n = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) != 0)
        return DT_FAIL(err, DT_E_IO, "truncate '%s': %s", path, strerror(errno));
    return dt_write_at(fd, path, text, (size_t)n, 0, err);
}

void dti_run_lock_drop(int fd, const char *folder)
{
    char path[PATH_BYTES];
    if (fd < 0)
        return;
    if (lock_path(path, folder) && same_file(fd, path))
        (void)dt_io->unlink(path);
    (void)dt_io->close(fd);
}

bool dti_run_lock_lasts(int fd, const char *folder)
{
    char path[PATH_BYTES];
    return lock_path(path, folder) && !is_gone(fd, path);
}

dt_status dti_run_lock_take(int *fd, const char *folder, dt_err *err)
{
    char path[PATH_BYTES];
    *fd = -1;
    if (!lock_path(path, folder))
        return DT_FAIL(err, DT_E_IO, "'%s': %s", folder, strerror(ENAMETOOLONG));
    const int got = dt_io->open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    const int why = errno;
    if (got < 0)
        return DT_FAIL(err, DT_E_IO, "run directory '%s' cannot be written: create '%s': %s; %s",
            folder, path, strerror(why),
            why == EMFILE ? "raise RLIMIT_NOFILE (ulimit -n)"
                          : "make it writable, or set run.dir to another folder");
    bool locked = false;
    const dt_status st = lock_file(got, path, folder, &locked, err);
    if (st == DT_OK)
        *fd = got;
    else if (locked)
        dti_run_lock_drop(got, folder);
    else /* the file may be another's */
        (void)dt_io->close(got);
    return st;
}

bool dti_run_lock_held(const char *folder, char holder[DTI_HOLDER_BYTES])
{
    char path[PATH_BYTES];
    holder[0] = '\0';
    if (!lock_path(path, folder))
        return false;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const bool held = fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    read_holder(fd, holder);
    (void)close(fd);
    return held;
}
