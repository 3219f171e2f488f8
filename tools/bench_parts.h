/* For bench.c, bench_costs.c, bench_steps.c and bench_sum.c only: a measurement under way. */
#ifndef DT_TOOLS_BENCH_PARTS_H
#define DT_TOOLS_BENCH_PARTS_H

#include "tools/bench.h"
#include "session/rig.h"

/* The first two rows. */
enum { DTI_COPIES, DTI_WAITS, DTI_MOST_ROWS = 256 };

/* What an op adds to its row. */
typedef struct dti_op_cost {
    int row;
    double floor;
} dti_op_cost;

/* A row of a step. */
typedef struct dti_cell {
    double seconds, floor;
    int64_t ops;
} dti_cell;

typedef struct dti_bench {
    dt_session *s;
    dt_rig rig;
    dt_machine machine;
    dti_op_cost **cost; /* [plan][row of its op table] */
    dt_bench_row row[DTI_MOST_ROWS];
    int n_row;
    dti_cell now[DTI_MOST_ROWS]; /* of the step under way */
    dti_cell *cell;              /* [step][n_row] */
    double *seconds;             /* [step] */
    int64_t *faults;             /* [step] */
    int *order;                  /* steps by time */
    int64_t steps, done;         /* that count; done, warm ones included */
    double stalled;
    int64_t faulted, allocated, heap;
    dt_feed feed;
    float *x;
    int32_t *labels;
    bool json;
} dti_bench;

/* Fill cost, and row with what there is to be measured; the machine is measured before. */
dt_status dti_bench_find_costs(dti_bench *b, dt_err *err) DT_NODISCARD;

/* Train, and fill cell, seconds and faults; rig, cost and feed are there. */
dt_status dti_bench_run_steps(dti_bench *b, dt_err *err) DT_NODISCARD;

/* The result borrows the rows. */
dt_bench_result dti_bench_sum(dti_bench *b);

#endif
