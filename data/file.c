/* Files as sources read them: whole, unchanged since they were listed, and what a path names. */
#include "data/file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "data/escape.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"

dti_stamp dti_stamp_of(const struct stat *st)
{
    return (dti_stamp){st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec};
}

dt_status dti_blame(int error)
{
    switch (error) {
    case EIO:
    case EMFILE:
    case ENFILE:
        return DT_E_IO;
    case ENOMEM:
        return DT_E_NOMEM;
    default:
        return DT_E_DATA;
    }
}

static dt_status open_data(int *fd, off_t *size, const char *path, dt_err *err)
{
    errno = 0;
    if (dt_open_regular(fd, size, path, DT_E_DATA, NULL) == DT_OK)
        return DT_OK;
    const int error = errno;
    const dti_escaped name = dti_escape(path);
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return DT_FAIL(err, DT_E_DATA, "%s: not a regular file", name.text);
    return DT_FAIL(err, dti_blame(error), "%s: cannot open: %s", name.text, strerror(error));
}

static dt_status check_stamp(int fd, const char *name, const dti_stamp *was, dt_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return DT_FAIL(err, DT_E_IO, "%s: %s", name, strerror(errno));
    const dti_stamp now = dti_stamp_of(&st);
    if (now.bytes != was->bytes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: changed during the run: it has %" PRId64 " bytes and had %" PRId64, name,
            now.bytes, was->bytes);
    if (now.seconds != was->seconds || now.nanoseconds != was->nanoseconds)
        return DT_FAIL(err, DT_E_DATA, "%s: changed during the run", name);
    return DT_OK;
}

dt_status dti_slurp(
    uint8_t **bytes, size_t *n, const char *path, size_t cap, const dti_stamp *stamp, dt_err *err)
{
    int fd;
    off_t size;
    DT_CHECK(open_data(&fd, &size, path, err));
    const dti_escaped name = dti_escape(path);
    dt_status st = stamp != NULL ? check_stamp(fd, name.text, stamp, err) : DT_OK;
    uint8_t *p = NULL;
    if (st == DT_OK && (uintmax_t)size > cap)
        st = DT_FAIL(err, DT_E_DATA, "%s: has %" PRId64 " bytes, at most %zu are read", name.text,
            (int64_t)size, cap);
    if (st == DT_OK && (p = dt_alloc((size_t)size, 1)) == NULL)
        st = DT_FAIL(
            err, DT_E_NOMEM, "%s: no memory for its %" PRId64 " bytes", name.text, (int64_t)size);
    if (st == DT_OK)
        st = dt_read_at(fd, name.text, p, (size_t)size, 0, err);
    dt_io->close(fd); /* nothing was written, so nothing can be lost */
    if (st != DT_OK) {
        dt_free(p);
        return st;
    }
    *bytes = p;
    *n = (size_t)size;
    return DT_OK;
}

dt_status dti_is_folder(bool *folder, const char *path, dt_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        const int error = errno;
        return DT_FAIL(err, dti_blame(error), "%s: %s", dti_escape(path).text, strerror(error));
    }
    *folder = S_ISDIR(st.st_mode);
    return DT_OK;
}

bool dti_is_there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

char *dti_join(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    char *p = dt_alloc(n + m + 2, 1);
    if (p == NULL)
        return NULL;
    memcpy(p, a, n);
    p[n] = '/';
    memcpy(p + n + 1, b, m + 1);
    return p;
}
