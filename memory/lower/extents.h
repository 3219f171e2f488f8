/* Extents of bytes of one memory, each with what used it last: an ordered list in blocks, as one of
 * thousands, from whose middle extents come and go row after row, moves in every change. */
#ifndef DT_MEMORY_LOWER_EXTENTS_H
#define DT_MEMORY_LOWER_EXTENTS_H

#include "engine/plan.h"

/* Works of each stream, counted from its first one on. */
typedef struct dti_clock {
    int32_t done[DT_MAX_STREAMS];
} dti_clock;

/* The later of both, stream by stream. */
static inline void dti_clock_join(dti_clock *a, const dti_clock *b)
{
    for (int s = 0; s < DT_MAX_STREAMS; s++)
        a->done[s] = b->done[s] > a->done[s] ? b->done[s] : a->done[s];
}

/* @last: works, by stream, that read or wrote these bytes */
typedef struct dti_extent {
    uint64_t from, to;
    dti_clock last;
} dti_extent;

struct dti_extent_block;

/* Apart from each other, the lowest first; no block is empty. All zero: none. */
typedef struct dti_extents {
    struct dti_extent_block **block;
    size_t n, cap;
} dti_extents;

void dti_extents_close(dti_extents *r);

/* Join what used any of these bytes to @need. */
void dti_extents_over(const dti_extents *r, uint64_t from, uint64_t to, dti_clock *need);

/* Add an extent, and to its works those of the older ones that it lies over, whose bytes it takes:
 * its first use has waited for them, so whoever waits for it knows of them. So few are looked at,
 * however many there were. False: no memory, and what is there must not be relied on. */
bool dti_extents_add(dti_extents *r, dti_extent x) DT_NODISCARD;

#endif
