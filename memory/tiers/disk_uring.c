/* The disk tier by io_uring. */
#include "memory/tiers/disk.h"

/* False: it did not go under way. A ring that fails is not asked again: the caller's thread moves
 * this chunk and all later ones, since the ring's trouble need not be the file's. */
static bool submit(dti_disk_lane *l, const dti_disk_chunk *c, unsigned tag)
{
    const char *from = c->from != NULL ? c->from + c->done : NULL;
    char *to = c->to != NULL ? c->to + c->done : NULL;
    if (!l->ring_fails)
        l->ring_fails = dt_uring_io->submit(l->ring, from, to, (unsigned)(c->length - c->done),
                            c->offset + c->done, tag) != 0;
    return !l->ring_fails;
}

static void end(dti_disk_chunk *c, dti_disk_transfer *t)
{
    dti_disk_chunk_finish(c, t);
    dti_disk_chunk_note(c, t);
}

/* While a chunk is under way its bytes are the kernel's, so there is no giving up. */
static unsigned wait_for_one(dti_disk_lane *l, int *got)
{
    unsigned tag;
    while (dt_uring_io->wait(l->ring, &tag, got) != 0)
        dti_disk_nap();
    return tag;
}

void dti_disk_uring_run(dti_disk_lane *l, dti_disk_transfer *t)
{
    dti_disk_chunk chunk[DTI_DISK_DEPTH];
    unsigned idle[DTI_DISK_DEPTH], idles = 0;
    for (unsigned i = 0; i < DTI_DISK_DEPTH; i++)
        idle[idles++] = i;
    const size_t chunks = dti_disk_chunks(t);
    for (size_t next = 0;;) {
        while (next < chunks && t->error == 0 && idles > 0) {
            const unsigned tag = idle[idles - 1];
            dti_disk_chunk *c = &chunk[tag];
            char *bounce = l->bounce != NULL ? l->bounce + (size_t)tag * DTI_DISK_CHUNK : NULL;
            dti_disk_chunk_start(c, l->file, t, next++, bounce);
            if (submit(l, c, tag)) {
                idles--;
                continue;
            }
            dti_disk_chunk_run(c, l->file);
            end(c, t);
        }
        if (idles == DTI_DISK_DEPTH)
            return;
        int got;
        const unsigned tag = wait_for_one(l, &got);
        dti_disk_chunk *c = &chunk[tag];
        if (!dti_disk_chunk_advance(c, l->file, got)) {
            if (submit(l, c, tag))
                continue;
            dti_disk_chunk_run(c, l->file);
        }
        idle[idles++] = tag;
        end(c, t);
    }
}
