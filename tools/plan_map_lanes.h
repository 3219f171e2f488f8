/* The part of a plan's picture below its addresses, and the plan that both draw. */
#ifndef DT_TOOLS_PLAN_MAP_LANES_H
#define DT_TOOLS_PLAN_MAP_LANES_H

#include "memory/usage.h"
#include "tools/plan_map_box.h"

/* A row of a lane; the ops before it, and those before it is waited for. */
typedef struct dti_map_mark {
    size_t row;
    int64_t now, until;
    uint64_t bytes;
} dti_map_mark;

/**
 * struct dti_map - a plan that is being drawn.
 * @page:   boxes bear numbers in place of names
 * @top:    where its addresses begin; @tall: how far they go
 * @scale:  so many bytes are @tall
 * @ops @turn @peak: ops in all, before backward (all, without one) and before the peak (-1: none)
 * @largest: bytes of a copy
 * @budget: 0: none
 * @since @off: by tensor, at which op and where it was placed; -1: it is not
 * @mark:   room for all rows
 * @waited: room for all events
 */
typedef struct dti_map {
    const dt_plan *p;
    FILE *f;
    bool page;
    double top, tall;
    uint64_t scale, largest, budget;
    int64_t ops, turn, peak;
    int64_t *since;
    uint64_t *off;
    dti_map_mark *mark;
    int64_t *waited;
} dti_map;

static inline double dti_map_across(const dti_map *m, double op)
{
    return DTI_MAP_LEFT + (DTI_MAP_WIDTH - DTI_MAP_LEFT - DTI_MAP_RIGHT) * op / (double)m->ops;
}

static inline bool dti_map_is_copy(const dt_row *r)
{
    return r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
}

/* Below the addresses: stages of the network, and a lane for each stream, of its ops or of what it
 * copies, in which a copy is as tall as it has bytes. How tall all of it is. */
double dti_map_lanes_tall(const dti_map *m);
void dti_map_lanes(const dti_map *m, double y);

#endif
