/* The disk tier's file: made, preallocated and unlinked, leftovers removed. */
#define _GNU_SOURCE /* O_TMPFILE */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/numbers_text.h"
#include "memory/tiers/disk.h"

#define NAME ".dnntrain-"

enum { NAMES = 100 };

/* True for ".dnntrain-PID-N". */
static bool is_ours(const char *name)
{
    if (strncmp(name, NAME, sizeof NAME - 1) != 0)
        return false;
    const char *p = name + sizeof NAME - 1;
    const size_t pid = strspn(p, "0123456789");
    if (pid == 0 || p[pid] != '-')
        return false;
    const size_t n = strspn(p + pid + 1, "0123456789");
    return n > 0 && p[pid + 1 + n] == '\0';
}

/* A name lasts from open to unlink. One that is there was left by a crash between the two; and if
 * its maker lives it loses nothing, because it was about to do the same. */
static void remove_leftovers(const char *folder, char *path, size_t room)
{
    DIR *d = opendir(folder);
    if (d == NULL)
        return;
    for (const char *name; dt_next_name(&name, d, folder, NULL) == DT_OK && name != NULL;)
        if (is_ours(name) && snprintf(path, room, "%s/%s", folder, name) < (int)room)
            (void)dt_io->unlink(path);
    (void)closedir(d);
}

static int unlink_at_once(int fd, const char *path)
{
    int r;
    do
        r = dt_io->unlink(path);
    while (r != 0 && errno == EINTR);
    if (r == 0 || errno == ENOENT)
        return fd;
    const int error = errno;
    if (dt_io->unlink(path) == 0) /* nothing may be left, so even a failure gets a second chance */
        return fd;
    (void)dt_close(fd);
    errno = error;
    return -1;
}

/* For file systems in which a file must have a name: one for a moment. */
static int open_named(const char *folder)
{
    const size_t room = strlen(folder) + 300; /* a name has at most 255 bytes */
    char *path = dt_alloc(room, 1);
    if (path == NULL) {
        errno = ENOMEM;
        return -1;
    }
    remove_leftovers(folder, path, room);
    int fd = -1;
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, room, "%s/" NAME "%ld-%d", folder, (long)getpid(), i);
        fd = dt_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    if (fd >= 0)
        fd = unlink_at_once(fd, path);
    const int error = errno;
    dt_free(path);
    errno = error;
    return fd;
}

static double gib(double bytes)
{
    return bytes / (double)(1 << 30);
}

/* Whether it is the process's limit that a file of so many bytes would be beyond. */
static bool is_limited(const dti_disk_file *f)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
           f->bytes > most.rlim_cur;
}

/* All its bytes now, so that a disk that is full is known before the first step. */
static dt_status preallocate(const dti_disk_file *f, dt_err *err)
{
    int error;
    do
        error = f->bytes > INT64_MAX ? EFBIG : dt_io->fallocate(f->fd, 0, (off_t)f->bytes);
    while (error == EINTR);
    if (error == 0)
        return DT_OK;
    struct statfs fs;
    char room[64] = "";
    if (error == EFBIG && is_limited(f))
        return DT_FAIL(err, DT_E_IO,
            "the disk tier needs a file of %" PRIu64 " bytes in '%s', and RLIMIT_FSIZE "
            "(ulimit -f) lets none be so large; raise it, or set memory.tier = host; "
            "what lives on the disk by zero_infinity or [memory.layers] needs another home",
            f->bytes, f->folder);
    if (dt_io->statfs(f->folder, &fs) == 0)
        dt_snprintf(room, sizeof room, ", where %.3f GiB are free",
            gib((double)fs.f_bavail * (double)fs.f_bsize));
    return DT_FAIL(err, DT_E_IO,
        "the disk tier needs %.3f GiB in '%s'%s: %s; take a smaller batch, or " DTI_DISK_ELSEWHERE,
        gib((double)f->bytes), f->folder, room, strerror(error));
}

/* One block, as transfers will be: some file systems accept the flag and then refuse those. */
static int try_direct(const dti_disk_file *f)
{
    static const _Alignas(DTI_DISK_BLOCK) char block[DTI_DISK_BLOCK];
    dti_disk_chunk c = {.from = block, .bytes = sizeof block, .length = sizeof block};
    dti_disk_chunk_run(&c, f);
    return c.error;
}

/* Past the page cache where that can be: buffered bytes would take the memory that is to be saved.
 */
static dt_status choose_direct(dti_disk_file *f, const char **why, dt_err *err)
{
    struct statfs fs;
    if (dt_io->statfs(f->folder, &fs) == 0 &&
        ((uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == RAMFS_MAGIC)) {
        *why = "memory.disk_path is a file system in memory: the disk tier saves none";
        return DT_OK;
    }
    const int align = dt_io->direct(f->fd, true);
    f->align = align > 0 ? (size_t)align : 1;
    const int error = align > 0 ? try_direct(f) : EINVAL;
    if (error == 0 && align <= DTI_DISK_BLOCK)
        return DT_OK;
    f->align = 1;
    if (align > 0 && (error != EINVAL && error != 0))
        return DT_FAIL(err, DT_E_IO, "write the disk tier's file in '%s': %s; " DTI_DISK_ELSEWHERE,
            f->folder, strerror(error));
    if (align > 0 && dt_io->direct(f->fd, false) < 0)
        return DT_FAIL(err, DT_E_IO, "buffer the disk tier's file in '%s': %s; " DTI_DISK_ELSEWHERE,
            f->folder, strerror(errno));
    *why = "memory.disk_path has no O_DIRECT: the disk tier goes through the page cache";
    return DT_OK;
}

dt_status dti_disk_file_open(
    dti_disk_file *f, const char *folder, uint64_t bytes, const char **why, dt_err *err)
{
    *f = (dti_disk_file){.fd = -1, .align = 1, .bytes = bytes};
    f->folder = dt_strdup(folder);
    if (f->folder == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the disk tier in '%s'", folder);
    f->fd = dt_open(folder, O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        f->fd = open_named(folder);
    if (f->fd < 0 && errno == ENOMEM)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the disk tier in '%s'", folder);
    if (f->fd < 0 && errno == ENOENT)
        return DT_FAIL(err, DT_E_IO,
            "there is no folder '%s' for the disk tier's file: create it, or name one that is "
            "there, --set memory.disk_path=FOLDER",
            folder);
    if (f->fd < 0)
        return DT_FAIL(err, DT_E_IO, "create the disk tier's file in '%s': %s; " DTI_DISK_ELSEWHERE,
            folder, strerror(errno));
    DT_CHECK(preallocate(f, err));
    return choose_direct(f, why, err);
}

void dti_disk_file_close(dti_disk_file *f)
{
    if (f->folder != NULL && f->fd >= 0)
        (void)dt_close(f->fd); /* the bytes go with it: no error can lose any */
    dt_free(f->folder);
    f->folder = NULL;
    f->fd = -1;
}
