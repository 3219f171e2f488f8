/* Recomputation as an abstract problem: ops with a cost, an output of some bytes, and inputs. Any
 * op may run again, so a sequence of runs trades time for memory. Here is what such a sequence
 * costs, ways to find one that fits a budget, and bounds that none can pass. Nothing here knows of
 * layers or programs.
 *
 * The rules. Every op runs at least once, each after its inputs. A value lives from the run that
 * makes it to its last reader before it is made again, both included: an op's inputs and output
 * exist together. A value that nobody reads lives during its run alone. */
#ifndef DT_MEMORY_REMAT_REMAT_H
#define DT_MEMORY_REMAT_REMAT_H

#include "engine/base/error.h"

/* Sums stay exact in a double, and so in JSON. */
#define DT_REMAT_MOST_SUM ((uint64_t)1 << 53)
enum {
    DTI_REMAT_MOST_OPS = 1 << 20,
    DTI_REMAT_MOST_EDGES = 1 << 24,
    DTI_REMAT_MOST_RUNS = 255,
    DTI_REMAT_MOST_EXACT = 63,       /* whose sets are words, with a bit to spare */
    DTI_REMAT_USUAL_STATES = 200000, /* a tenth of a second */
    DTI_REMAT_USUAL_CHECKMATE = 40,  /* of more, the program takes minutes */
    DTI_REMAT_MOST_CHECKMATE = 128,
    DTI_REMAT_MOST_RELAXED = 128,
    DTI_REMAT_MOST_MOMENTS = 4096
};

/**
 * struct dt_remat_graph - ops in an order in which they can run.
 * @bytes @cost: of each op's output and of one run of it; their sums are at most DT_REMAT_MOST_SUM
 * @backward: 1 for ops of the backward pass; policies of training need to know, searches need not
 * @in @out:  the inputs of op v, in[in_at[v]] to in[in_at[v + 1] - 1], all below v; its readers
 * alike
 */
typedef struct dt_remat_graph {
    uint32_t n_op, n_edge;
    uint64_t *bytes, *cost;
    uint8_t *backward;
    uint32_t *in_at, *in, *out_at, *out;
} dt_remat_graph;

/* Whether an op reads the value of another. */
static inline bool dti_remat_reads(const dt_remat_graph *g, uint32_t op, uint32_t v)
{
    for (uint32_t i = g->in_at[op]; i < g->in_at[op + 1]; i++)
        if (g->in[i] == v)
            return true;
    return false;
}

/* Make one from edges (from, to) with from below to; everything is copied. DT_E_DATA when a sum is
 * too large, an edge runs backwards or names an op that is not there. Release with
 * dt_remat_graph_deinit, which takes a zeroed one. */
typedef struct dti_remat_edge {
    uint32_t from, to;
} dti_remat_edge;
dt_status dti_remat_graph_init(dt_remat_graph *out, uint32_t n_op, const uint64_t *bytes,
    const uint64_t *cost, const uint8_t *backward, uint32_t n_edge, const dti_remat_edge *edge,
    dt_err *err) DT_NODISCARD;
void dt_remat_graph_deinit(dt_remat_graph *g);

/* Read one from a file of text (memory/remat/graph_file.c says how it is written). DT_E_DATA with
 * FILE:LINE when it is no such file, is larger than 512 MiB or has more ops or edges than above. */
dt_status dt_remat_read(dt_remat_graph *out, const char *path, dt_err *err) DT_NODISCARD;
dt_status dti_remat_parse(dt_remat_graph *out, const char *text, size_t bytes, const char *path,
    dt_err *err) DT_NODISCARD;

/* Runs of ops, in order. Release with dti_remat_sequence_deinit. */
typedef struct dt_remat_sequence {
    size_t n, cap;
    uint32_t *op;
} dt_remat_sequence;
void dti_remat_sequence_deinit(dt_remat_sequence *s);
/* Every op once, in the graph's order. */
dt_status dti_remat_in_order(
    dt_remat_sequence *out, const dt_remat_graph *g, dt_err *err) DT_NODISCARD;
dt_status dti_remat_push(dt_remat_sequence *s, uint32_t op, dt_err *err) DT_NODISCARD;
/* Run @op, and before it all that it reads and that is not @there (by op), inputs in their order.
 * @stack: room for twice as many as there are ops. */
dt_status dti_remat_push_lacking(dt_remat_sequence *s, const dt_remat_graph *g, uint32_t op,
    uint8_t *there, uint32_t *stack, dt_err *err) DT_NODISCARD;

/* Leave out further runs that nobody reads. DT_E_NOMEM. */
dt_status dti_remat_prune(const dt_remat_graph *g, dt_remat_sequence *s, dt_err *err) DT_NODISCARD;

/* What a sequence takes. DT_E_INTERNAL when it is none by the rules. */
typedef struct dt_remat_taken {
    uint64_t cost, peak;
} dt_remat_taken;
dt_status dti_remat_measure(const dt_remat_graph *g, const dt_remat_sequence *s,
    dt_remat_taken *out, dt_err *err) DT_NODISCARD;

/* By run, the last one that reads what it made, or itself: so long its value lives. @last: room for
 * s->n. DT_E_INTERNAL as above, DT_E_NOMEM. */
dt_status dt_remat_last_reads(
    const dt_remat_graph *g, const dt_remat_sequence *s, size_t *last, dt_err *err) DT_NODISCARD;

/**
 * struct dti_remat_search - what to look for, and how long.
 * @budget: the peak is to be no higher
 * @moves:  changes that are tried, 0: as the graph's size suggests; the same seed and moves give
 * the same answer
 * @bound:  a sequence that costs no more ends the search; 0 if nothing is known
 * @once:   by op, 1: it must not run again; NULL: all may
 * @in_order: first runs keep the graph's order, in which the search then has to begin
 */
typedef struct dti_remat_search {
    uint64_t budget, seed, moves, bound;
    const uint8_t *once;
    bool in_order;
} dti_remat_search;

/* From a valid sequence to one of the budget and the least cost that is found, or, while nothing
 * fits, of the lowest peak. Never worse than what it began with. */
dt_status dti_remat_anneal(const dt_remat_graph *g, const dti_remat_search *how,
    dt_remat_sequence *io, dt_remat_taken *out, dt_err *err) DT_NODISCARD;

/* No sequence has a lower peak: the most that an op, its inputs and its output take. */
uint64_t dt_remat_least_peak(const dt_remat_graph *g);

/* No sequence within the budget costs less. A budget below dt_remat_least_peak has no meaning. */
dt_status dti_remat_bound(
    const dt_remat_graph *g, uint64_t budget, uint64_t *out, dt_err *err) DT_NODISCARD;

/* The same by one moment alone, for many budgets: what is alive at each moment is found once. */
typedef struct dti_remat_bounds dti_remat_bounds;
/* @g and @own stay the caller's. @own: bytes, by op, that its output takes while it runs; NULL:
 * all. @apart: by op, 1: its beginning is no moment, as it does not begin behind all that stands
 * before it; NULL: all do. Close even after a failure. DT_E_NOMEM. */
dt_status dti_remat_bounds_open(dti_remat_bounds **out, const dt_remat_graph *g,
    const uint64_t *own, const uint8_t *apart, dt_err *err) DT_NODISCARD;
/* No sequence within the budget costs less. Who only asks whether it is @enough is answered sooner:
 * by some bound, which is at least that if the best one is by more than a rounding; UINT64_MAX: by
 * the best. */
uint64_t dti_remat_bounds_by(dti_remat_bounds *b, uint64_t budget, uint64_t enough);
void dti_remat_bounds_close(dti_remat_bounds *b); /* NULL: nothing */

/* The cheapest sequence whose first runs are in the graph's order, by branch and bound: at most
 * Checkmate's optimum, as between two first runs an op may run twice, and in any order. For at most
 * DTI_REMAT_MOST_EXACT ops (DT_E_CONFIG for more). @states: looked at, at most, which also takes
 * memory for so many; DT_E_BUDGET when they end before the search does (not @proved), or nothing
 * fits (@proved). @once: as of dti_remat_search. @out is zeroed or holds a sequence, which goes. */
dt_status dti_remat_exact(const dt_remat_graph *g, uint64_t budget, size_t states,
    const uint8_t *once, dt_remat_sequence *out, bool *proved, dt_err *err) DT_NODISCARD;

/* The optimum of Checkmate's integer program (Jain et al., MLSys 2020): first runs in the graph's
 * order, and before each of them any op once more, in that order. @proved: nothing of that kind
 * costs less; else it is the best within so many nodes of branch and bound. @once: as of
 * dti_remat_search. For at most
 * DTI_REMAT_MOST_CHECKMATE ops, and with a solver in the build (DT_E_CONFIG); DT_E_BUDGET when none
 * fits or is found. @out is zeroed or holds a sequence, which goes. */
dt_status dti_remat_checkmate(const dt_remat_graph *g, uint64_t budget, uint64_t nodes,
    const uint8_t *once, dt_remat_sequence *out, bool *proved, dt_err *err) DT_NODISCARD;

/* So many nodes as take some seconds: a node takes the longer the more columns the program has. */
uint64_t dti_remat_checkmate_nodes(const dt_remat_graph *g);

/* Its relaxation: no sequence with first runs in the graph's order costs less than *out, as long as
 * no op runs twice between two first runs. At most DTI_REMAT_MOST_RELAXED ops; the same failures.
 */
dt_status dti_remat_relaxation(const dt_remat_graph *g, uint64_t budget, const uint8_t *once,
    uint64_t *out, dt_err *err) DT_NODISCARD;

/* The name of what solves integer programs; NULL: there is none. Then the other is DT_E_CONFIG that
 * says why and what to install. */
const char *dt_solver_name(void);
dt_status dti_solver_check(dt_err *err) DT_NODISCARD;

/* Rules that keep some values of forward. */
typedef enum dt_remat_rule {
    DT_REMAT_KEEP_ALL,
    DT_REMAT_CHEN_SQRT,
    DT_REMAT_CHEN_SQRT_AP, /* of articulation points */
    DT_REMAT_CHEN_BUDGET,
    DT_REMAT_CHEN_BUDGET_AP
} dt_remat_rule;

/**
 * struct dt_remat_policy - a rule of a paper that says what runs again.
 * @n: how many sequences it offers, for whoever asks to choose among
 */
typedef struct dt_remat_policy {
    const char *name;
    dt_remat_rule rule;
    int n;
} dt_remat_policy;
const dt_remat_policy *dt_remat_policies(size_t *n);

/* Which of the first @n ops are articulation points of forward, by op: what runs behind one, of
 * forward and among them, reads nothing from before it, so its value alone leads from one side to
 * the other. The first and the last are among them. */
void dti_remat_articulations(const dt_remat_graph *g, uint32_t n, uint8_t *is);

/* The k-th of them, which knows no budget, and what it takes. @published: as Checkmate's
 * experiments count it (Jain et al., MLSys 2020, figure 6): what is kept stays to the end, whoever
 * reads it, and a segment's values and gradients stay as long as backward is in it
 * (memory/remat/stages.h). @taken is by that count then, and higher than dti_remat_measure's of
 * @out; DT_E_CONFIG for more than 4,096 ops. */
dt_status dti_remat_by_rule(const dt_remat_graph *g, const dt_remat_policy *p, int k,
    bool published, dt_remat_sequence *out, dt_remat_taken *taken, dt_err *err) DT_NODISCARD;

#endif
