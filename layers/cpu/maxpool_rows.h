/* Max-pool's arithmetic on the channels of one window or pixel, for each type of values. A position
 * is its number in the window, row by row; while windows are worked on it is kept as bf16, which
 * holds whole numbers up to 256. */
#ifndef DT_LAYERS_CPU_MAXPOOL_ROWS_H
#define DT_LAYERS_CPU_MAXPOOL_ROWS_H

#include "engine/dtype.h"

/* The part of a window that lies in the input, and the number of its first position. */
typedef struct dti_window {
    const void *x;      /* its first pixel */
    int64_t row, pixel; /* elements from one to the next */
    int h, w;           /* both at least 1 */
    int first, per_row; /* number of the first position; from one row to the next */
} dti_window;

/* The windows that reach a pixel. Going down a window its number is smaller by per_row, going right
 * by per_window. */
typedef struct dti_reach {
    const dt_bf16 *at;         /* positions of the first window's maxima */
    int64_t at_row, at_window; /* elements from one to the next */
    const void *dy;            /* its gradient */
    int64_t dy_row, dy_window;
    int h, w;
    int number, per_row, per_window; /* the pixel's number in the first window */
} dti_reach;

/**
 * struct dti_maxpool_rows - by one instruction set, of n channels; the same bits by all.
 * @find_max: y is the largest, the first of equals, or the first NaN; at is where that was
 * @find_again: at once more, from y: the first equal, or NaN if that is
 * @gather: dx is the sum of dy of those windows whose maximum the pixel was, in their order
 * @spread: of a window that shares no pixel with another dx, which lies as x does: dy where the
 * maximum was, as at says, or where that is NULL as find_again finds it; elsewhere 0
 */
typedef struct dti_maxpool_rows {
    void (*find_max)(const dti_window *w, int n, void *y, dt_bf16 *at);
    void (*find_again)(const dti_window *w, int n, const void *y, dt_bf16 *at);
    void (*gather)(const dti_reach *r, int n, void *dx);
    void (*spread)(
        const dti_window *w, int n, const void *y, const dt_bf16 *at, const void *dy, void *dx);
} dti_maxpool_rows;

/* By instruction set (of dti_lane_set() and below) and by type. */
const dti_maxpool_rows *dti_maxpool_rows_of(int lanes, dt_dtype t);

#endif
