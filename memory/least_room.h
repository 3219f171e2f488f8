/* Bytes of the device below which no plan of a program fits. */
#ifndef DT_MEMORY_LEAST_ROOM_H
#define DT_MEMORY_LEAST_ROOM_H

#include "engine/program/program.h"

/* Whatever a policy keeps, moves, packs, makes again or runs in pieces: a layer's op needs all that
 * it reads and writes at once. Of that not counted is what other choices do without, or with less:
 * scratch, statistics, masks, values of which backward may read others instead, and an output that
 * may lie over an input. Updates are left out, which may be made in parts, or on the host. *op: the
 * one that needs the most; DT_NONE: there is none, and the bytes are 0. */
uint64_t dt_least_room(const dt_program *p, int32_t *op);

#endif
