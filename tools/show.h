/* What `dnntrain show` knows of a network, layer by layer. */
#ifndef DT_TOOLS_SHOW_H
#define DT_TOOLS_SHOW_H

#include "session/session.h"

/**
 * struct dti_show_row - a layer.
 * @parameters: trained ones of its own, in elements; one that it shares is the other layer's
 * @forward @backward: operations on one sample; a multiply-add is two
 * @activation: bytes of its output for a micro-batch; 0 when it has none of its own
 * @stash:      bytes that it leaves for backward besides, likewise
 */
typedef struct dti_show_row {
    const char *name, *kind;
    dt_shape y;
    int64_t parameters;
    double forward, backward;
    uint64_t activation, stash;
} dti_show_row;

/* Rows @first to @first + @period - 1 stand @times times, one after another; @times 1 is one row
 * (@period is then 1). */
typedef struct dti_show_part {
    size_t first, period, times;
} dti_show_part;

/* Write the rows down in parts, as few as can be found: blocks of equal rows become one. @part has
 * room for @n of them. Returns how many. */
size_t dti_show_fold(const dti_show_row *row, size_t n, dti_show_part *part);

#endif
