/* What lowering's two halves share: a program as it is laid out (lower.c), of which tables and rows
 * are made (rows.c). */
#ifndef DT_MEMORY_LOWER_LOWER_INTERNAL_H
#define DT_MEMORY_LOWER_LOWER_INTERNAL_H

#include "memory/lower/lower.h"

/* One live interval of a transient tensor, or a stay of one whose home is a tier: the places of its
 * first and last op. Segments that share bytes by being in place belong to one block, which is what
 * a pool places. */
typedef struct dti_live_segment {
    int32_t tensor, first, last;
    int32_t block;
    int32_t over;  /* segment whose bytes it takes, or -1 */
    int32_t under; /* segment that takes its bytes, or -1 */
    int32_t home;  /* place of the op behind which it is copied home, or -1 */
    bool fetch;    /* it is copied in from home */
} dti_live_segment;

/* Room in a tier, from the copy out to the end of the copy back. */
typedef struct dti_tier_slot {
    dt_interval at;
    dt_tier tier;
    bool free; /* to go to whichever tier has room */
} dti_tier_slot;

typedef struct dti_lowering {
    dt_program *p;
    const dt_lower_opts *o;
    uint64_t ahead[DT_TIERS];
    const dt_pool_desc *pool; /* of the two in @o, known with the plan's bound */
    size_t n_segment, n_block, n_slot;
    dti_live_segment *segment; /* by tensor, then by place */
    int32_t *first;            /* by tensor: its first segment; n_tensor + 1 of them */
    dt_interval *block;        /* then one interval a group */
    dti_tier_slot *slot;       /* by IN op, in order */
    int32_t *slot_of;          /* by op, OUT and IN: index into slot, or -1 */
    dt_plan *plan;
    dt_reasons reasons; /* of the plan's rows, in the order in which they first give them */
} dti_lowering;

/* The segment of a tensor that is alive at a place; -1 for those at home on the device. */
int32_t dti_segment_at(const dti_lowering *l, int32_t tensor, int32_t pos);
/* Where a segment lies in the arena. */
uint64_t dti_segment_off(const dti_lowering *l, int32_t segment);

/* Tables and rows; of WAITs only those that the program asks for. DT_E_NOMEM, and what the program
 * has no kernel for. */
dt_status dti_lower_rows(dti_lowering *l, dt_err *err) DT_NODISCARD;

#endif
