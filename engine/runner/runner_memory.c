/* Bytes of the arena, in the processor's memory or in that of a device which works on its own. */
#include <string.h>

#include "engine/runner/runner_parts.h"

enum { CHUNK = 4 << 20 };

dt_status dti_read(dt_runner *r, void *to, uint64_t off, uint64_t bytes, dt_err *err)
{
    const dt_driver *d = r->o.driver;
    if (d == NULL) {
        memcpy(to, r->arena.base + off, bytes);
        return DT_OK;
    }
    DT_CHECK(d->copy(r->device.self, DT_STREAM_COMPUTE, to, r->arena.base + off, bytes, err));
    return d->finish_queue(r->device.self, DT_STREAM_COMPUTE, err);
}

dt_status dti_write(dt_runner *r, uint64_t off, const void *from, uint64_t bytes, dt_err *err)
{
    const dt_driver *d = r->o.driver;
    if (d == NULL) {
        memcpy(r->arena.base + off, from, bytes);
        return DT_OK;
    }
    DT_CHECK(d->copy(r->device.self, DT_STREAM_COMPUTE, r->arena.base + off, from, bytes, err));
    return d->finish_queue(r->device.self, DT_STREAM_COMPUTE, err);
}

dt_status dti_fill(dt_runner *r, uint64_t off, int byte, uint64_t bytes, dt_err *err)
{
    const dt_driver *d = r->o.driver;
    unsigned char *to = r->arena.base + off;
    if (d != NULL) {
        DT_CHECK(d->fill(r->device.self, DT_STREAM_COMPUTE, to, byte, bytes, err));
        return d->finish_queue(r->device.self, DT_STREAM_COMPUTE, err);
    }
    /* By the whole team: this is where the pages of the arena are first touched. */
    const long chunks = (long)((bytes + CHUNK - 1) / CHUNK);
#pragma omp parallel for schedule(static) if (chunks > 1)
    for (long i = 0; i < chunks; i++) {
        const uint64_t at = (uint64_t)i * CHUNK;
        memset(to + at, byte, bytes - at < CHUNK ? bytes - at : CHUNK);
    }
    return DT_OK;
}

/* All bytes equal their neighbours, and the first is the one. */
dt_status dti_holds(dt_runner *r, uint64_t off, int byte, uint64_t bytes, bool *yes, dt_err *err)
{
    const dt_driver *d = r->o.driver;
    const unsigned char *p = r->arena.base + off;
    *yes = true;
    if (bytes == 0)
        return DT_OK;
    if (d != NULL)
        return d->holds(r->device.self, p, bytes, byte, yes, err);
    *yes = p[0] == byte && memcmp(p, p + 1, bytes - 1) == 0;
    return DT_OK;
}
