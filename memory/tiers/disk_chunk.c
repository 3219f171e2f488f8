/* The disk tier's transfers cut into chunks, each checked. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "engine/base/io.h"
#include "memory/tiers/disk.h"

enum { MOST_WAITS = 1000 }; /* of a millisecond each, for a system that says EAGAIN */

void dti_disk_nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Chunks of a part of a slot are chunks of the slot, so the checksum of each has its place by where
 * the chunk begins. */
enum { SUMS_APART = DTI_DISK_CHUNK / DTI_DISK_BLOCK };
_Static_assert(DT_PART_UNIT % DTI_DISK_CHUNK == 0, "parts of slots are whole chunks");

enum { WORDS = 4 };

/* One to one in either argument, so that no single changed word is ever lost. */
static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* Any changed byte changes it, and other damage with all but certainty. */
static uint64_t sum_of(const void *p, size_t n)
{
    const char *at = p;
    uint64_t h[WORDS] = {1, 2, 3, 4}, w[WORDS];
    size_t left = n;
    for (; left >= sizeof w; left -= sizeof w, at += sizeof w) {
        memcpy(w, at, sizeof w);
        for (int i = 0; i < WORDS; i++)
            h[i] = mix(h[i], w[i]);
    }
    memset(w, 0, sizeof w);
    if (left > 0)
        memcpy(w, at, left);
    uint64_t sum = n;
    for (int i = 0; i < WORDS; i++)
        sum = mix(sum, mix(h[i], w[i]));
    return sum;
}

size_t dti_disk_chunks(const dti_disk_transfer *t)
{
    return (size_t)(t->bytes / DTI_DISK_CHUNK + (t->bytes % DTI_DISK_CHUNK > 0));
}

static bool fits(const void *p, size_t n, const dti_disk_file *f)
{
    return (uintptr_t)p % f->align == 0 && (f->align == 1 || n % DTI_DISK_BLOCK == 0);
}

void dti_disk_chunk_start(dti_disk_chunk *c, const dti_disk_file *f, const dti_disk_transfer *t,
    size_t index, char *bounce)
{
    const uint64_t at = (uint64_t)index * DTI_DISK_CHUNK, left = t->bytes - at;
    *c = (dti_disk_chunk){.index = index, .offset = t->slot + at};
    c->bytes = c->length = left < DTI_DISK_CHUNK ? (size_t)left : DTI_DISK_CHUNK;
    c->from = t->from != NULL ? t->from + at : NULL;
    c->to = t->to != NULL ? t->to + at : NULL;
    if (c->from != NULL && t->sums != NULL)
        t->sums[index * SUMS_APART] = sum_of(c->from, c->bytes);
    if (fits(c->from != NULL ? c->from : c->to, c->bytes, f))
        return;
    c->length = (c->bytes + DTI_DISK_BLOCK - 1) / DTI_DISK_BLOCK * DTI_DISK_BLOCK;
    if (c->from != NULL)
        c->from = memcpy(bounce, c->from, c->bytes);
    else
        c->to = bounce;
}

bool dti_disk_chunk_advance(dti_disk_chunk *c, const dti_disk_file *f, int64_t got)
{
    if (got == -EINTR)
        return false;
    if (got == 0 || (got < 0 && got != -EAGAIN)) {
        c->error = got < 0 ? (int)-got : c->to != NULL ? DTI_DISK_ENDS : ENOSPC;
        return true;
    }
    const size_t before = c->done, moved = got > 0 ? (size_t)got : 0;
    if (moved >= c->length - before) {
        c->done = c->length;
        return true;
    }
    c->done += moved;
    if (f->align > 1) /* go on where a block begins: part of one moves again */
        c->done -= c->done % DTI_DISK_BLOCK;
    if (c->done > before)
        return false;
    if (++c->waits > MOST_WAITS) {
        c->error = got < 0 ? (int)-got : EIO;
        return true;
    }
    dti_disk_nap();
    return false;
}

void dti_disk_chunk_run(dti_disk_chunk *c, const dti_disk_file *f)
{
    int64_t got;
    do {
        const size_t n = c->length - c->done;
        const off_t at = (off_t)(c->offset + c->done);
        got = c->from != NULL ? dt_io->pwrite(f->fd, c->from + c->done, n, at)
                              : dt_io->pread(f->fd, c->to + c->done, n, at);
        got = got < 0 ? -errno : got;
    } while (!dti_disk_chunk_advance(c, f, got));
}

void dti_disk_chunk_finish(dti_disk_chunk *c, const dti_disk_transfer *t)
{
    if (c->error != 0 || c->to == NULL)
        return;
    char *to = t->to + (uint64_t)c->index * DTI_DISK_CHUNK;
    if (c->to != to)
        memcpy(to, c->to, c->bytes);
    if (t->sums != NULL && t->sums[c->index * SUMS_APART] != sum_of(to, c->bytes))
        c->error = DTI_DISK_DIFFERS;
}

void dti_disk_chunk_note(const dti_disk_chunk *c, dti_disk_transfer *t)
{
    if (c->error == 0 || t->error != 0)
        return;
    const size_t done = c->error == DTI_DISK_DIFFERS ? 0 : c->done;
    t->error = c->error;
    t->where = c->offset + done;
    t->length = c->error == DTI_DISK_DIFFERS ? c->bytes : c->length - done;
}
