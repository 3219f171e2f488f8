/* A sequence of runs while it is changed: which run's value each reader reads, until when each
 * value lives, and the largest sum of bytes that live together. Runs stand in slots with gaps
 * between them, so that one is put in or taken out without moving others; the load curve is a tree
 * over slots, so a change takes a time that grows with the logarithm of their number, and it is
 * added up when it is asked for.
 *
 * Of each op only the first run is bound by others: it stands behind the first runs of the op's
 * inputs. Whoever changes runs keeps to that. */
#ifndef DT_MEMORY_REMAT_RUNS_H
#define DT_MEMORY_REMAT_RUNS_H

#include "memory/remat/remat.h"

#define DTI_NO_RUN UINT32_MAX

/* The changes of bytes within a part of the slots: their sum, the largest sum of any beginning, and
 * the number of runs at which it is so large. */
typedef struct dti_live_sum {
    int64_t sum, max, times;
} dti_live_sum;

/**
 * struct dti_runs - by slot and by op.
 * @op:          what runs in a slot, or DTI_NO_RUN
 * @before @after: the slots of the same op's run before and after
 * @end:         the slot of the last reader of the run's value, or its own
 * @at:          its place in @run, which lists the slots taken in no order
 * @first @last @count: an op's runs
 * @load:        a tree of which [1] is the root, and [n_slot + i] slot i
 * @changed @n_changed @marked: nodes of it, all of one level, below which something has changed
 */
typedef struct dti_runs {
    const dt_remat_graph *g;
    uint32_t n_slot, n_run;
    uint32_t *op, *before, *after, *end, *at, *run;
    uint32_t *first, *last, *count;
    dti_live_sum *load;
    uint32_t *changed, n_changed;
    bool *marked;
    uint64_t cost;
} dti_runs;

/* Room for at least @most runs; empty. Release with dti_runs_deinit, which takes a zeroed one. */
dt_status dti_runs_init(
    dti_runs *out, const dt_remat_graph *g, size_t most, dt_err *err) DT_NODISCARD;
void dti_runs_deinit(dti_runs *r);

/* Replace all by a sequence that is valid, spread evenly; back into a sequence's array, which has
 * room. */
void dti_runs_load(dti_runs *r, const uint32_t *op, size_t n);
size_t dti_runs_store(const dti_runs *r, uint32_t *op);

/* Put a run into an empty slot, or take one out. A first run that is taken out has no readers. */
void dti_runs_put(dti_runs *r, uint32_t slot, uint32_t op);
void dti_runs_take(dti_runs *r, uint32_t slot);

/* The last run of an op before a slot, or DTI_NO_RUN. */
uint32_t dti_runs_before(const dti_runs *r, uint32_t op, uint32_t slot);

/* Add up the load curve anew where runs have been put or taken; what follows is of then. */
void dti_runs_settle(dti_runs *r);

static inline uint64_t dti_runs_peak(const dti_runs *r)
{
    return (uint64_t)r->load[1].max;
}

/* How many runs are at the peak. */
static inline int64_t dti_runs_at_peak(const dti_runs *r)
{
    return r->load[1].times;
}

#endif
