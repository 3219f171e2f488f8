/* One block of device memory, ending right before a page that may not be touched. */
#ifndef DT_ENGINE_RUNNER_ARENA_H
#define DT_ENGINE_RUNNER_ARENA_H

#include "engine/base/error.h"

typedef struct dt_arena {
    unsigned char *base; /* aligned to DT_ALIGN */
    size_t bytes;
    void *map; /* what was mapped: base lies inside */
    size_t map_bytes;
} dt_arena;

/* DT_E_NOMEM, with the bytes asked for, when the machine refuses. */
dt_status dt_arena_reserve(dt_arena *a, size_t bytes, dt_err *err) DT_NODISCARD;
void dt_arena_release(dt_arena *a); /* a zeroed arena is fine */

#endif
