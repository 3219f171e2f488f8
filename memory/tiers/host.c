/* Host memory: one block of pages, which the processor copies into and out of by itself. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/alloc.h"
#include "memory/tier.h"

enum { HUGE_PAGE = 2 << 20 };

typedef struct host {
    char *map;
    size_t bytes;
} host;

static dt_status host_reserve(const dt_tier_opts *o, void **state, const char **note, dt_err *err)
{
    *state = NULL;
    *note = NULL;
    host *h = dt_alloc(1, sizeof *h);
    if (h == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the host tier");
    h->bytes = o->bytes > 0 ? o->bytes : 1;
    void *map = mmap(NULL, h->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        dt_free(h);
        return DT_FAIL(err, DT_E_NOMEM,
            "no memory for the host tier's %.3f GiB: %s; take a smaller batch or memory.tier = "
            "disk",
            (double)o->bytes / (double)(1 << 30), strerror(errno));
    }
    if (h->bytes >= HUGE_PAGE)
        (void)madvise(map, h->bytes, MADV_HUGEPAGE); /* fewer page faults; no harm if refused */
    h->map = map;
    *state = h;
    return DT_OK;
}

static void host_release(void *state)
{
    host *h = state;
    if (h == NULL)
        return;
    (void)munmap(h->map, h->bytes);
    dt_free(h);
}

static size_t host_staging(void *state)
{
    (void)state;
    return 0;
}

static void *host_map(void *state)
{
    return ((host *)state)->map;
}

static dt_status inside(const host *h, uint64_t slot, uint64_t bytes, dt_err *err)
{
    if (slot > h->bytes || bytes > h->bytes - slot)
        return DT_FAIL(err, DT_E_INTERNAL,
            "slot %" PRIu64 " of %" PRIu64 " bytes ends past the host tier", slot, bytes);
    return DT_OK;
}

static dt_status host_write(
    void *state, uint64_t slot, const void *from, uint64_t bytes, dt_err *err)
{
    host *h = state;
    DT_CHECK(inside(h, slot, bytes, err));
    if (bytes > 0)
        memcpy(h->map + slot, from, bytes);
    return DT_OK;
}

static dt_status host_read(void *state, uint64_t slot, void *to, uint64_t bytes, dt_err *err)
{
    const host *h = state;
    DT_CHECK(inside(h, slot, bytes, err));
    if (bytes > 0)
        memcpy(to, h->map + slot, bytes);
    return DT_OK;
}

const dt_tier_desc dt_tier_host = {
    .name = "host",
    .summary = "memory beside the arena",
    .place = DT_TIER_HOST,
    .reserve = host_reserve,
    .release = host_release,
    .staging = host_staging,
    .map = host_map,
    .write = host_write,
    .read = host_read,
};
