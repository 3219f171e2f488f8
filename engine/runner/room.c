#include "engine/runner/room.h"

#include "engine/base/alloc.h"
#include "engine/runner/runner_parts.h"

dt_status dti_room_take(dti_room *to, dt_runner *r, size_t count, dt_err *err)
{
    const uint64_t from = (r->o.map->bytes + DT_ALIGN - 1) / DT_ALIGN * DT_ALIGN;
    size_t bytes;
    *to = (dti_room){0};
    if (r->o.driver == NULL && dt_mul_bytes(count, sizeof *to->p, &bytes) &&
        from <= r->arena.bytes && bytes <= r->arena.bytes - from) {
        to->p = (float *)(void *)(r->arena.base + from);
        return DT_OK;
    }
    to->owned = true;
    to->p = dt_alloc(count, sizeof *to->p);
    if (to->p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a weight of %zu values", count);
    return DT_OK;
}

void dti_room_give(dti_room *room)
{
    if (room->owned)
        dt_free(room->p);
    *room = (dti_room){0};
}
