/* A ring of blocks that a thread fills and the caller empties. A file of one block, or a system
 * that gives no thread, has the caller do both. */
#include "engine/base/read_ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"

enum {
    BLOCK = 2 << 20,
    BLOCKS = DTI_AHEAD_BYTES / BLOCK,
    ALIGN = 4096,     /* of what goes past the page cache: memory, offsets, lengths */
    LATER = 16 << 20, /* what the disk is told of, where it is the page cache that is read */
    FAR = 64 << 20,   /* what a caller leaves out is read nevertheless, up to here */
};

_Static_assert(
    (int)DTI_AHEAD_BYTES <= (int)DT_WRITER_BYTES, "plans leave room for the larger of the two");

/**
 * struct dti_ahead
 * @memory @ring: BLOCKS blocks, the ring aligned
 * @direct:  past the page cache; of who reads
 * @held @used: of the block at hand: its bytes, and how many dti_ahead_read has taken
 * @passed:  bytes of the blocks before it
 * @filled @emptied @ended @status @err: under the lock: blocks read and given back, whether no more
 *           are wanted, and the first failure
 */
struct dti_ahead {
    int fd;
    char *path;
    off_t bytes;
    char *memory, *ring;
    bool direct, running;
    size_t held, used;
    off_t passed;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t filled, emptied, blocks;
    bool ended;
    dt_status status;
    dt_err err;
};

static size_t bytes_of(const dti_ahead *a, uint64_t block)
{
    const off_t left = a->bytes - (off_t)block * BLOCK;
    return left < BLOCK ? (size_t)left : BLOCK;
}

/* ---- a block ---- */

/* As much of it as goes past the page cache. A file system that refuses is read through it from
 * there on, and so is what is left of a transfer that ended within a unit. */
static dt_status read_past(dti_ahead *a, char *to, size_t n, off_t at, size_t *done, dt_err *err)
{
    *done = 0;
    while (a->direct && *done < n) {
        const size_t units = (n - *done + ALIGN - 1) / ALIGN * ALIGN;
        const ssize_t got = dt_io->pread(a->fd, to + *done, units, at + (off_t)*done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != EINVAL)
            return DT_FAIL(err, DT_E_IO, "read '%s' at byte %lld: %s", a->path,
                (long long)(at + (off_t)*done), strerror(errno));
        const size_t some = got < 0 ? 0 : (size_t)got;
        if (*done + some >= n) {
            *done = n;
            break;
        }
        if (some == 0 || some % ALIGN != 0) {
            (void)dt_io->direct(a->fd, false);
            a->direct = false;
        }
        *done += some / ALIGN * ALIGN;
    }
    return DT_OK;
}

static dt_status read_block(dti_ahead *a, uint64_t block, dt_err *err)
{
    char *to = a->ring + block % BLOCKS * BLOCK;
    const size_t n = bytes_of(a, block);
    const off_t at = (off_t)block * BLOCK;
    size_t done;
    DT_CHECK(read_past(a, to, n, at, &done, err));
    if (done == n)
        return DT_OK;
    (void)posix_fadvise(a->fd, at + LATER, BLOCK, POSIX_FADV_WILLNEED); /* advice */
    return dt_read_at(a->fd, a->path, to + done, n - done, at + (off_t)done, err);
}

/* ---- the thread ---- */

static void *fill(void *arg)
{
    dti_ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (a->filled < a->blocks && a->status == DT_OK) {
        while (a->filled - a->emptied == BLOCKS && !a->ended)
            pthread_cond_wait(&a->moved, &a->lock);
        if (a->ended)
            break;
        pthread_mutex_unlock(&a->lock);
        dt_err err;
        dt_err_clear(&err);
        const dt_status st = read_block(a, a->filled, &err);
        pthread_mutex_lock(&a->lock);
        a->status = st;
        a->err = err;
        a->filled += st == DT_OK;
        pthread_cond_signal(&a->moved);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void begin(dti_ahead *a)
{
    a->direct = dt_io->direct(a->fd, true) >= 0;
    a->running = dt_thread_start(&a->thread, DTI_SMALL_STACK, fill, a) == 0;
}

/* Gives the block at hand back, and waits for the one that comes after. */
static dt_status await(dti_ahead *a, bool first, dt_err *err)
{
    pthread_mutex_lock(&a->lock);
    a->emptied += !first;
    pthread_cond_signal(&a->moved);
    while (a->filled == a->emptied && a->status == DT_OK)
        pthread_cond_wait(&a->moved, &a->lock);
    const dt_status st = a->filled == a->emptied ? a->status : DT_OK;
    if (st != DT_OK)
        (void)dt_err_append(err, st, a->err.text);
    pthread_mutex_unlock(&a->lock);
    return st;
}

static dt_status by_itself(dti_ahead *a, bool first, dt_err *err)
{
    a->emptied += !first;
    DT_CHECK(read_block(a, a->emptied, err));
    a->filled = a->emptied + 1;
    return DT_OK;
}

/* ---- the caller ---- */

dt_status dti_ahead_next(dti_ahead *a, const void **bytes, size_t *n, dt_err *err)
{
    const bool first = a->held == 0;
    a->passed += (off_t)a->held;
    a->used = *n = 0;
    if (a->passed == a->bytes) {
        a->held = 0;
        return DT_OK;
    }
    if (first && a->blocks > 1)
        begin(a);
    DT_CHECK(a->running ? await(a, first, err) : by_itself(a, first, err));
    a->held = *n = bytes_of(a, a->emptied);
    *bytes = a->ring + a->emptied % BLOCKS * BLOCK;
    return DT_OK;
}

dt_status dti_ahead_read(dti_ahead *a, off_t at, void *to, size_t n, bool *had, dt_err *err)
{
    const off_t here = a->passed + (off_t)a->used;
    *had = at >= here && at - here <= FAR && at <= a->bytes && n <= (size_t)(a->bytes - at);
    while (*had && n > 0) {
        const void *block;
        size_t more;
        if (at >= a->passed + (off_t)a->held) {
            DT_CHECK(dti_ahead_next(a, &block, &more, err));
            continue;
        }
        const size_t from = (size_t)(at - a->passed), there = a->held - from;
        more = n < there ? n : there;
        memcpy(to, a->ring + a->emptied % BLOCKS * BLOCK + from, more);
        a->used = from + more;
        to = (char *)to + more;
        at += (off_t)more;
        n -= more;
    }
    return DT_OK;
}

off_t dti_ahead_bytes(const dti_ahead *a)
{
    return a->bytes;
}

static dt_status take_memory(dti_ahead *a, const char *path)
{
    const uint64_t all = (uint64_t)a->bytes, ring = (uint64_t)BLOCKS * BLOCK;
    a->path = dt_strdup(path);
    a->memory = dt_alloc((all < ring ? all : ring) + 2 * ALIGN, 1);
    if (a->path == NULL || a->memory == NULL)
        return DT_E_NOMEM;
    a->ring = a->memory + (ALIGN - (uintptr_t)a->memory % ALIGN);
    return DT_OK;
}

bool dti_ahead_is(const dti_ahead *a, int fd)
{
    struct stat own, other;
    return fstat(a->fd, &own) == 0 && fstat(fd, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

dt_status dti_ahead_open(dti_ahead **out, const char *path, dt_status wrong, dt_err *err)
{
    *out = NULL;
    dti_ahead *a = dt_alloc(1, sizeof *a);
    if (a == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to read '%s'", path);
    a->fd = -1;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->moved, NULL);
    dt_status st = dt_open_regular(&a->fd, &a->bytes, path, wrong, err);
    if (st == DT_OK) {
        a->blocks = ((uint64_t)a->bytes + BLOCK - 1) / BLOCK;
        if (take_memory(a, path) != DT_OK)
            st = DT_FAIL(err, DT_E_NOMEM, "no memory to read '%s'", path);
    }
    if (st != DT_OK)
        dti_ahead_close(a);
    else
        *out = a;
    return st;
}

void dti_ahead_close(dti_ahead *a)
{
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->lock);
    a->ended = true;
    pthread_cond_signal(&a->moved);
    pthread_mutex_unlock(&a->lock);
    if (a->running)
        pthread_join(a->thread, NULL);
    if (a->fd >= 0)
        (void)dt_close(a->fd); /* nothing was written */
    pthread_cond_destroy(&a->moved);
    pthread_mutex_destroy(&a->lock);
    dt_free(a->path);
    dt_free(a->memory);
    dt_free(a);
}
