/* What no plan takes less than, from several moments of it at once. */
#ifndef DT_MEMORY_REMAT_MOMENTS_H
#define DT_MEMORY_REMAT_MOMENTS_H

#include "memory/remat/remat.h"

/* Copies of a direction follow each other; each takes latency + bytes ÷ rate. Rate 0: there are
 * none. */
typedef struct dti_copies {
    double latency, rate;
} dti_copies;

/**
 * struct dti_moments - ops, memory, and links by which values leave and come back.
 * @own:      by op, bytes of its output while it runs; NULL: all
 * @once:     by op, 1: it does not run again; NULL: all may
 * @apart:    by op, 1: no moment may be its beginning; NULL: any may
 * @in_order: first runs are in the graph's order; otherwise in any that their inputs allow
 * @first @again: seconds by op, of its first run and of each further one; the same if not @in_order
 * @fetch:    by op, seconds in which its value comes again from where it waits all the time, beside
 * other copies; 0: it is made again; NULL: all are
 * @before:   seconds before which no op runs whose beginning may be a moment, nor any of @first
 * @least:    seconds of all first runs, and of what else runs, wherever that is
 */
typedef struct dti_moments {
    const dt_remat_graph *g;
    uint64_t budget;
    const uint64_t *own;
    const uint8_t *once, *apart;
    bool in_order;
    const double *first, *again, *fetch;
    double before, least;
    dti_copies out, in;
} dti_moments;

/* Seconds that no plan within the budget is below; for DTI_REMAT_MOST_MOMENTS ops at most.
 * DT_E_NOMEM.
 */
dt_status dti_moments_bound(const dti_moments *m, double *seconds, dt_err *err) DT_NODISCARD;

#endif
