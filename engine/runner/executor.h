/* A run under way: what the executor does with a step, for those who take steps by themselves, and
 * what it asks of those who stand beside it. */
#ifndef DT_ENGINE_RUNNER_EXECUTOR_H
#define DT_ENGINE_RUNNER_EXECUTOR_H

#include "engine/runner/runner_internal.h"
#include "engine/runner/steps.h"

/* A run of a plan. */
typedef struct dti_run {
    dt_runner *r;
    dti_plan *p;
    const dt_run_args *a;
} dti_run;

/* executor.c: before a run, the numbers and the batch come within the device's reach; when it is
 * over, what kernels answered is taken. One step alone, which is done when it returns; a step, put
 * on its queue by a thread, and a wait of one. */
dt_status dti_run_begin(const dti_run *u, dt_err *err);
dt_status dti_run_end(const dti_run *u, dt_err *err);
void dti_run_done(const dti_run *u);
dt_status dti_step_alone(const dti_run *u, dti_step *s, int thread, dt_err *err);
dt_status dti_step_put(const dti_run *u, dti_step *s, int thread, dt_err *err);
dt_status dti_step_wait(const dti_run *u, const dti_step *s, int thread, dt_err *err);
/* Bytes that a copy moves: in: as many as were written there. */
uint64_t dti_copy_used(const dti_plan *p, const dti_copy *c);

/* graphs.c: keep a plan, if it can be; run it as kept. */
void dti_graphs_keep(const dti_run *u);
dt_status dti_graphs_run(const dti_run *u, dt_err *err);

/* input.c: a run's own batch, before its queues begin; its copy to the arena, on a queue; the one
 * that comes next, while queues work, if it may have an id and nothing is wrong with it. DT_E_DATA
 * names the first label that is no class, or token that is none. */
dt_status dti_input_begin(const dti_run *u, dt_err *err);
dt_status dti_input_fetch(const dti_run *u, const dti_step *s, dt_err *err);
void dti_input_coming(const dti_run *u);

/* check.c: tell the probe what an op wrote, where all of it is there. */
dt_status dti_show(const dti_run *u, const dti_step *s, dt_err *err);

/* trace.c: when a run begins; around each step; when it is over, tell them. */
dt_status dti_trace_begin(const dti_run *u, dt_err *err);
dt_status dti_trace_stamp(const dti_run *u, const dti_step *s, bool end, dt_err *err);
dt_status dti_trace_tell(const dti_run *u, dt_err *err);

#endif
