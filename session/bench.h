/* How long a step takes, and where its time goes. */
#ifndef DT_SESSION_BENCH_H
#define DT_SESSION_BENCH_H

#include "session/machine.h"
#include "session/session.h"

enum { DT_BENCH_WARM = 3, DT_BENCH_MOST = 10000 }; /* steps that do not count; steps at most */
enum { DT_BENCH_ROWS = 256 };

/* Ops of one kind in one pass, in a step: means over the steps of middling length. */
typedef struct dt_bench_row {
    const char *kind, *pass; /* "conv", "backward" */
    double ops, seconds, floor;
} dt_bench_row;

/**
 * struct dt_bench_result - the measurement.
 * @median @least @most: seconds of a step
 * @row:     by time, longest first; those without time are left out
 * @step:    mean of the steps that the rows are of; @rest: of it, in none of the rows
 * @floor:   of all rows
 * @faults @faults_most: pages that a step had to be given, the median and the most
 * @allocations: blocks the engine asked for, in all steps
 * @grown:   bytes in use on the heap, more at the end than at the beginning of the steps
 */
typedef struct dt_bench_result {
    const dt_session *session;
    dt_machine machine;
    int64_t steps;
    double median, least, most, step, rest, floor;
    size_t n_row;
    dt_bench_row row[DT_BENCH_ROWS];
    int64_t faults, faults_most, allocations, grown;
} dt_bench_result;

/* Plan the session's run, make it ready and measure so many steps of it, up to DT_BENCH_MOST, on a
 * made-up batch. @out borrows from the session. What planning and training fail with. */
dt_status dt_bench(dt_session *s, int64_t steps, dt_bench_result *out, dt_err *err) DT_NODISCARD;

#endif
