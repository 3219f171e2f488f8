/* What a plan takes: its rows on the clock of a machine's costs. Each stream takes its rows in
 * order, an event joins them, and while several are busy each runs at the rate that the others
 * leave it. Without that slowing, and without the seconds that a stream takes to go on behind a
 * wait, this is a max-plus system: no part that gets faster makes the whole slower. Pure: reads no
 * clock. */
#ifndef DT_MEMORY_TIME_SIMULATE_H
#define DT_MEMORY_TIME_SIMULATE_H

#include "memory/time/costs.h"

/**
 * struct dt_simulate_opts - how a machine runs a plan.
 * @inline_copies: copies to and from the host, and fetches, are made where they stand among the
 * ops, as the processor's team does; otherwise each direction has a stream of its own
 * @density: of packed values by tensor; NULL: not known
 */
typedef struct dt_simulate_opts {
    bool inline_copies;
    const dt_densities *density;
} dt_simulate_opts;

/**
 * struct dt_timeline - a plan in time, in seconds from its beginning.
 * @begin @end: by row. A WAIT begins when its stream comes to it; PLACE and RELEASE take no time
 * @source:  by row, dt_cost_source of a COMPUTE row; of a copy DT_COST_MEASURED, or DT_COST_FLOOR
 * where a default stands in for its link
 * @seconds: until the last row is done
 * @busy:    of each stream, as slowed
 * @alone:   of each stream, if it had nothing to wait for and nothing slowed it: no plan of these
 * rows is faster than the largest
 * @stalled: in which the stream of the ops waited
 * @average: bytes of the arena in use, weighted by time
 */
typedef struct dt_timeline {
    size_t n;
    double *begin, *end;
    uint8_t *source;
    double seconds, busy[DT_MAX_STREAMS], alone[DT_MAX_STREAMS], stalled, average;
} dt_timeline;

/* Fill @out; release it with dt_timeline_deinit, even after a failure. The plan is verified.
 * DT_E_NOMEM; DT_E_DATA when a stream waits for ever, which no verified plan does. */
dt_status dt_simulate(dt_timeline *out, const dt_plan *p, const dt_costs *c,
    const dt_simulate_opts *o, dt_err *err) DT_NODISCARD;
void dt_timeline_deinit(dt_timeline *t);

/* By event, of which @by holds p->n_event, the first row that signals it, whose end a WAIT stands
 * for; DT_NONE: none does. */
void dt_timeline_signals(const dt_plan *p, int32_t *by);

#endif
