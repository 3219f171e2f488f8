/* Files: whole reads and writes that finish short transfers and EINTR, behind a table of system
 * calls that tests replace to make the n-th call fail. */
#ifndef DT_ENGINE_BASE_IO_H
#define DT_ENGINE_BASE_IO_H

#include <dirent.h>
#include <sys/types.h>

#include "engine/base/error.h"
#include "engine/base/sha256.h"

struct statfs;

/* The calls; tests point dt_io at their own, no program does. Never changed while a run is going.
 * One table for the process, as its files, folders and disks are: those who ask for one twice must
 * meet the same, from whatever session.
 * fallocate returns its error and leaves errno alone, as posix_fallocate does. direct turns
 * O_DIRECT on or off: on, it returns what addresses in memory must be multiples of. exchange has
 * two names change places at once, which not every file system can. */
typedef struct dt_io_ops {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*pread)(int fd, void *to, size_t n, off_t at);
    ssize_t (*pwrite)(int fd, const void *from, size_t n, off_t at);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*exchange)(const char *one, const char *other);
    int (*unlink)(const char *path);
    int (*link)(const char *from, const char *to);
    int (*fallocate)(int fd, off_t at, off_t n);
    int (*direct)(int fd, bool on);
    int (*statfs)(const char *path, struct statfs *to);
    struct dirent *(*readdir)(DIR *folder);
} dt_io_ops;
extern const dt_io_ops dt_io_system;
extern const dt_io_ops *dt_io;

/* Bytes of the blocks that a file system counts. */
uint64_t dt_block_bytes(const struct statfs *fs);

/* open, again while it is interrupted; close, of which an interruption is no failure. */
int dt_open(const char *path, int flags, mode_t mode);
int dt_close(int fd);
int dt_sync(int fd); /* fsync, again while it is interrupted */

/* Exactly n bytes at an offset, or DT_E_IO with path, offset and the system's text; a file that
 * ends early is DT_E_DATA. */
dt_status dt_read_at(
    int fd, const char *path, void *to, size_t n, off_t at, dt_err *err) DT_NODISCARD;
dt_status dt_write_at(
    int fd, const char *path, const void *from, size_t n, off_t at, dt_err *err) DT_NODISCARD;
/* DT_E_IO as the latter says it, of a write by other means. */
dt_status dti_write_failed(const char *path, off_t at, int error, dt_err *err) DT_NODISCARD;

/* Open a regular file for reading (no FIFO, device or folder) and tell its size. @wrong is the
 * status of a file that is missing or cannot be opened. */
dt_status dt_open_regular(
    int *fd, off_t *bytes, const char *path, dt_status wrong, dt_err *err) DT_NODISCARD;

/* A whole regular file, of at most @cap bytes, NUL-terminated beyond its end; dt_free it. A file
 * over the cap has status @wrong as well. */
dt_status dt_read_file(char **text, size_t *bytes, const char *path, size_t cap, dt_status wrong,
    dt_err *err) DT_NODISCARD;

/* The next name in a folder, NULL at its end; borrowed until the next call. DT_E_IO: what is read
 * of a folder that cannot be read to its end is not all of it. @path is for the message. */
dt_status dt_next_name(const char **name, DIR *d, const char *path, dt_err *err) DT_NODISCARD;

/* Whether a file of this name is one that is, or was, being written: ".NAME.tmp-PID". */
bool dt_is_temporary(const char *name);

/* Write beside (".NAME.tmp-PID"), sync, rename over @path, sync the folder. An error leaves @path
 * as it was and no temporary file; only when the folder's own sync fails, which comes last, is the
 * new file there, whole, though a power failure may still take it back. A failed sync is never
 * retried: the kernel may have dropped the bytes. A folder or a device in the place of @path is
 * left alone: DT_E_IO. */
enum { DT_WRITER_BYTES = 12 << 20 }; /* of memory that one takes, its threads not counted */
typedef struct dt_file_writer dt_file_writer;
dt_status dt_writer_open(dt_file_writer **out, const char *path, dt_err *err) DT_NODISCARD;
/* Before anything is put: add all of it to @sum, which is whole with the commit; borrowed. */
void dti_writer_sum(dt_file_writer *w, dt_sha256 *sum);
/* Taken in and written behind (write_behind.h): a failure may be that of bytes put earlier. */
dt_status dt_writer_put(dt_file_writer *w, const void *from, size_t n, dt_err *err) DT_NODISCARD;
dt_status dt_writer_commit(dt_file_writer *w, dt_err *err) DT_NODISCARD; /* frees w either way */
/* As dt_writer_commit, but waits for no disk: a process that dies takes nothing away, a power cut
 * may, until the caller has synced the file and its folder (dt_sync_path). */
dt_status dt_writer_rename(dt_file_writer *w, dt_err *err) DT_NODISCARD;
void dt_writer_abandon(dt_file_writer *w); /* NULL is fine */

/* DT_E_IO where no such writer could take a path: a device, a folder, or a link to an open file. */
dt_status dt_check_target(const char *path, dt_err *err) DT_NODISCARD;

/* The same for text that there is whole. */
dt_status dt_write_file(const char *path, const void *from, size_t n, dt_err *err) DT_NODISCARD;

/* Wait until what was written to a file, or the names in a folder, are on the disk. DT_E_IO. Some
 * file systems cannot sync a folder, which is no failure. */
dt_status dt_sync_path(const char *path, dt_err *err) DT_NODISCARD;

/* Make every folder above the last part of @path that is missing. DT_E_IO, DT_E_NOMEM. */
dt_status dt_make_above(const char *path, dt_err *err) DT_NODISCARD;

/* Give the file @from a second name @to, in place of what is there, and sync its folder. DT_E_IO
 * where that cannot be, as on file systems without such names: @to is then as it was. */
dt_status dti_link_over(const char *from, const char *to, dt_err *err) DT_NODISCARD;

#endif
