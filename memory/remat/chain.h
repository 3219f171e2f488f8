/* Chains, exactly: Revolve for steps that are all alike, Rotor for stages that differ. */
#ifndef DT_MEMORY_REMAT_CHAIN_H
#define DT_MEMORY_REMAT_CHAIN_H

#include "memory/remat/remat.h"

enum { DT_CHAIN_MOST_STAGES = 512, DT_CHAIN_MOST_SLOTS = 2000, DT_REVOLVE_MOST_STEPS = 100000 };

/* So that costs of any sequence that a table holds fit 64 bits. */
#define DT_CHAIN_MOST_SUM ((uint64_t)1 << 44)

/* --- Revolve (Griewank and Walther, ACM TOMS 2000) --- */

/* How many forward steps are run beyond those that backward needs anyway, to reverse @n of them
 * with @s states kept at once, the first one's among them: T(1, s) = 0, T(n, 1) = n (n - 1) / 2,
 * T(n, s) = min over k of k + T(k, s) + T(n - k, s - 1). 1 <= n <= DT_REVOLVE_MOST_STEPS, s >= 1.
 */
uint64_t dt_revolve_extra(uint64_t n, uint64_t s);

/* --- Rotor (Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, 2019) --- */

/**
 * struct dt_chain_stage - one stage of a chain.
 * @forward @backward: what they cost
 * @bytes:     of its output, and of the gradient of that; 0 for the loss
 * @tape:      of its output and all that its backward needs; 0 for the loss
 * @forward_extra @backward_extra: bytes while they run
 */
typedef struct dt_chain_stage {
    uint64_t forward, backward, bytes, tape, forward_extra, backward_extra;
} dt_chain_stage;

/* The loss is the last stage; @input: bytes of what the first one reads, which is there all the
 * time.
 */
typedef struct dt_chain {
    uint32_t n;
    uint64_t input;
    dt_chain_stage *stage;
} dt_chain;

/* Read `STAGES INPUT` and then a line a stage, the loss last, of the six numbers above. DT_E_DATA
 * with FILE:LINE. Release with dt_chain_deinit. */
dt_status dt_chain_read(dt_chain *out, const char *path, dt_err *err) DT_NODISCARD;
dt_status dti_chain_parse(
    dt_chain *out, const char *text, size_t bytes, const char *path, dt_err *err) DT_NODISCARD;
void dt_chain_deinit(dt_chain *c);

/* What is done with a stage: forward that keeps nothing, its input, or its tape; backward. */
typedef enum dt_chain_act {
    DT_CHAIN_FORWARD,
    DT_CHAIN_FORWARD_KEEP_INPUT,
    DT_CHAIN_FORWARD_KEEP_TAPE,
    DT_CHAIN_BACKWARD
} dt_chain_act;

typedef struct dt_chain_step {
    dt_chain_act act;
    uint32_t stage;
} dt_chain_step;

/**
 * struct dt_chain_plan - the best persistent sequence: what is kept stays until it is used.
 * @cost: of all its steps
 * @unit: bytes were counted in units of so many, rounded up; 1: exactly
 */
typedef struct dt_chain_plan {
    uint64_t cost, unit;
    size_t n, cap;
    dt_chain_step *step;
} dt_chain_plan;

/* DT_E_BUDGET when nothing fits @budget bytes, the input's among them. Release with
 * dt_chain_plan_deinit. */
dt_status dt_chain_solve(
    dt_chain_plan *out, const dt_chain *c, uint64_t budget, dt_err *err) DT_NODISCARD;
void dt_chain_plan_deinit(dt_chain_plan *p);

/* The same for several budgets of one chain, which is borrowed: where bytes are counted exactly,
 * the table made for a budget has the plans of all lower ones. NULL when memory is out. */
typedef struct dti_chain_solver dti_chain_solver;
dti_chain_solver *dti_chain_solver_new(const dt_chain *c) DT_NODISCARD;
dt_status dti_chain_solver_plan(
    dti_chain_solver *s, dt_chain_plan *out, uint64_t budget, dt_err *err) DT_NODISCARD;
/* The same from the table made last where that has room, though one for so few bytes would count
 * them more finely: for many budgets, the largest first. */
dt_status dti_chain_solver_roughly(
    dti_chain_solver *s, dt_chain_plan *out, uint64_t budget, dt_err *err) DT_NODISCARD;
void dti_chain_solver_free(dti_chain_solver *s);

/* Bytes that a plan's steps take at most, the input's among them. */
uint64_t dt_chain_peak(const dt_chain *c, const dt_chain_plan *p);
/* The least budget in which dt_chain_solve finds a sequence where bytes are exact. DT_E_NOMEM. */
dt_status dt_chain_least(const dt_chain *c, uint64_t *out, dt_err *err) DT_NODISCARD;
/* Bytes in which all tapes are kept, the input's among them. */
uint64_t dti_chain_most(const dt_chain *c);
/* Whether all sizes are multiples of the unit, so that a plan in it is an optimum. */
bool dt_chain_counts_bytes(const dt_chain *c, uint64_t unit);

/* Revolve's sequence for @n stages that are alike, the loss the last, with @states inputs of stages
 * kept at once, the first one's among them: dt_revolve_extra(n, states) forward steps more than
 * stages. Release with dt_chain_plan_deinit. DT_E_NOMEM. */
dt_status dti_revolve_steps(
    dt_chain_plan *out, uint32_t n, uint64_t states, dt_err *err) DT_NODISCARD;

/* --- chains within graphs --- */

/**
 * struct dti_chain_stages - a graph that trains, cut into stages.
 * @chain: costs and bytes of the stages, for dt_chain_solve; borrowed by nobody
 * @first: by stage and one more: its first op of forward
 * @stage: by op of backward: the stage whose backward it belongs to, none higher behind it
 * @points: every cut is where one value alone crosses
 */
typedef struct dti_chain_stages {
    dt_chain chain;
    uint32_t *first, *stage;
    bool points;
} dti_chain_stages;

typedef enum dti_chain_cuts { DTI_CHAIN_AUTO, DTI_CHAIN_POINTS, DTI_CHAIN_LINEAR } dti_chain_cuts;

/* Cut a graph behind ops of forward: where one value alone crosses (articulation points); after any
 * op, what crosses being the input of the next stage (Checkmate's linearised candidates); auto:
 * that where points leave more than half of the bytes in one stage. At most @most stages: the
 * smallest neighbours become one. @mirror: by op of backward, the op of forward that it belongs to,
 * or UINT32_MAX; NULL: as if backward were forward in a mirror. Release with
 * dti_chain_stages_deinit, even after a failure. DT_E_CONFIG where nothing is of backward. */
dt_status dti_chain_of_graph(dti_chain_stages *out, const dt_remat_graph *g, dti_chain_cuts cuts,
    uint32_t most, const uint32_t *mirror, dt_err *err) DT_NODISCARD;
void dti_chain_stages_deinit(dti_chain_stages *s);

/* A plan of its stages as runs of the graph's ops. What a stage's backward reads and is not there
 * is made again, whatever the plan says, and what nobody would read does not run. @once: as of
 * dti_remat_search. Release with dti_remat_sequence_deinit, even after a failure. */
dt_status dti_chain_runs(dt_remat_sequence *out, const dt_remat_graph *g, const dti_chain_stages *s,
    const dt_chain_plan *plan, const uint8_t *once, dt_err *err) DT_NODISCARD;

#endif
