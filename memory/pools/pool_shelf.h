/* Inside pools: intervals that have been placed, in the order of their offsets. They stand on
 * boards of a few each. A board knows in which parts of the whole time something on it lives, so
 * that most boards are passed over by a look at one word. */
#ifndef DT_MEMORY_POOLS_POOL_SHELF_H
#define DT_MEMORY_POOLS_POOL_SHELF_H

#include "memory/pools/pool.h"

enum { DTI_BOARD = 32 }; /* places on a board */

typedef struct dti_placed {
    uint64_t off, end;
    int64_t lower, upper;
} dti_placed;

typedef struct dti_board {
    uint64_t busy;     /* a bit for each part of the time */
    dti_placed *place; /* n of them, by off */
    size_t n;
} dti_board;

typedef struct dti_shelf {
    dti_board *board; /* by off; none is empty */
    size_t n;
    dti_placed *places; /* all boards' */
    int64_t start;      /* the first instant of all intervals */
    unsigned shift;     /* a part of the time is 2^shift instants, and there are at most 64 */
} dti_shelf;

/* For n of the intervals v; false when memory runs out. */
bool dti_shelf_init(dti_shelf *s, const dt_interval *v, size_t n);
/* For n intervals that live during part of [start, last], and perhaps before and after. */
bool dti_shelf_init_during(dti_shelf *s, size_t n, int64_t start, int64_t last);
void dti_shelf_deinit(dti_shelf *s);
void dti_shelf_clear(dti_shelf *s);

/* The lowest offset free during x's life, and how many stand below the neighbour above that decided
 * it, or all. False when x would end beyond 2^64. */
bool dti_shelf_lowest(const dti_shelf *s, const dt_interval *x, uint64_t *off, size_t *below);
/* Those that share an instant with x, one by one, by off. */
typedef struct dti_shelf_walk {
    const dti_shelf *shelf;
    const dti_placed *place; /* of the board looked at */
    uint64_t life;
    size_t board, hit, n_hit; /* the next of each */
    size_t hits[DTI_BOARD];
} dti_shelf_walk;

void dti_shelf_begin(dti_shelf_walk *w, const dti_shelf *s, const dt_interval *x);
/* The next one; NULL when there is none. Adds to *steps what it looked at. */
const dti_placed *dti_shelf_next(dti_shelf_walk *w, const dt_interval *x, int64_t *steps);

void dti_shelf_put(dti_shelf *s, const dt_interval *x, uint64_t off);

#endif
