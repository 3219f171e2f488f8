/* A file on a disk. Its bytes are there before the first step, it has no name, so that nothing is
 * left whatever ends the run, and it is read and written past the page cache where that can be. */
#include "memory/tiers/disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool.h"
#include "memory/tier.h"

static void run(dti_disk_lane *l, dti_disk_transfer *t)
{
    if (l->ring != NULL)
        dti_disk_uring_run(l, t);
    else
        dti_disk_team_run(l, t);
}

static bool has_direct(const dti_disk *d)
{
    return d->file.align > 1;
}

/* One block each way: kernels refuse rings in many places and ways, some only when they are used.
 */
static int try_ring(dti_disk_lane *l, dti_disk_transfer t)
{
    const int error = dt_uring_io->open(&l->ring, l->file->fd, DTI_DISK_DEPTH);
    if (error != 0)
        return -error;
    dti_disk_uring_run(l, &t);
    return l->ring_fails ? EIO : t.error < 0 ? EIO : t.error;
}

static void close_ring(dti_disk_lane *l)
{
    if (l->ring != NULL)
        dt_uring_io->close(l->ring);
    l->ring = NULL;
    l->ring_fails = false;
}

static int open_rings(dti_disk *d)
{
    char block[DTI_DISK_BLOCK] = {0};
    int error = try_ring(&d->out, (dti_disk_transfer){.from = block, .bytes = sizeof block});
    if (error == 0)
        error = try_ring(&d->in, (dti_disk_transfer){.to = block, .bytes = sizeof block});
    if (error != 0) {
        close_ring(&d->out);
        close_ring(&d->in);
    }
    return error;
}

static void add_note(dti_disk *d, const char *what, const char *reason)
{
    const size_t n = strlen(d->note);
    snprintf(d->note + n, sizeof d->note - n, "%s%s%s", n > 0 ? "; " : "", what, reason);
}

/* The page cache is filled and emptied by copying, which threads do at once and a ring in turn. */
static dt_status open_lanes(dti_disk *d, dti_disk_way way, dt_err *err)
{
    if (way == DTI_DISK_URING || (way == DTI_DISK_AUTO && has_direct(d))) {
        const int error = open_rings(d);
        if (error == 0)
            return DT_OK;
        add_note(d, "threads move the disk tier's bytes, for want of io_uring: ", strerror(error));
    }
    const int helpers = way == DTI_DISK_ALONE ? 0 : DTI_DISK_HELPERS;
    if (!dti_disk_team_open(&d->out, helpers) || !dti_disk_team_open(&d->in, helpers))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the disk tier's threads");
    return DT_OK;
}

static dt_status take_memory(dti_disk *d, bool checksum, dt_err *err)
{
    const size_t lane = (size_t)DTI_DISK_DEPTH * DTI_DISK_CHUNK;
    const size_t bounce = has_direct(d) ? 2 * lane + DTI_DISK_BLOCK : 0;
    const size_t sums = checksum ? d->file.bytes / DTI_DISK_BLOCK : 0;
    if (bounce > 0) {
        d->memory = dt_alloc(bounce, 1);
        if (d->memory == NULL)
            return DT_FAIL(err, DT_E_NOMEM, "no memory for the disk tier's buffers");
        char *p = d->memory;
        p += DTI_DISK_BLOCK - (uintptr_t)p % DTI_DISK_BLOCK;
        d->out.bounce = p;
        d->in.bounce = p + lane;
    }
    if (sums > 0) {
        d->sums = dt_alloc(sums, sizeof *d->sums);
        if (d->sums == NULL)
            return DT_FAIL(err, DT_E_NOMEM, "no memory for the disk tier's checksums");
    }
    d->staging = bounce + sums * sizeof *d->sums;
    return DT_OK;
}

static void disk_release(void *state)
{
    dti_disk *d = state;
    if (d == NULL)
        return;
    dti_disk_lane *const lanes[] = {&d->out, &d->in};
    for (size_t i = 0; i < DT_COUNT(lanes); i++) {
        close_ring(lanes[i]);
        dti_disk_team_close(lanes[i]);
    }
    dti_disk_file_close(&d->file);
    dt_free(d->memory);
    dt_free(d->sums);
    dt_free(d);
}

dt_status dti_disk_reserve(
    const dt_tier_opts *o, dti_disk_way way, void **state, const char **note, dt_err *err)
{
    *state = NULL;
    *note = NULL;
    if (o->path == NULL || *o->path == '\0')
        return DT_FAIL(err, DT_E_CONFIG, "the disk tier needs a folder: set memory.disk_path");
    dti_disk *d = dt_alloc(1, sizeof *d);
    if (d == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the disk tier");
    d->out.file = d->in.file = &d->file;
    uint64_t bytes;
    if (!dt_round_up(o->bytes > 0 ? o->bytes : 1, DTI_DISK_BLOCK, &bytes))
        bytes = UINT64_MAX; /* no file is that large, and opening it says so */
    const char *why = NULL;
    dt_status st = dti_disk_file_open(&d->file, o->path, bytes, &why, err);
    if (why != NULL)
        add_note(d, why, "");
    if (st == DT_OK)
        st = take_memory(d, o->checksum, err);
    if (st == DT_OK)
        st = open_lanes(d, way, err);
    if (st != DT_OK) {
        disk_release(d);
        return st;
    }
    *state = d;
    *note = d->note[0] != '\0' ? d->note : NULL;
    return DT_OK;
}

static dt_status disk_reserve(const dt_tier_opts *o, void **state, const char **note, dt_err *err)
{
    return dti_disk_reserve(o, DTI_DISK_AUTO, state, note, err);
}

static size_t disk_staging(void *state)
{
    return ((dti_disk *)state)->staging;
}

static void *disk_map(void *state)
{
    (void)state;
    return NULL;
}

static dt_status failure(const dti_disk *d, const dti_disk_transfer *t, dt_err *err)
{
    const char *verb = t->from != NULL ? "write" : "read", *folder = d->file.folder;
    if (t->error == DTI_DISK_DIFFERS)
        return DT_FAIL(err, DT_E_IO,
            "checksum of bytes %" PRIu64 "..%" PRIu64
            " of the disk tier differs: '%s' does not give back what was "
            "written; " DTI_DISK_ELSEWHERE,
            t->where, t->where + t->length - 1, folder);
    return DT_FAIL(err, DT_E_IO,
        "%s %zu bytes at byte %" PRIu64 " of the disk tier's file in '%s': %s; " DTI_DISK_ELSEWHERE,
        verb, t->length, t->where, folder,
        t->error == DTI_DISK_ENDS ? "the file ends there" : strerror(t->error));
}

static dt_status move(dti_disk *d, dti_disk_lane *l, dti_disk_transfer t, dt_err *err)
{
    if (t.slot % DTI_DISK_BLOCK != 0 || t.slot > d->file.bytes || t.bytes > d->file.bytes - t.slot)
        return DT_FAIL(err, DT_E_INTERNAL,
            "slot %" PRIu64 " of %" PRIu64 " bytes is not one of the disk tier", t.slot, t.bytes);
    if (d->sums != NULL)
        t.sums = d->sums + t.slot / DTI_DISK_BLOCK;
    run(l, &t);
    return t.error == 0 ? DT_OK : failure(d, &t, err);
}

static dt_status disk_write(
    void *state, uint64_t slot, const void *from, uint64_t bytes, dt_err *err)
{
    dti_disk *d = state;
    return move(d, &d->out, (dti_disk_transfer){.from = from, .slot = slot, .bytes = bytes}, err);
}

static dt_status disk_read(void *state, uint64_t slot, void *to, uint64_t bytes, dt_err *err)
{
    dti_disk *d = state;
    return move(d, &d->in, (dti_disk_transfer){.to = to, .slot = slot, .bytes = bytes}, err);
}

const dt_tier_desc dt_tier_disk = {
    .name = "disk",
    .summary = "a file on a disk, written and read beside the computing",
    .place = DT_TIER_DISK,
    .reserve = disk_reserve,
    .release = disk_release,
    .staging = disk_staging,
    .map = disk_map,
    .write = disk_write,
    .read = disk_read,
};
