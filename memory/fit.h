/* Which of several ways computes each op: the choice of a table of algorithms, for the whole run
 * and before it. Fast and small need no plan: they are one room for every op. */
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
 * @graph:  whose rooms are set
 * @budget: of the device; 0: none
 * @plan:   make all plans of the run with the rooms as they are, policies and all: *all and *n,
 * which hold until it is called again. Pure: the same rooms, the same plans
 * @self:   its first argument
 */
typedef struct dt_fit_env {
    dt_graph *graph;
    uint64_t budget;
    dt_status (*plan)(void *self, const dt_fitted **all, size_t *n, dt_err *err);
    void *self;
} dt_fit_env;

/* The same room for every direction of every node: DT_ROOM_ANY is fast, DT_ROOM_LEAST small. */
void dt_set_rooms(dt_graph *g, size_t room);

/* Fit, after SuperNeurons (Wang et al., PPoPP 2018, section 3.5), where each convolution takes the
 * fastest algorithm whose scratch fits what is free at its step, and vDNN's greedy choice: the ways
 * of fewest bytes give a peak; then op by op, in the order in which they run, the fastest way is
 * taken with which the peak of all plans stays within that, or within the budget where it is
 * higher. Ours differs: a plan is made of every choice, so it is the addresses that fit and not
 * only the sum of bytes; and both programs of a step, clones and evaluation go by one table. */
dt_status dt_fit_rooms(const dt_fit_env *e, dt_err *err) DT_NODISCARD;

#endif
