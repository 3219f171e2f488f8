/* Inside lowering: what its steps hand on. */
#ifndef DT_MEMORY_LOWER_LOWERING_H
#define DT_MEMORY_LOWER_LOWERING_H

#include "memory/lower/lower.h"

/* One live interval of a transient tensor: the places of its first and last op. Segments that share
 * bytes by being in place belong to one block, which is what a pool places. */
typedef struct dti_segment {
    int32_t tensor, first, last;
    int32_t block;
    int32_t over;  /* segment whose bytes it takes, or -1 */
    int32_t under; /* segment that takes its bytes, or -1 */
} dti_segment;

/* Room in a tier, from the copy out to the end of the copy back. */
typedef struct dti_slot {
    dt_interval at;
    dt_tier tier;
    bool free; /* to go to whichever tier has room */
} dti_slot;

typedef struct dti_lowering {
    dt_program *p;
    const dt_lower_opts *o;
    size_t n_segment, n_block, n_slot;
    dti_segment *segment; /* by tensor, then by place */
    int32_t *first;       /* by tensor: its first segment; n_tensor + 1 of them */
    dt_interval *block;   /* then one interval a slot */
    dti_slot *slot;       /* by IN op, in order */
    int32_t *slot_of;     /* by op, OUT and IN: index into slot, or -1 */
    dt_plan *plan;
    dt_reasons reasons; /* of the plan's rows, in the order in which they first give them */
} dti_lowering;

/* Live intervals, and who takes whose bytes. */
dt_status dti_segments(dti_lowering *l, dt_err *err);
/* What is to be placed in the arena. */
dt_status dti_blocks(dti_lowering *l, dt_err *err);
/* Addresses there. */
dt_status dti_place(dti_lowering *l, dt_err *err);
/* Which copies go to which tier, and addresses there. */
dt_status dti_tiers(dti_lowering *l, dt_err *err);
/* Tables and rows, without WAIT. */
dt_status dti_lower_rows(dti_lowering *l, dt_err *err);
/* WAIT rows and events, as few as order needs. */
dt_status dti_sync(dt_plan *p, dt_err *err);

/* The segment of a tensor that is alive at a place; -1 for persistent tensors. */
int32_t dti_segment_at(const dti_lowering *l, int32_t tensor, int32_t pos);
uint64_t dti_segment_off(const dti_lowering *l, int32_t segment); /* in the arena */

#endif
