/* A program that trains as an abstract problem of recomputation: what searches there find, policies
 * do here. */
#ifndef DT_MEMORY_REMAT_OF_PROGRAM_H
#define DT_MEMORY_REMAT_OF_PROGRAM_H

#include "engine/plan.h"
#include "memory/remat/remat.h"

/**
 * struct dti_remat_program - the problem, and what its ops stand for.
 * @graph: an op for each op of the program, and one more for a second output of some size. Where an
 * op overwrites what another made, both are one if they can run again; else its value takes no
 * bytes, and the other's stay until it was read for the last time
 * @unit:  seconds that 1 of a cost stands for: a nanosecond, or more where costs would be too large
 * @once:  by op of the graph: it is none of forward's, or cannot run again
 * @op_of: by tensor of the program: the op of the graph that makes it; UINT32_MAX where none does
 * @op @tensor: by op of the graph: the op of the program before which it begins, and the value
 * that its readers read; DT_NONE where there is none
 */
typedef struct dti_remat_program {
    dt_remat_graph graph;
    double unit;
    uint8_t *once;
    uint32_t *op_of;
    int32_t *op, *tensor;
} dti_remat_program;

/* Of a program and its plan, which says what lies over what. @seconds: by op of the program; @away:
 * by tensor: it is not on the device between forward and backward, where it comes back at no cost;
 * NULL: none is. Release with dti_remat_program_deinit, even after a failure. DT_E_NOMEM. */
dt_status dti_remat_of_program(dti_remat_program *out, const dt_program *p, const dt_plan *plan,
    const double *seconds, const bool *away, dt_err *err) DT_NODISCARD;
void dti_remat_program_deinit(dti_remat_program *r);

/* A value that is not @allowed, by tensor, is made once; an input may be fetched again. */
void dti_remat_only(dti_remat_program *r, const dt_program *p, const bool *allowed);

/* Rewrite the program of which @r is the problem as a sequence has it: each further run becomes a
 * recompute at its place, and who reads the value from there on reads that. Those bear no
 * reason yet. The program is that of dti_remat_of_program, unchanged. DT_E_NOMEM. */
dt_status dti_remat_onto(dt_program *p, const dti_remat_program *r, const dt_remat_sequence *runs,
    dt_err *err) DT_NODISCARD;

#endif
