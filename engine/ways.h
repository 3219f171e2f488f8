/* The ways in which a device can compute an op: several, where the faster one takes more bytes.
 * Which one is taken is a fact of the graph, as precision is, fixed before any program is built: a
 * node holds the room that its ops' ways may take (dt_node.room), and each op takes the fastest
 * within it. So every program, clone and policy of a run computes the same bits. */
#ifndef DT_ENGINE_WAYS_H
#define DT_ENGINE_WAYS_H

#include <stddef.h>

#include "engine/layer.h"

enum { DT_MAX_WAYS = 8, DT_IMPL_BYTES = 48 };

/* A direction's room is in bytes; these two are not. */
enum { DT_ROOM_ANY = 0, DT_ROOM_LEAST = 1 };

/**
 * struct dt_ways - the ways of an op, the fastest first, as the device expects; each takes fewer
 * bytes than the one before it.
 * @n:     0: there is no choice
 * @impl:  the library's name
 * @bytes: all that lives only for it, while the op runs: scratch, and the weight or its gradient
 * in another layout
 */
typedef struct dt_ways {
    int n;
    struct {
        char impl[DT_IMPL_BYTES];
        size_t bytes;
    } way[DT_MAX_WAYS];
} dt_ways;

/* Add a way that is slower than all before it; one that takes no fewer bytes is left out. When the
 * table is full, it takes the last one's place. */
void dt_ways_add(dt_ways *w, const char *impl, size_t bytes);

/* The fastest way within @room, or the one of the fewest bytes when none is; w->n > 0. */
int dt_ways_within(const dt_ways *w, size_t room);

/* Forward, backward, second backward: which room an op of this form goes by. Ops that make the
 * weight's layouts go with those that read them. */
int dt_form_room(dt_form_kind form);
/* The form that stands for all of a room. */
dt_form_kind dt_room_form(int room);

#endif
