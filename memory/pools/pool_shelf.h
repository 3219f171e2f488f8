/* Inside pools: intervals that have been placed, in the order of their offsets. They stand on
 * boards of a few each. A board knows in which parts of the whole time something on it lives, so
 * that most boards are passed over by a look at one word. */
#ifndef DT_MEMORY_POOLS_POOL_SHELF_H
#define DT_MEMORY_POOLS_POOL_SHELF_H

#include "memory/pools/pool.h"

enum { DTI_BOARD = 32 }; /* places on a board */

typedef struct dti_placed {
    uint64_t off, end;
} dti_placed;

/* When it lives: apart, as it is seldom looked at. */
typedef struct dti_lived {
    int64_t lower, upper;
} dti_lived;

/* Of each place of a board the first and the last tick of its life. Ticks are so few that they fit
 * 16 bits, which compilers look at many at once; places that share no tick share no instant. Where
 * there is no place, nothing is shared. */
typedef struct dti_ticks {
    int16_t first[DTI_BOARD], last[DTI_BOARD];
} dti_ticks;

typedef struct dti_board {
    uint64_t busy;     /* a bit for each part of the time */
    uint64_t off;      /* the lowest */
    uint64_t end, gap; /* the highest end; the largest room between two that no other covers */
    bool known;        /* whether these two are right */
    dti_placed *place; /* n of them, by off */
    dti_lived *lived;  /* likewise */
    dti_ticks *ticks;
    size_t n;
} dti_board;

typedef struct dti_shelf {
    dti_board *board; /* by off; none is empty */
    size_t n;
    dti_placed *places; /* all boards' */
    dti_lived *lived;   /* likewise */
    dti_ticks *ticks;
    int64_t start;  /* the first instant of all intervals */
    unsigned shift; /* a part of the time is 2^shift instants, and there are at most 64 */
    unsigned tick;  /* and a tick 2^tick; 0: those that share a tick share an instant */
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
/* An interval that others are held against, with the parts of the time and the ticks that it
 * touches. */
typedef struct dti_life {
    const dt_interval *x;
    uint64_t parts;
    int16_t first, last;
} dti_life;

/* Those that share an instant with x, one by one, by off. */
typedef struct dti_shelf_walk {
    const dti_shelf *shelf;
    const dti_placed *place; /* of the board looked at */
    dti_life life;
    size_t board;   /* the next */
    uint32_t found; /* of the board looked at: those to come, a bit each */
} dti_shelf_walk;

/* @x is borrowed until the walk ends. */
void dti_shelf_begin(dti_shelf_walk *w, const dti_shelf *s, const dt_interval *x);
/* The next one; NULL when there is none. Adds to *steps what it looked at. */
const dti_placed *dti_shelf_next(dti_shelf_walk *w, int64_t *steps);
/* Go on to one that begins so many bytes or more above *off, or to the end, and raise *off above
 * all that are passed; false beyond 2^64. */
bool dti_shelf_pass(dti_shelf_walk *w, uint64_t need, uint64_t *off, int64_t *steps);

void dti_shelf_put(dti_shelf *s, const dt_interval *x, uint64_t off);

#endif
