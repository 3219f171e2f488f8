/* Two threads, one that sums up and one that writes, each going through the same ring of blocks at
 * its own speed. A file of less than a block, or a system that gives no threads, has the caller do
 * both. */
#define _GNU_SOURCE /* sync_file_range */
#include "engine/base/write_behind.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"

enum {
    BLOCK = 2 << 20,
    BLOCKS = DT_WRITER_BYTES / BLOCK,
    ALIGN = 4096, /* of what goes past the page cache: memory, offsets, lengths */
    CACHED_BYTES = 64 << 20,
};

/**
 * struct stage - what is done with each block.
 * @work:    called without the lock
 * @done:    blocks, under the lock
 */
typedef struct stage {
    struct dti_behind *of;
    dt_status (*work)(struct dti_behind *b, const char *block, dt_err *err);
    uint64_t done;
    pthread_t thread;
    bool running;
} stage;

enum { SUM, WRITE, STAGES };

/**
 * struct dti_behind
 * @memory @ring: BLOCKS blocks, the ring aligned
 * @held:    bytes in the block at hand
 * @at:      where the next block goes; of the thread that writes, if there is one
 * @begun:   the first block is full: it is known who does the work
 * @direct:  past the page cache
 * @filled @ended @status @err: under the lock: blocks handed to the stages, whether more may come,
 *           and the first failure
 */
struct dti_behind {
    int fd;
    const char *path;
    dt_sha256 *sum;
    char *memory, *ring;
    size_t held;
    off_t at;
    bool begun, direct;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t filled;
    bool ended;
    dt_status status;
    dt_err err;
    stage stage[STAGES];
};

static char *block_at(const dti_behind *b, uint64_t i)
{
    return b->ring + i % BLOCKS * BLOCK;
}

/* ---- what is done with a block ---- */

static dt_status add_up(dti_behind *b, const char *block, dt_err *err)
{
    (void)err;
    if (b->sum != NULL)
        dt_sha256_add(b->sum, block, BLOCK);
    return DT_OK;
}

static void leave_direct(dti_behind *b)
{
    (void)dt_io->direct(b->fd, false);
    b->direct = false;
}

/* As much of a block as goes past the page cache. A file system that refuses is written through it
 * from there on, and so is what is left of a transfer that ended within a unit. */
static dt_status write_past(dti_behind *b, const char *block, size_t *done, dt_err *err)
{
    *done = 0;
    while (b->direct && *done < BLOCK) {
        const off_t at = b->at + (off_t)*done;
        const ssize_t put = dt_io->pwrite(b->fd, block + *done, BLOCK - *done, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0 || (put < 0 && errno != EINVAL))
            return dti_write_failed(b->path, at, put < 0 ? errno : ENOSPC, err);
        const size_t whole = put < 0 ? 0 : (size_t)put / ALIGN * ALIGN;
        if (whole == 0)
            leave_direct(b);
        *done += whole;
    }
    return DT_OK;
}

/* The disk begins at once, and not with the sync in the end; and what it has written some time ago
 * leaves the page cache, where it would stand in other files' places. Advice: a disk that fails is
 * found by the sync. */
static void write_back(const dti_behind *b)
{
    (void)sync_file_range(b->fd, b->at, BLOCK, SYNC_FILE_RANGE_WRITE);
    if (b->at >= CACHED_BYTES)
        (void)posix_fadvise(b->fd, b->at - CACHED_BYTES, BLOCK, POSIX_FADV_DONTNEED);
}

static dt_status write_block(dti_behind *b, const char *block, dt_err *err)
{
    size_t done;
    DT_CHECK(write_past(b, block, &done, err));
    if (done < BLOCK) {
        DT_CHECK(dt_write_at(b->fd, b->path, block + done, BLOCK - done, b->at + (off_t)done, err));
        write_back(b);
    }
    b->at += BLOCK;
    return DT_OK;
}

/* ---- threads ---- */

/* After a failure blocks only pass, so that nobody waits for ever. */
static void do_block(stage *s)
{
    dti_behind *b = s->of;
    dt_err err;
    const bool whole = b->status == DT_OK;
    pthread_mutex_unlock(&b->lock);
    dt_err_clear(&err);
    const dt_status st = whole ? s->work(b, block_at(b, s->done), &err) : DT_OK;
    pthread_mutex_lock(&b->lock);
    if (st != DT_OK && b->status == DT_OK) {
        b->status = st;
        b->err = err;
    }
    s->done++;
    pthread_cond_broadcast(&b->moved);
}

static void *stage_main(void *arg)
{
    stage *s = arg;
    dti_behind *b = s->of;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (s->done == b->filled && !b->ended)
            pthread_cond_wait(&b->moved, &b->lock);
        if (s->done == b->filled)
            break;
        do_block(s);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void end_threads(dti_behind *b)
{
    pthread_mutex_lock(&b->lock);
    b->ended = true;
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < STAGES; i++)
        if (b->stage[i].running)
            pthread_join(b->stage[i].thread, NULL);
    for (int i = 0; i < STAGES; i++)
        b->stage[i].running = false;
}

static bool start(stage *s)
{
    s->running = dt_thread_start(&s->thread, DTI_SMALL_STACK, stage_main, s) == 0;
    return s->running;
}

/* Where not all threads can be had there are none. */
static void begin(dti_behind *b)
{
    b->begun = true;
    b->direct = dt_io->direct(b->fd, true) >= 0;
    if (!start(&b->stage[WRITE]) || !start(&b->stage[SUM]))
        end_threads(b);
}

/* ---- the caller ---- */

/* The next block of the ring is free. */
static bool has_room(const dti_behind *b)
{
    for (int i = 0; i < STAGES; i++)
        if (b->filled - b->stage[i].done >= BLOCKS)
            return false;
    return true;
}

static dt_status told(const dti_behind *b, dt_err *err)
{
    return b->status == DT_OK ? DT_OK : dt_err_append(err, b->status, b->err.text);
}

static dt_status to_threads(dti_behind *b, dt_err *err)
{
    pthread_mutex_lock(&b->lock);
    b->filled++;
    pthread_cond_broadcast(&b->moved);
    while (!has_room(b))
        pthread_cond_wait(&b->moved, &b->lock);
    const dt_status st = told(b, err);
    pthread_mutex_unlock(&b->lock);
    return st;
}

static dt_status pass_on(dti_behind *b, dt_err *err)
{
    if (!b->begun)
        begin(b);
    b->held = 0;
    if (b->stage[WRITE].running)
        return to_threads(b, err);
    DT_CHECK(add_up(b, block_at(b, b->filled), err));
    return write_block(b, block_at(b, b->filled), err);
}

dt_status dti_behind_put(dti_behind *b, const void *from, size_t n, dt_err *err)
{
    for (const char *p = from; n > 0;) {
        const size_t room = BLOCK - b->held, some = n < room ? n : room;
        memcpy(block_at(b, b->filled) + b->held, p, some);
        b->held += some;
        p += some;
        n -= some;
        if (b->held == BLOCK)
            DT_CHECK(pass_on(b, err));
    }
    return DT_OK;
}

dt_status dti_behind_end(dti_behind *b, dt_err *err)
{
    end_threads(b);
    DT_CHECK(told(b, err));
    if (b->direct)
        leave_direct(b);
    const char *rest = block_at(b, b->filled);
    if (b->sum != NULL)
        dt_sha256_add(b->sum, rest, b->held);
    DT_CHECK(dt_write_at(b->fd, b->path, rest, b->held, b->at, err));
    b->held = 0;
    return DT_OK;
}

void dti_behind_sum(dti_behind *b, dt_sha256 *sum)
{
    b->sum = sum;
}

dti_behind *dti_behind_open(int fd, const char *path)
{
    dti_behind *b = dt_alloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->memory = dt_alloc(BLOCKS * (size_t)BLOCK + ALIGN, 1);
    if (b->memory == NULL) {
        dt_free(b);
        return NULL;
    }
    b->fd = fd;
    b->path = path;
    b->ring = b->memory + (ALIGN - (uintptr_t)b->memory % ALIGN);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->moved, NULL);
    b->stage[SUM] = (stage){.of = b, .work = add_up};
    b->stage[WRITE] = (stage){.of = b, .work = write_block};
    return b;
}

void dti_behind_close(dti_behind *b)
{
    if (b == NULL)
        return;
    end_threads(b);
    pthread_cond_destroy(&b->moved);
    pthread_mutex_destroy(&b->lock);
    dt_free(b->memory);
    dt_free(b);
}
