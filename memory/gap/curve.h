/* A program on the clock: when each of its ops runs and what is alive meanwhile, found by lowering
 * it as it stands and simulating the plan. */
#ifndef DT_MEMORY_GAP_CURVE_H
#define DT_MEMORY_GAP_CURVE_H

#include "memory/policy.h"
#include "memory/time/simulate.h"

/**
 * struct dti_load_curve - by place in the program's order.
 * @plan:   of the program
 * @begin @end: in seconds. Copies have the time of the op before them, so neither ever falls
 * @load:   bytes alive, persistent ones included
 * @op:     row of the plan's table of ops; -1 for copies
 * @time:   of the plan's rows
 */
typedef struct dti_load_curve {
    dt_plan *plan;
    size_t n;
    double *begin, *end;
    uint64_t *load;
    int32_t *op;
    dt_timeline time;
} dti_load_curve;

/* @within: placed by the run's pool where the plan's bound is no more than that; else by whichever
 * is fast, as where addresses do not count. Release with dti_load_curve_close even after a failure.
 * DT_E_NOMEM. */
dt_status dti_load_curve_open(dti_load_curve *out, dt_program *p, const dt_pass_env *e,
    uint64_t within, dt_err *err) DT_NODISCARD;
void dti_load_curve_close(dti_load_curve *c);

#endif
