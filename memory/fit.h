/* Which of several algorithms computes each op: the choice of a table of them, for the whole run
 * and before it. Fast and small need no plan: they are one limit for every op. */
#ifndef DT_MEMORY_FIT_H
#define DT_MEMORY_FIT_H

#include "engine/plan.h"
#include "engine/program/program.h"

/* A plan and the program it was made from. */
typedef struct dt_fitted {
    const dt_program *program;
    const dt_plan *plan;
} dt_fitted;

/**
 * struct dt_fit_env - what a choice is made for.
 * @budget: of the device; 0: none
 * @plan:   make all plans of the run by a table, policies and all: *all and *n, which hold until it
 * is called again. Pure: the same table, the same plans
 * @self:   the first argument of both
 * @seconds: of a step by the plans made last, where that may grow by what a policy makes room for;
 * NULL: faster algorithms make it no longer
 */
typedef struct dt_fit_env {
    uint64_t budget;
    dt_status (*plan)(
        void *self, const dt_algorithm_table *by, const dt_fitted **all, size_t *n, dt_err *err);
    void *self;
    dt_status (*seconds)(void *self, double *out, dt_err *err);
} dt_fit_env;

/* Fit, after SuperNeurons (Wang et al., PPoPP 2018, section 3.5), where each convolution takes the
 * fastest algorithm whose scratch fits what is free at its step, and vDNN's greedy choice: the
 * algorithms of fewest bytes give a peak; then op by op, in the order in which they run, the
 * fastest is taken with which the peak of all plans stays within that, or within the budget where
 * it is higher, and with which a step takes no longer: where a policy moves more to make room for
 * scratch, that is held against what the algorithm saves (moDNN, Chen et al., TPDS 2019, equation
 * 10). Ours differs: a plan is made of every choice, so it is the addresses that fit and
 * not only the sum of bytes; and both programs of a step, recomputes and evaluation go by one
 * table.
 * @table: of the graph; what it holds before does not matter. */
dt_status dt_fit_algorithms(
    const dt_fit_env *e, dt_algorithm_table *table, dt_err *err) DT_NODISCARD;

#endif
