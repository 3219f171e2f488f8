/* Inside pools: a search for canonical placements below a given height. In a canonical placement
 * each interval lies at 0 or on another: as low as those beneath allow. Whatever fits at all fits
 * canonically, for things can only sink.
 *
 * What is put lies as a skyline over the time, with nothing free beneath it that is still of use. A
 * node of the search takes a valley of it and asks who lies on its ground: one of those that fit
 * there, or nobody, and then the ground rises to where the first of them could come to rest.
 * Valleys with few answers go first, and those in which the search has failed before. Canonical
 * placements, sections and their floors, and parts of the time one by one are MiniMalloc's (Moffitt
 * 2023), choosing by failures is Boussemart and others' (2004). */
#ifndef DT_MEMORY_POOLS_POOL_CANONICAL_H
#define DT_MEMORY_POOLS_POOL_CANONICAL_H

#include "engine/base/error.h"

/* An interval that lives during sections [first, last) of the time and takes need bytes, a multiple
 * of align. */
typedef struct dti_canon_item {
    uint64_t need, align;
    uint32_t first, last;
    uint32_t who; /* the caller's */
} dti_canon_item;

typedef struct dti_canon_numbered {
    dti_canon_item item;
    uint32_t number;
} dti_canon_numbered;

typedef struct dti_canon_undo {
    uint64_t low;
    uint32_t who;
} dti_canon_undo;

typedef struct dti_canon {
    dti_canon_item *item; /* by the caller: of those that fit, earlier ones are tried first */
    size_t n, n_section;
    uint64_t *off; /* the answer, by item */
    /* working space */
    uint64_t *low;  /* an item cannot lie lower than this */
    uint32_t *live; /* items not yet put; each node of the search has a stretch of it, by low */
    uint32_t *twin; /* an earlier item like it that is put first, or itself */
    dti_canon_numbered *by_kind; /* to find twins by */
    uint64_t *total;             /* bytes not yet put, by section */
    uint64_t *floor;             /* where they begin, at least */
    uint64_t *failed;            /* how often the search found that they do not fit */
    int32_t
        *flat; /* how many more lie on the floor all over their lives than in the section before */
    int32_t *cross;   /* how many live both in it and before it */
    uint64_t *open;   /* sections whose floor is not yet known, a bit each */
    uint64_t *ground; /* sections whose floor is as low as the items at hand */
    uint64_t *mixed;  /* sections on whose floor something lies that does not lie flat */
    uint32_t *spare;  /* room for items on their way */
    bool *raised;     /* by item: it lies higher than its place in live says */
    uint32_t *kept;   /* what stretches were before they were changed, the last change last */
    size_t n_kept, cap_kept;
    dti_canon_undo *undo;
    size_t n_undo, cap_undo;
    uint64_t height;
    uint64_t nodes, max_nodes;
    bool cut; /* the search ended before it knew */
    bool no_memory;
} dti_canon;

/* For n items in n_section sections; false when memory runs out. */
bool dti_canon_init(dti_canon *c, size_t n, size_t n_section);
void dti_canon_deinit(dti_canon *c);

/* True: off holds a placement that ends at height or below, which is at most 2^62, as every align
 * is. False: there is none, or max_nodes were looked at without an answer (cut), or memory ran out
 * (cut and no_memory). */
bool dti_canon_search(dti_canon *c, uint64_t height, uint64_t max_nodes);

#endif
