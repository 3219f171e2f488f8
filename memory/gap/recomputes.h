/* What recomputing values costs, where several are chosen one after the other: Capuchin's
 * algorithm 2 (Peng et al., ASPLOS 2020, section 4.4). Each value is made from sources, which are
 * other values of the table, or things that are there anyway and need no row. A value that is
 * chosen is there no more: whatever was to be made from it is made from its sources, and takes so
 * much longer. */
#ifndef DT_MEMORY_GAP_RECOMPUTES_H
#define DT_MEMORY_GAP_RECOMPUTES_H

#include "engine/base/error.h"

/**
 * struct dti_recomputes_item - a value.
 * @bytes:   that choosing it saves
 * @seconds: to make it from its sources; infinity: it cannot be
 * @extra:   so much longer take the chosen ones that are made from it, if it is chosen as well
 */
typedef struct dti_recomputes_item {
    uint64_t bytes;
    double seconds, extra;
    bool chosen;
} dti_recomputes_item;

/* @source: @words words a value, a bit for each other value; @user: the same the other way,
 * whatever is made from it */
typedef struct dti_recomputes {
    size_t n, words;
    dti_recomputes_item *item;
    uint64_t *source, *user;
} dti_recomputes;

/* Room for @n values, to be filled in. Release with dti_recomputes_close even after a failure. */
dt_status dti_recomputes_open(dti_recomputes *a, size_t n, dt_err *err) DT_NODISCARD;
void dti_recomputes_close(dti_recomputes *a);

void dti_recomputes_source(dti_recomputes *a, size_t item, size_t from); /* it is made from that */
bool dti_recomputes_from(const dti_recomputes *a, size_t item, size_t from); /* for tests: it is */

/* Bytes saved for a second of recomputing, MSPS; 0 when it cannot be. */
double dti_recomputes_score(const dti_recomputes *a, size_t item);

void dti_recomputes_choose(dti_recomputes *a, size_t item);

#endif
