/* Who reads a checkpoint beside the run that writes them, and what that run leaves alone. */
#include "engine/checkpoint/checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int lock(int fd, int how)
{
    int r;
    do
        r = flock(fd, how | LOCK_NB);
    while (r != 0 && errno == EINTR);
    return r;
}

/* Whether the folder that is open has this name still. */
static bool has_name(int fd, const char *path)
{
    struct stat of, there;
    return fstat(fd, &of) == 0 && lstat(path, &there) == 0 && of.st_dev == there.st_dev &&
           of.st_ino == there.st_ino;
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

dt_status dti_hold(int *fd, const char *path, dt_err *err)
{
    *fd = open_folder(path);
    if (*fd < 0 && errno == ENOENT)
        return DT_FAIL(err, DT_E_DATA, "'%s' has been removed", path);
    if (*fd < 0) /* reading what is in it says why it cannot be opened */
        return DT_OK;
    const bool taken = lock(*fd, LOCK_SH) != 0 && errno == EWOULDBLOCK;
    if (!taken && has_name(*fd, path))
        return DT_OK;
    dti_let_go(fd);
    return DT_FAIL(err, DT_E_DATA, "'%s' is being removed", path);
}

bool dti_hold_alone(int *fd, const char *path)
{
    *fd = open_folder(path);
    if (*fd < 0 || lock(*fd, LOCK_EX) == 0 || errno != EWOULDBLOCK)
        return true;
    dti_let_go(fd);
    return false;
}

void dti_let_go(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}
