/* What `dnntrain bench` knows after its steps. */
#ifndef DT_TOOLS_BENCH_H
#define DT_TOOLS_BENCH_H

#include "session/machine.h"
#include "session/session.h"

enum { DTI_BENCH_WARM = 3, DTI_BENCH_MOST = 10000 }; /* steps that do not count; steps at most */

/* Ops of one kind in one pass, in a step: means over the steps of middling length. */
typedef struct dti_bench_row {
    const char *kind, *pass; /* "conv", "backward" */
    double ops, seconds, floor;
} dti_bench_row;

/**
 * struct dti_bench_result - the measurement.
 * @median @least @most: seconds of a step
 * @row:     by time, longest first; those without time are left out
 * @step:    mean of the steps that the rows are of; @rest: of it, in none of the rows
 * @floor:   of all rows
 * @faults @faults_most: pages that a step had to be given, the median and the most
 * @allocations: blocks the engine asked for, in all steps
 * @grown:   bytes in use on the heap, more at the end than at the beginning of the steps
 */
typedef struct dti_bench_result {
    const dt_session *session;
    dt_machine machine;
    int64_t steps;
    double median, least, most, step, rest, floor;
    size_t n_row;
    const dti_bench_row *row;
    int64_t faults, faults_most, allocations, grown;
} dti_bench_result;

/* Labels of a step, and what one of them is called: "images", "tokens". */
double dti_bench_units(const dti_bench_result *r);
const char *dti_bench_unit(const dti_bench_result *r);

void dti_bench_table(const dti_bench_result *r);
dt_status dti_bench_json(const dti_bench_result *r, dt_err *err) DT_NODISCARD;

#endif
