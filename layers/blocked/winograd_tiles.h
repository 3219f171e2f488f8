/* What Winograd's convolutions and their gradients share. */
#ifndef DT_LAYERS_BLOCKED_WINOGRAD_TILES_H
#define DT_LAYERS_BLOCKED_WINOGRAD_TILES_H

#include "layers/cpu/team.h"
#include "layers/blocked/tile.h"
#include "layers/blocked/winograd.h"
#include "layers/blocked/winograd_transforms.h"

/* PANEL columns of a product at a time, of which DEPTH rows fit the first cache. TILES of a task,
 * whose transforms fit the second. Streams of floats are kept PAD apart from powers of two, so
 * that they do not meet in one set of a cache. */
enum { PANEL = 64, DEPTH = 128, TILES = 64, PAD = 16, TAPS = 16, SUM_TAP = 5 };

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tiles in columns, rows, and all samples. */
static inline int64_t across(const dt_winograd *s)
{
    return dt_ceil_div(s->q, 2);
}

static inline int64_t tiles(const dt_winograd *s)
{
    return s->n * dt_ceil_div(s->p, 2) * across(s);
}

/* A matrix for each tap, with @rows rows: panel by panel, in it tap by tap. @at is a panel's first
 * column. */
static inline int64_t tap_step(int64_t rows, int64_t width)
{
    return rows * width + PAD;
}

static inline int64_t panel_at(int64_t rows, int64_t at)
{
    return TAPS * (rows * at + at / PANEL * PAD);
}

static inline int64_t panels_room(int64_t rows, int64_t columns)
{
    return panel_at(rows, columns) + (columns % PANEL > 0 ? TAPS * PAD : 0);
}

static inline int64_t width_at(int64_t columns, int64_t at)
{
    return least(PANEL, columns - at);
}

/* Floats from one tap to the next of @each transformed tiles. */
static inline int64_t pixels_step(const dt_winograd *s, int64_t each)
{
    return each * (s->c + PAD);
}

/* One call, as its tasks see it. */
typedef struct dti_winograd_call {
    const dt_winograd *s;
    const dti_transforms *on;
    dt_tile_fn *tile;
    const float *x, *u, *bias, *dy;
    float *y, *work;
    int64_t each, room; /* tiles of a task; floats of scratch it has */
    bool bias_too;
} dti_winograd_call;

dti_winograd_call dti_winograd_new(const dt_winograd *s, float *work);

/* c = a b of one tap and panel, or that added; a has @t's rows and @depth columns. */
void dti_winograd_multiply(dt_tile t, dt_tile_fn *tile, int64_t depth);

/* Numbers of the first of a tile's 2 x 2 results and the others, -1 for those outside. */
void dti_winograd_results(const dt_winograd *s, int64_t tile, int64_t at[4]);

/* The transformed pixels of some tiles: a row a tile. @zero: c zeros */
void dti_winograd_pixels(
    const dti_winograd_call *j, dt_span of, const float *zero, float *to, int64_t step);

#endif
