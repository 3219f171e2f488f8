/* What to compute again on a graph of ops, by the way that is asked for: each finds a sequence of
 * runs within a budget at the least cost that it can. And the largest batch. */
#ifndef DT_MEMORY_REMAT_SOLVE_H
#define DT_MEMORY_REMAT_SOLVE_H

#include "memory/remat/remat.h"

typedef enum dt_remat_how {
    DT_REMAT_AUTO, /* dti_remat_anneal; on small graphs from dti_remat_exact's answer */
    DT_REMAT_CHECKMATE,
    DT_REMAT_ROTOR,
    DT_REMAT_REVOLVE,
    DT_REMAT_BY_POLICY
} dt_remat_how;

/**
 * struct dt_remat_task - what is looked for, and what is found.
 * @policy:    DT_REMAT_BY_POLICY: that one
 * @published: what it takes is counted as in its paper
 * @budget:    the peak is to be no higher
 * @any_budget: there is none, with DT_REMAT_BY_POLICY: @budget is DT_REMAT_MOST_SUM, and becomes
 * what that takes
 * @seed @moves: of dti_remat_search; @nodes: of dti_remat_checkmate; 0: some seconds' worth
 * @base:      what the graph's own order takes
 * @best @found: the sequence, and what it takes
 * @bound:     no sequence within the budget costs less; 0 where it is counted as published
 * @limit:     of the cost, when the largest batch is looked for; 0 otherwise
 * @proved:    nothing in the graph's order costs less
 * @relaxation @optimum: of Checkmate's program: 0: not solved; nothing of its kind costs less, as
 * of dti_remat_checkmate
 * @annealed:  Checkmate's program was too large, or had no proved answer, and was searched
 */
typedef struct dt_remat_task {
    const dt_remat_graph *graph;
    dt_remat_how how;
    const dt_remat_policy *policy;
    bool published, any_budget, proved, optimum, annealed;
    uint64_t budget, limit, seed, moves, nodes;
    dt_remat_taken base, found;
    dt_remat_sequence best;
    uint64_t bound, relaxation;
} dt_remat_task;

/* Fill @graph, borrowed, @base and @best, the graph's own order; of a task that else is as its
 * owner wants it. Release with dt_remat_task_deinit even after a failure. */
dt_status dt_remat_task_init(dt_remat_task *r, const dt_remat_graph *g, dt_err *err) DT_NODISCARD;
void dt_remat_task_deinit(dt_remat_task *r);

/* Within a budget that is no lower than dt_remat_least_peak. @found may be above it all the same,
 * where nothing was found. DT_E_BUDGET where Checkmate's program has no answer. */
dt_status dt_remat_solve(dt_remat_task *r, dt_err *err) DT_NODISCARD;

/* By DT_REMAT_AUTO or DT_REMAT_BY_POLICY: how many times the graph's bytes fit in @room, at most
 * one forward more being run; 0: not once. @found is of that, @budget its share of the room, and
 * @bound of that budget. */
dt_status dt_remat_largest_batch(
    dt_remat_task *r, uint64_t room, uint64_t *most, dt_err *err) DT_NODISCARD;

#endif
