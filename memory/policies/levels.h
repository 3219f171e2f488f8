/* What policies share that swap by levels of the graph, tflms and meng: an op's level is the number
 * of ops on the longest path to it, so how far a reader is behind the op that made its value is
 * told without seconds and bytes a second. */
#ifndef DT_MEMORY_POLICIES_LEVELS_H
#define DT_MEMORY_POLICIES_LEVELS_H

#include "memory/pass.h"

/* @level: by op, of n levels; @critical: by op, one whose result it reads and whose level is one
 * less, or DT_NONE; @jump: by op, one that is reached over critical ops, farther back where the
 * level is a rounder number in Myers' skew binary system (1983), or itself; @higher: by place, the
 * next one with a higher level */
typedef struct dti_levels {
    int32_t *level, *critical, *jump, *higher, n;
} dti_levels;

/* The program's index must be fresh; release *l in any case. */
dt_status dti_levels_find(dti_levels *l, const dt_program *p, dt_err *err) DT_NODISCARD;
void dti_levels_release(dti_levels *l);

/* From an op over critical ones: the first that stands at @place or before it, or is @steps levels
 * back; DT_NONE where there is none. */
int32_t dti_levels_back(
    const dti_levels *l, const dt_program *p, int32_t op, int64_t steps, int32_t place);
/* The first place from @place on whose op has that level or a higher one; at most @end. */
int32_t dti_levels_reach(
    const dti_levels *l, const dt_program *p, int32_t place, int32_t level, int32_t end);

/* Levels between a gap's reader and the op that made the value that it reads. */
int32_t dti_levels_behind(const dti_levels *l, const dt_program *p, const dti_gap *g);

/* A swap of a gap.
 * @release @fetch: ops, DT_NONE as of dti_offload
 * @far:   levels between the value's maker and the reader
 * @ahead: levels between the trigger, the op behind which the value comes back, and the reader */
typedef struct dti_level_swap {
    dti_gap gap;
    int32_t release, fetch;
    int far, ahead;
} dti_level_swap;

/* Room for as many as the program has accesses. NULL: no memory. */
dti_level_swap *dti_level_swaps_room(const dt_program *p);

/* Makes the swaps in @p, which may be a copy of the program in which they were found. */
dt_status dti_level_swaps_make(
    dt_program *p, const dti_level_swap *swap, size_t n, dt_err *err) DT_NODISCARD;

#endif
