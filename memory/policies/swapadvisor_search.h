/* SwapAdvisor's search (Huang et al., ASPLOS 2020, sections 4 and 5) in numbers alone: orders of
 * ops, a pool of objects in classes of sizes or of bytes in common, the swaps that follow from
 * both, a clock for them, and a genetic algorithm over orders and pools. */
#ifndef DT_MEMORY_POLICIES_SWAPADVISOR_SEARCH_H
#define DT_MEMORY_POLICIES_SWAPADVISOR_SEARCH_H

#include "engine/base/error.h"

/**
 * struct dti_genes - an individual.
 * @order: by place, the op
 * @class: by size, from 0 on, never falling, by steps of at most one
 * @count: by class, objects of its largest size; room for one a size
 * @seconds @bytes @over: what the planner makes of it: the step, bytes of its objects, and those of
 * them beyond the limit
 */
typedef struct dti_genes {
    int32_t *order, *class, *count;
    double seconds;
    uint64_t bytes, over;
} dti_genes;

static inline dt_status DT_NODISCARD dti_swap_no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for a search of swaps");
}

/* A tensor that leaves behind place @from, where it was used last, and is back for place @to; gone
 * and fetched again at these seconds. */
typedef struct dti_swap {
    int32_t tensor, from, to;
    double gone, fetched;
} dti_swap;

/**
 * struct dti_swap_problem - ops and tensors.
 * @seconds: by op
 * @arg_at @arg: n_op + 1, and the tensors of each op, each once
 * @after_at @after: likewise, the ops that stay behind it; all later ones
 * @size_of @out @in: by tensor: which size, and seconds of its copies
 * @size:    rising, n_size of them
 * @limit:   bytes of all objects
 * @guard:   places for which a tensor stays that was used
 * @inlined: copies are made between the ops
 * @fixed:   the order stays
 * @common:  there are no classes: all tensors share the limit's bytes, and those @beside them, by
 * op
 */
typedef struct dti_swap_problem {
    size_t n_op, n_tensor, n_size;
    double *seconds, *out, *in;
    int32_t *arg_at, *arg, *after_at, *after, *size_of;
    uint64_t *size, limit, *beside;
    int32_t guard;
    bool inlined, fixed, common;
} dti_swap_problem;

/* Told the best individual so far, whose plan it may make. It may move the limit, by which all are
 * judged from then on. */
typedef dt_status dti_swap_round(void *self, dti_genes *best, uint64_t *limit, dt_err *err);

/**
 * struct dti_swap_opts - how it is searched.
 * @samples: individuals that are planned, at most
 * @population: of them are alive
 * @mutation: share of genes that change
 * @tries: told, with @listener, before each individual that is planned; NULL: nobody
 * @round: called with @self after the first population and every few whole generations; NULL: never
 */
typedef struct dti_swap_opts {
    uint64_t seed, samples;
    int32_t population;
    double mutation;
    void (*tries)(void *listener);
    void *listener;
    dti_swap_round *round;
    void *self;
} dti_swap_opts;

dt_status dti_genes_init(dti_genes *g, const dti_swap_problem *p, dt_err *err) DT_NODISCARD;
void dti_genes_deinit(dti_genes *g);

/* The classes of a mixture, valid again: entries are raised, as little as that takes. */
void dti_classes_repair(int32_t *class, size_t n);

/* Counts for classes, from counts by size: their means, then as many fewer as bytes are above the
 * limit, an equal share of these from each class, and at least one. */
void dti_counts_from_sizes(
    const dti_swap_problem *p, const int32_t *class, const int32_t *by_size, int32_t *count);

/* The first @cut ops of @head, then the others in the order of @tail; @seen: room for n_op. */
void dti_orders_cross(
    const int32_t *head, const int32_t *tail, size_t cut, size_t n, bool *seen, int32_t *to);

/**
 * struct dti_swap_plan - what the planner makes of an individual.
 * @begin @end: by place, seconds of its op
 * @swap:    n of them, in the order in which they are planned
 * @made:    by class, objects that were wanted at once
 * @room:    the planner's own
 */
typedef struct dti_swap_plan {
    double *begin, *end;
    dti_swap *swap;
    size_t n, cap;
    int32_t *made;
    struct dti_swap_room *room;
} dti_swap_plan;

dt_status dti_swap_plan_init(dti_swap_plan *s, const dti_swap_problem *p, dt_err *err) DT_NODISCARD;
void dti_swap_plan_deinit(dti_swap_plan *s);

/* The swaps of an individual, on the clock. DT_E_NOMEM. */
dt_status dti_swap_plan_make(
    dti_swap_plan *s, const dti_swap_problem *p, dti_genes *g, dt_err *err) DT_NODISCARD;

/* Search, beginning with the program's own order and a class a size; *best is the fastest of those
 * within the limit, or of the others. The same seed gives the same, and fewer samples the begin of
 * what more give, rounds included. DT_E_NOMEM, or what a round returns. */
dt_status dti_swap_search(
    const dti_swap_problem *p, const dti_swap_opts *o, dti_genes *best, dt_err *err) DT_NODISCARD;

#endif
