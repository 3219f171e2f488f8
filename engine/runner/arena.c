#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */

#include "engine/runner/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, HUGE_PAGE = 2 << 20 };

dt_status dt_arena_reserve(dt_arena *a, size_t bytes, dt_err *err)
{
    memset(a, 0, sizeof *a);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2)
        return DT_FAIL(err, DT_E_NOMEM, "an arena of %zu bytes is beyond any machine", bytes);
    const size_t body = (bytes + page - 1) / page * page;
    void *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return DT_FAIL(
            err, DT_E_NOMEM, "reserve %zu bytes for the arena: %s", bytes, strerror(errno));
    unsigned char *end = (unsigned char *)map + body;
    if (mprotect(end, page, PROT_NONE) != 0) {
        munmap(map, body + page);
        return DT_FAIL(err, DT_E_NOMEM, "guard the arena: %s", strerror(errno));
    }
    if (body >= HUGE_PAGE)
        (void)madvise(map, body, MADV_HUGEPAGE); /* fewer page faults; no harm if refused */
    a->map = map;
    a->map_bytes = body + page;
    a->bytes = bytes;
    a->base = end - (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return DT_OK;
}

void dt_arena_release(dt_arena *a)
{
    if (a->map != NULL)
        munmap(a->map, a->map_bytes);
    memset(a, 0, sizeof *a);
}
